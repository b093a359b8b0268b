package approval

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const callbackPath = "/callback"

// flowAge is how long somebody may take at the provider.
const flowAge = 10 * time.Minute

// flow is one sign-in that has begun. It is kept in a cookie of its own: several tabs do not disturb each other,
// whoever only looks leaves no row behind, and the token of a link, to which Return may lead, stays out of the database
// (A2).
type flow struct {
	State, Nonce, Verifier string
	Return                 string
	Begun                  time.Time
}

// ourPaths are the pages to which a sign-in may lead back: only these, so no other site and no loop.
var ourPaths = regexp.MustCompile(`^/(approvals/[0-9a-fA-F-]{36}|unattended(/[0-9a-fA-F-]{36})?|` +
	`switches(/[a-z0-9-]{1,32}/[A-Za-z0-9_.:-]{1,200})?|` +
	`desk(/op1-[0-9a-f-]{36}-[0-9]{1,10}-[0-9]{1,10})?|` +
	`runs/[a-z0-9-]{1,32}/[0-9a-fA-F-]{36}|l/[A-Za-z0-9_-]{1,128}|batch|next)?` +
	`(\?[A-Za-z0-9_=&%.+~-]{0,1000})?$`)

// safeReturn is the path if it is one of ours, else the queue.
func safeReturn(path string) string {
	if !ourPaths.MatchString(path) {
		return "/"
	}
	return path
}

// signInPath leads through the provider and back. A step-up asks for the password again.
func signInPath(back string, stepUp bool) string {
	q := url.Values{"return": {safeReturn(back)}}
	if stepUp {
		q.Set("again", "1")
	}
	return "/sign-in?" + q.Encode()
}

// signIn starts the authorization code flow (OpenID Connect Core 3.1) with PKCE (RFC 7636), state and nonce.
func (w *web) signIn(r *http.Request) *reply {
	q := r.URL.Query()
	known, err := w.a.provider.discover(r.Context())
	if err != nil {
		return w.providerDown(err)
	}
	f := flow{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(),
		Return: safeReturn(q.Get("return")), Begun: time.Now()}
	// A provider has to say when somebody signed in only where it was given a max_age (OpenID Connect Core 3.1.2.1).
	maxAge := int(w.a.settings.SessionLifetime.Seconds())
	options := []oauth2.AuthCodeOption{oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)}
	if q.Get("again") == "1" {
		maxAge = 0
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	options = append(options, oauth2.SetAuthURLParam("max_age", strconv.Itoa(maxAge)))
	text, err := json.Marshal(f)
	if err != nil {
		return w.failure(err)
	}
	answer := seeOther(w.a.provider.flow(known, w.origin+callbackPath).AuthCodeURL(f.State, options...))
	return answer.with(w.cookie(w.flowCookie(f.State), base64.RawURLEncoding.EncodeToString(text), "/",
		int(flowAge.Seconds())))
}

// flowCookie is the name of the cookie of a flow.
func (w *web) flowCookie(state string) string { return cookieName("flow_"+state[:16], w.secure) }

// states as GenerateVerifier makes them; they become part of a cookie's name.
var states = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// begun is the flow of this browser to which a callback belongs.
func (w *web) begun(r *http.Request, state string) (f flow, ok bool) {
	if !states.MatchString(state) {
		return f, false
	}
	cookie, err := r.Cookie(w.flowCookie(state))
	if err != nil {
		return f, false
	}
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || json.Unmarshal(text, &f) != nil {
		return f, false
	}
	same := subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) == 1
	return f, same && time.Since(f.Begun) < flowAge
}

// callback is where the provider sends the browser back. Whatever happens, the flow is over.
func (w *web) callback(r *http.Request) *reply {
	q := r.URL.Query()
	f, ok := w.begun(r, q.Get("state"))
	if !ok {
		return startAgain("This sign-in was not begun in this browser, was finished before, or took too long.", "/")
	}
	back := safeReturn(f.Return)
	answer := w.finish(r, f, back)
	return answer.with(w.cookie(w.flowCookie(f.State), "", "/", -1))
}

