package sandbox

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed pages.html
var pagesSource string

var pages = template.Must(template.New("pages").
	Funcs(template.FuncMap{"links": links, "body": showBody}).Parse(pagesSource))

// mailRow is a message in the list, which needs no body decoded.
type mailRow struct {
	ID         uint64
	ReceivedAt time.Time
	To         []string
	Subject    string
}

func rowOf(e entry[letter]) mailRow {
	return mailRow{ID: e.ID, ReceivedAt: e.Item.ReceivedAt, To: e.Item.To, Subject: subjectOf(e.Item.Raw)}
}

func (s *Server) mailsPage(w http.ResponseWriter, _ *http.Request) {
	listPage(w, "mails", s.inbox.mail, rowOf)
}

func (s *Server) mailPage(w http.ResponseWriter, r *http.Request) {
	itemPage(w, r, "mail", s.inbox.mail, showMail)
}

func (s *Server) hooksPage(w http.ResponseWriter, _ *http.Request) {
	listPage(w, "hooks", s.inbox.hooks, showHook)
}

func (s *Server) hookPage(w http.ResponseWriter, r *http.Request) {
	itemPage(w, r, "hook", s.inbox.hooks, showHook)
}

// listPage shows all that a shelf holds, newest first.
func listPage[T, V any](w http.ResponseWriter, page string, from *shelf[T], show func(entry[T]) V) {
	found, err := from.find(0, func(*T) bool { return true })
	if err != nil {
		respond(w, http.StatusInternalServerError, unavailable(err).view())
		return
	}
	views := make([]V, 0, len(found))
	for _, e := range slices.Backward(found) {
		views = append(views, show(e))
	}
	render(w, page, views)
}

// itemPage shows what the path's id names.
func itemPage[T, V any](w http.ResponseWriter, r *http.Request, page string, from *shelf[T], show func(entry[T]) V) {
	id, _ := strconv.ParseUint(r.PathValue("id"), 10, 64) // nonsense is 0, which is nobody's id
	e, held, err := from.get(id)
	switch {
	case err != nil:
		respond(w, http.StatusInternalServerError, unavailable(err).view())
	case !held:
		respond(w, http.StatusNotFound, notFound(page+", or it is too old to be held").view())
	default:
		render(w, page, show(e))
	}
}

// render sends a page that may load nothing and run nothing, whatever a message brought along. A link that it leads to,
// which may carry a secret, is told of no address of ours.
func render(w http.ResponseWriter, page string, data any) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, page, data); err != nil {
		panic(err) // the templates and their data are our own
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	_, _ = out.WriteTo(w) // the reader has gone
}

// stretch is a piece of text, and the address it leads to where it is one.
type stretch struct{ Text, URL string }

var webAddress = regexp.MustCompile(`(?i)\bhttps?://[^\s<>"]+`)

// links cuts a text into stretches. Only http and https addresses with a host become links; a full stop or a bracket at
// the end belongs to the sentence around it.
func links(text string) []stretch {
	var all []stretch
	from := 0
	for _, at := range webAddress.FindAllStringIndex(text, -1) {
		found := strings.TrimRight(text[at[0]:at[1]], `.,;:!?')]}`)
		if u, err := url.Parse(found); err != nil || u.Host == "" {
			continue
		}
		if at[0] > from {
			all = append(all, stretch{Text: text[from:at[0]]})
		}
		from = at[0] + len(found)
		all = append(all, stretch{Text: found, URL: found})
	}
	if from < len(text) {
		all = append(all, stretch{Text: text[from:]})
	}
	return all
}

// showBody indents JSON and shows anything else as it is.
func showBody(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") == nil {
		body = out.Bytes()
	}
	return printable(string(body))
}
