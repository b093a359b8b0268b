package approval

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
)

// reply is an answer before it is written: a page by its template, a redirect, or raw bytes.
type reply struct {
	Status int
	title  string
	name   string // of the template of the page's content
	data   any
	eye    *eye   // that looked at the text of others on the page
	live   string // where the page asks whether it has changed, "" where it does not
	etag   string // of what it says now

	raw         []byte
	contentType string
	cache       string
	header      map[string]string
	cookies     []*http.Cookie
}

func (p *reply) with(cookies ...*http.Cookie) *reply {
	p.cookies = append(p.cookies, cookies...)
	return p
}

// seeOther sends the browser on with a GET.
func seeOther(location string) *reply {
	return &reply{Status: http.StatusSeeOther, title: "Moved", name: "moved",
		header: map[string]string{"Location": location}}
}

// notice is a page that says one thing.
type notice struct {
	Heading, Text string
	Link, Label   string // where to go from here
}

// trouble is a page that says what went wrong and leads to the queue.
func trouble(status int, heading, text string) *reply {
	return tell(status, notice{Heading: heading, Text: text, Link: "/", Label: "To the queue"})
}

func tell(status int, n notice) *reply {
	return &reply{Status: status, title: n.Heading, name: "notice", data: n}
}

func notFound() *reply {
	return trouble(http.StatusNotFound, "There is no such page", "It does not exist, or it is not for you to see.")
}

func notAllowed(method string) *reply {
	allow := method
	if method == http.MethodGet {
		allow = "GET, HEAD"
	}
	answer := trouble(http.StatusMethodNotAllowed, "This cannot be done here",
		"This address takes "+allow+" only. Nothing was decided.")
	answer.header = map[string]string{"Allow": allow}
	return answer
}

// frame is what the layout is given.
type frame struct {
	Title   string
	Style   string
	Script  string
	Live    string
	ETag    string
	Who     *identity
	Desk    bool // the person may settle something
	Levers  bool // the person may close and open switches
	CSRF    string
	Flash   *flash
	Eye     *eye
	Content template.HTML
}

// render makes the whole page. The content comes first, so that what was found in it can be warned of above it.
func (w *web) render(r *http.Request, answer *reply) ([]byte, error) {
	if answer.raw != nil {
		return answer.raw, nil
	}
	answer.contentType = "text/html; charset=utf-8"
	content, err := w.part(answer.name, answer.data)
	if err != nil {
		return nil, err
	}
	f := frame{Title: answer.title, Style: w.style, Script: w.script, Live: answer.live, ETag: answer.etag, Eye: answer.eye,
		Content: content}
	if w.hasSession(r.Context()) {
		f.Who, f.CSRF = w.visitor(r.Context()), w.formToken(r.Context())
		f.Desk = f.Who != nil && len(w.a.deskScopes(f.Who)) > 0
		f.Levers = f.Who != nil && len(w.a.switchTenants(f.Who)) > 0
		if answer.Status != http.StatusSeeOther {
			f.Flash = w.takeFlash(r.Context())
		}
	}
	page, err := w.part("layout", f)
	return []byte(page), err
}

// part renders one template.
func (w *web) part(name string, data any) (template.HTML, error) {
	var out bytes.Buffer
	if err := w.pages.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return template.HTML(out.String()), nil //nolint:gosec // html/template has escaped it
}