func (w *web) finish(r *http.Request, f flow, back string) *reply {
	q := r.URL.Query()
	if from := q.Get("iss"); from != "" && from != w.a.settings.Issuer { // RFC 9207
		return startAgain("Another identity provider answered.", back)
	}
	if code := q.Get("error"); code != "" {
		return w.declined(code, back)
	}
	who, err := w.a.provider.exchange(r.Context(), w.origin+callbackPath, q.Get("code"), f.Verifier, f.Nonce)
	var refused *oauth2.RetrieveError
	var network *url.Error
	switch {
	case errors.Is(err, errNotAPerson):
		w.a.env.Log.Warn("a credential that is no person's was refused", "error", err)
		return tell(http.StatusForbidden, notice{Heading: "Only people decide",
			Text: errNotAPerson.Error() + ". Nothing was decided.",
			Link: signInPath("/", true), Label: "Sign in as a person"})
	case errors.Is(err, errProvider), errors.As(err, &network),
		errors.As(err, &refused) && refused.Response.StatusCode >= http.StatusInternalServerError:
		return w.providerDown(err)
	case err != nil:
		w.a.env.Log.Warn("a sign-in failed", "error", err)
		return startAgain("The identity provider did not confirm the sign-in.", back)
	}
	if err := w.welcome(r.Context(), who); err != nil {
		return w.failure(err)
	}
	w.a.env.Log.Info("signed in", "issuer", who.Issuer, "subject", who.Subject)
	return seeOther(back)
}

// declined is an error that the provider sent back (OpenID Connect Core 3.1.2.6). Its code is one of a list and is not
// shown.
func (w *web) declined(code, back string) *reply {
	switch code {
	case "server_error", "temporarily_unavailable":
		return w.providerDown(errors.New(code))
	case "access_denied":
		return tell(http.StatusForbidden, notice{Heading: "You were not signed in",
			Text: "The identity provider did not let you in, or you did not agree. Nothing was decided.",
			Link: signInPath(back, false), Label: "Try again"})
	}
	w.a.env.Log.Warn("the identity provider refused a sign-in", "code", code)
	return startAgain("The identity provider refused the sign-in.", back)
}

func (w *web) providerDown(err error) *reply {
	w.a.env.Log.Error("the identity provider cannot be asked", "error", err)
	answer := tell(http.StatusServiceUnavailable, notice{Heading: "Nobody can sign in now",
		Text: "The identity provider cannot be reached. Nothing was decided; requests wait until they expire.",
		Link: "/", Label: "Try again"})
	answer.header = map[string]string{"Retry-After": "5"}
	return answer
}

func startAgain(why, back string) *reply {
	return tell(http.StatusBadRequest, notice{Heading: "The sign-in did not work", Text: why + " Nothing was decided.",
		Link: signInPath(back, false), Label: "Start again"})
}

// signOut ends the session here, and offers to end the provider's as well (OpenID Connect RP-Initiated Logout 1.0).
func (w *web) signOut(r *http.Request, _ *identity) *reply {
	if err := w.sessions.Destroy(r.Context()); err != nil {
		return w.failure(err)
	}
	n := notice{Heading: "You are signed out", Text: "Of Holdpoint, that is. The identity provider may still know you.",
		Link: "/", Label: "Sign in again"}
	if end := w.endSession(r); end != "" {
		n.Link, n.Label = end, "Sign out of the identity provider too"
	}
	return tell(http.StatusOK, n)
}

// endSession is where the provider ends its session, "" where it offers none.
func (w *web) endSession(r *http.Request) string {
	known, err := w.a.provider.discover(r.Context())
	if err != nil {
		return ""
	}
	var offered struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if known.Claims(&offered) != nil || originOf(offered.EndSession) == "" {
		return ""
	}
	u, err := url.Parse(offered.EndSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", w.a.settings.ClientID)
	q.Set("post_logout_redirect_uri", w.origin+"/")
	u.RawQuery = q.Encode()
	return u.String()
}
