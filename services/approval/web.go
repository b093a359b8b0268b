package approval

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/alexedwards/scs/v2"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

//go:embed templates/*.html static/*
var files embed.FS

// web is the pages. They work without any script: ours adds keys, and tells what has changed. Nothing that a GET does moves a
// request (A3).
//
// A page, by file: session.go (what is kept of a visitor), csrf.go (was a form ours), web_queue.go, web_card.go, web_view.go,
// web_batch.go, web_unattended.go, web_desk.go, web_desk_case.go, web_switch.go and web_breakglass.go (what is shown; web_change.go: beside what the
// target holds, web_since.go: what has changed,
// web_rules.go: what runs again, web_steps.go and web_run.go: what happened), web_watch.go (has it changed), web_text.go (how the
// text of others is shown), web_decide.go (forms), web_reply.go (how
// an answer is written).
type web struct {
	a        *Approval
	origin   string // of PublicURL
	secure   bool   // PublicURL is https
	sessions *scs.SessionManager
	cross    *http.CrossOriginProtection
	pages    *template.Template
	policy   string // Content-Security-Policy
	style    string // address of the stylesheet, which changes with it
	script   string // of the script, likewise
}

func newWeb(_ context.Context, a *Approval) (*web, error) {
	public, err := url.Parse(a.settings.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("HOLDPOINT_APPROVAL_PUBLIC_URL: %w", err)
	}
	w := &web{a: a, origin: public.Scheme + "://" + public.Host, secure: public.Scheme == "https",
		cross: http.NewCrossOriginProtection()}
	w.sessions = newSessions(a.env.Pool, a.settings, w.secure)
	if err := w.cross.AddTrustedOrigin(w.origin); err != nil {
		return nil, fmt.Errorf("HOLDPOINT_APPROVAL_PUBLIC_URL: %w", err)
	}
	for name, at := range map[string]*string{"style.css": &w.style, "holdpoint.js": &w.script} {
		data, err := files.ReadFile("static/" + name)
		if err != nil {
			return nil, fmt.Errorf("read the pages' own files: %w", err)
		}
		sum := sha256.Sum256(data)
		*at = "/static/" + name + "?v=" + hex.EncodeToString(sum[:4])
	}
	if w.pages, err = template.New("").Funcs(pageFuncs).ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	w.policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; " +
		"form-action 'self'" + originOf(a.settings.Issuer)
	return w, nil
}

// originOf is " " and the origin of an address, or "" where it has none: browsers hold form-action against redirects as
// well.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return ""
	}
	return " " + u.Scheme + "://" + u.Host
}

// routes of the pages. GET answers HEAD as well.
func (w *web) routes(mux *http.ServeMux) {
	page := func(method, path string, next func(*http.Request) *reply) {
		mux.HandleFunc(method+" "+path, w.page(next))
		mux.HandleFunc(path, w.page(func(*http.Request) *reply { return notAllowed(method) }))
	}
	page(http.MethodGet, "/{$}", w.signedIn(w.queuePage))
	page(http.MethodGet, "/next", w.signedIn(w.nextPage))
	page(http.MethodGet, "/batch", w.signedIn(w.batchPage))
	mux.HandleFunc("POST /batch", w.page(w.form(w.batchForm)))
	mux.HandleFunc("GET /queue/state", w.watch(w.queueState))
	mux.HandleFunc("GET /approvals/{approval}/state", w.watch(w.cardState))
	page(http.MethodGet, "/approvals/{approval}", w.signedIn(w.cardPage))
	page(http.MethodPost, "/approvals/{approval}/decision", w.form(w.decisionForm))
	page(http.MethodPost, "/approvals/{approval}/withdraw", w.form(w.withdrawForm))
	page(http.MethodPost, "/approvals/{approval}/take-back", w.form(w.takeBackApproved))
	page(http.MethodPost, "/approvals/{approval}/judgement", w.form(w.judgeGlassForm))
	page(http.MethodGet, "/unattended", w.signedIn(w.unattendedPage))
	page(http.MethodGet, "/unattended/{run}", w.signedIn(w.casePage))
	page(http.MethodPost, "/unattended/{run}/take-back", w.form(w.takeBackForm))
	page(http.MethodPost, "/unattended/{run}/judgement", w.form(w.judgeForm))
	page(http.MethodGet, "/desk", w.signedIn(w.deskPage))
	page(http.MethodGet, "/desk/{operation}", w.signedIn(w.deskCasePage))
	page(http.MethodPost, "/desk/{operation}/resolution", w.form(w.resolutionForm))
	page(http.MethodGet, switchesPath, w.signedIn(w.switchesPage))
	page(http.MethodPost, switchesPath+"/closing", w.form(w.closeForm))
	page(http.MethodPost, switchesPath+"/opening", w.form(w.openForm))
	page(http.MethodGet, switchesPath+"/{tenant}/{switch}", w.signedIn(w.switchPage))
	page(http.MethodGet, runPath+"{tenant}/{run}", w.signedIn(w.runPage))
	page(http.MethodGet, linkPath+"{token}", w.linkPage)
	page(http.MethodGet, "/sign-in", w.signIn)
	page(http.MethodGet, callbackPath, w.callback)
	page(http.MethodPost, "/sign-out", w.form(w.signOut))
	mux.HandleFunc("GET /static/{file}", w.static)
	mux.HandleFunc("/", w.elsewhere)
}

