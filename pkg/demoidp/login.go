package demoidp

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const cookieName = "holdpoint_demo_session"

// formHeader marks the answer that holds the sign-in form, for Browser.
const formHeader = "Holdpoint-Demo-Sign-In"

const contentPolicy = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"

//go:embed page.html
var pageText string

//go:embed style.css
var styleText []byte

var pages = template.Must(template.New("").Parse(pageText))

// page is what the form shows. Complaint is why the last try failed.
type page struct {
	ID, Client, Complaint, Password string
	Hint                            string
	People                          []Person
}

// showLogin answers at once when a session does, and otherwise shows the form, unless the application forbade it.
func (p *Provider) showLogin(w http.ResponseWriter, r *http.Request) {
	request, ok := p.storage.requests.get(r.FormValue("id"))
	if !ok {
		p.render(w, http.StatusBadRequest, "expired", nil)
		return
	}
	if s, ok := p.session(r); ok && request.answeredBy(s, p.now()) {
		p.finish(w, r, request, s)
		return
	}
	if request.silent() {
		op.AuthRequestError(w, r, &request, oidc.ErrLoginRequired().WithDescription("nobody is signed in here"), p.op)
		return
	}
	p.showForm(w, http.StatusOK, request, "")
}

// login checks the password. It answers the same for a wrong password, an unknown name and a disabled person.
func (p *Provider) login(w http.ResponseWriter, r *http.Request) {
	request, ok := p.storage.requests.get(r.FormValue("id"))
	if !ok {
		p.render(w, http.StatusBadRequest, "expired", nil)
		return
	}
	login := r.PostFormValue("login")
	if login == "" {
		p.showForm(w, http.StatusBadRequest, request, "Press the button with the name of the person to sign in as.")
		return
	}
	if !p.storage.people.authenticate(login, r.PostFormValue("password")) {
		p.log.WarnContext(r.Context(), "demo sign-in refused", "login", login, "client", request.ClientID)
		p.showForm(w, http.StatusUnauthorized, request, "That password does not fit. Nobody was signed in.")
		return
	}
	p.log.InfoContext(r.Context(), "demo sign-in", "subject", login, "client", request.ClientID)
	p.finish(w, r, request, p.startSession(w, r, login))
}

// startSession gives the browser a new cookie; the old session of the same browser ends with it.
func (p *Provider) startSession(w http.ResponseWriter, r *http.Request, subject string) session {
	if old, err := r.Cookie(cookieName); err == nil {
		p.storage.sessions.take(old.Value)
	}
	s, id := session{subject: subject, authTime: p.now()}, rand.Text()
	p.storage.sessions.put(id, s)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode})
	return s
}

// session is the live session of the browser that asks, of a person who may still sign in.
func (p *Provider) session(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return session{}, false
	}
	s, ok := p.storage.sessions.get(cookie.Value)
	if !ok {
		return session{}, false
	}
	_, ok = p.storage.people.active(s.subject)
	return s, ok
}

// finish records who answers the request and sends the browser on to the library, which makes the code.
func (p *Provider) finish(w http.ResponseWriter, r *http.Request, request authRequest, s session) {
	p.storage.requests.update(request.id, func(kept *authRequest) {
		kept.subject, kept.authTime, kept.done = s.subject, s.authTime, true
	})
	http.Redirect(w, r, "/authorize/callback?id="+url.QueryEscape(request.id), http.StatusSeeOther)
}

func (p *Provider) showForm(w http.ResponseWriter, status int, request authRequest, complaint string) {
	people := p.storage.people.all()
	shown := page{ID: request.id, Client: request.ClientID, Complaint: complaint, People: people}
	if slices.ContainsFunc(people, func(person Person) bool { return person.Password == DemoPassword }) {
		shown.Password = DemoPassword
	}
	if slices.ContainsFunc(people, func(person Person) bool { return person.Subject == request.LoginHint }) {
		shown.Hint = request.LoginHint
	}
	w.Header().Set(formHeader, "form")
	p.render(w, status, "login", shown)
}

func (p *Provider) signedOut(w http.ResponseWriter, _ *http.Request) {
	p.render(w, http.StatusOK, "signed-out", nil)
}

func (p *Provider) render(w http.ResponseWriter, status int, name string, data any) {
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, data); err != nil {
		p.log.Error("demo sign-in: the page cannot be rendered", "page", name, "error", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	// A browser that has gone away needs no page.
	_, _ = body.WriteTo(w)
}

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(styleText)
}