// elsewhere is every address that there is not.
func (w *web) elsewhere(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		w.a.problem(rw, contracts.CodeNotFound, "There is no such address, or it does not take "+r.Method+".")
		return
	}
	w.page(func(*http.Request) *reply { return notFound() })(rw, r)
}

// static has no session: what caches may keep must never carry a cookie.
func (w *web) static(rw http.ResponseWriter, r *http.Request) {
	w.headers(rw.Header())
	name := r.PathValue("file")
	data, err := files.ReadFile("static/" + name)
	if err != nil {
		w.write(rw, r, notFound())
		return
	}
	kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	w.write(rw, r, &reply{Status: http.StatusOK, raw: data, contentType: kind[path.Ext(name)], cache: "public, max-age=86400"})
}

// page loads the visitor's session, lets the page be made, stores the session, and only then answers: what the answer
// says to be kept is kept.
func (w *web) page(next func(*http.Request) *reply) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.headers(rw.Header())
		ctx, err := w.loadSession(r)
		if err != nil {
			w.a.env.Log.Error("a session could not be read", "error", err)
			w.write(rw, r, trouble(http.StatusServiceUnavailable, "Holdpoint cannot answer now",
				"Nothing was decided. Try again."))
			return
		}
		r = r.WithContext(ctx)
		answer := next(r)
		body, err := w.render(r, answer)
		if err != nil {
			w.a.env.Log.Error("a page could not be made", "page", answer.name, "error", err)
			answer = trouble(http.StatusInternalServerError, "Something failed", lookAgain)
			body, _ = w.render(r, answer)
		}
		if err := w.saveSession(rw, r); err != nil {
			answer = w.failure(fmt.Errorf("store the session: %w", err))
			body, _ = w.render(r, answer)
		}
		w.send(rw, answer, body)
	}
}

const lookAgain = "Look at the request again before you decide again: whether anything was recorded is not known."

// failure is the page of an error, which is logged.
func (w *web) failure(err error) *reply {
	switch {
	case errors.Is(err, ledger.ErrNoApproval), errors.Is(err, ledger.ErrNoUnattended), errors.Is(err, ledger.ErrNoRun),
		errors.Is(err, ledger.ErrNoOperation):
		return notFound()
	case errors.Is(err, context.Canceled):
		return trouble(http.StatusServiceUnavailable, "The connection ended", lookAgain)
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrOverloaded):
		w.a.env.Log.Warn("a page could not be shown now", "error", err)
		return trouble(http.StatusServiceUnavailable, "Holdpoint cannot answer now", "Nothing was decided. Try again.")
	}
	w.a.env.Log.Error("a page failed", "error", err)
	return trouble(http.StatusInternalServerError, "Something failed", lookAgain)
}

// signedIn lets people through who have signed in, and sends others to do so.
func (w *web) signedIn(next func(*http.Request, *identity) *reply) func(*http.Request) *reply {
	return func(r *http.Request) *reply {
		who := w.visitor(r.Context())
		if who == nil {
			return seeOther(signInPath(r.URL.RequestURI(), false))
		}
		return next(r, who)
	}
}

// headers of every answer. The policy allows no script but our file, no frame and nothing from elsewhere; a referrer would tell
// where a link's token was.
func (w *web) headers(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", w.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if w.secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// write answers without a session.
func (w *web) write(rw http.ResponseWriter, r *http.Request, answer *reply) {
	body, err := w.render(r, answer)
	if err != nil {
		w.a.env.Log.Error("a page could not be made", "page", answer.name, "error", err)
	}
	w.send(rw, answer, body)
}

func (w *web) send(rw http.ResponseWriter, answer *reply, body []byte) {
	h := rw.Header()
	for _, cookie := range answer.cookies {
		http.SetCookie(rw, cookie)
	}
	for name, value := range answer.header {
		h.Set(name, value)
	}
	if answer.cache != "" {
		h.Set("Cache-Control", answer.cache)
	}
	h.Set("Content-Type", answer.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(answer.Status)
	_, _ = bytes.NewReader(body).WriteTo(rw) // whoever asked is gone, and what was decided stays decided
}
