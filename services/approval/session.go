package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Keys of a session. Somebody who has not signed in has none, so strangers and scanners leave no rows. No token is in
// it, neither the provider's nor a link's: the database never holds a raw one (A2).
const (
	keyWho   = "who"    // the identity
	keyForm  = "form"   // the token of this session's forms
	keyFlash = "flash"  // told once on the next page
	keyShown = "shown:" // and the approval: the page that the person saw
	keyDraft = "draft:" // and the approval: the reason that was typed before a step-up
)

// keptPages bounds how many pages and drafts one session remembers.
const keptPages = 96

type sessionLoaded struct{}

// newSessions keeps sessions in the database, by the hash of their token. Whoever signs in sweeps the expired ones out:
// there is no goroutine, neither the store's nor the one that scs.New starts for a store of its own and cannot be
// stopped.
func newSessions(pool *pgxpool.Pool, s Settings, secure bool) *scs.SessionManager {
	m := &scs.SessionManager{Store: sessionStore{pgxstore.NewWithCleanupInterval(pool, 0), pool}, HashTokenInStore: true,
		Codec: scs.GobCodec{}, Lifetime: s.SessionLifetime, IdleTimeout: s.SessionIdle}
	m.Cookie = scs.SessionCookie{Name: cookieName("session", secure), Path: "/", HttpOnly: true, Secure: secure,
		SameSite: http.SameSiteLaxMode, Persist: true}
	return m
}

// cookieName has the prefix by which browsers refuse the cookie from a sibling host or over http.
func cookieName(name string, secure bool) string {
	if secure {
		return "__Host-holdpoint_" + name
	}
	return "holdpoint_" + name
}

func (w *web) loadSession(r *http.Request) (context.Context, error) {
	token := ""
	if cookie, err := r.Cookie(w.sessions.Cookie.Name); err == nil {
		token = cookie.Value
	}
	ctx, err := w.sessions.Load(r.Context(), token)
	if err != nil {
		return nil, fmt.Errorf("load the session: %w", err)
	}
	return context.WithValue(ctx, sessionLoaded{}, true), nil
}

func (w *web) hasSession(ctx context.Context) bool { return ctx.Value(sessionLoaded{}) != nil }

// saveSession stores what changed. Of a stranger nothing is stored.
func (w *web) saveSession(rw http.ResponseWriter, r *http.Request) error {
	switch w.sessions.Status(r.Context()) {
	case scs.Modified:
		token, expiry, err := w.sessions.Commit(r.Context())
		if err != nil {
			return err
		}
		w.sessions.WriteSessionCookie(r.Context(), rw, token, expiry)
	case scs.Destroyed:
		http.SetCookie(rw, w.cookie(w.sessions.Cookie.Name, "", "/", -1))
	}
	rw.Header().Set("Cache-Control", "no-store")
	return nil
}

// cookie of ours; age is in seconds, below 0 to delete it.
func (w *web) cookie(name, value, path string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: path, MaxAge: age, HttpOnly: true, Secure: w.secure,
		SameSite: http.SameSiteLaxMode}
}

// visitor is who has signed in, or nil.
func (w *web) visitor(ctx context.Context) *identity {
	var who identity
	text := w.sessions.GetString(ctx, keyWho)
	if text == "" || json.Unmarshal([]byte(text), &who) != nil {
		return nil
	}
	return &who
}

// welcome keeps who has just signed in, under a new token, so that nobody can have planted the session. What another
// person left in it is gone.
func (w *web) welcome(ctx context.Context, who *identity) error {
	if before := w.visitor(ctx); before == nil || before.Issuer != who.Issuer || before.Subject != who.Subject {
		if err := w.sessions.Clear(ctx); err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
	}
	if err := w.sessions.RenewToken(ctx); err != nil {
		return fmt.Errorf("renew the session's token: %w", err)
	}
	text, err := json.Marshal(w.kept(who))
	if err != nil {
		return fmt.Errorf("keep who signed in: %w", err)
	}
	w.sessions.Put(ctx, keyWho, string(text))
	if w.formToken(ctx) == "" {
		w.sessions.Put(ctx, keyForm, newToken())
	}
	w.sweepSessions(ctx)
	return nil
}

// sweepSessions deletes what has expired. Expired sessions count for nothing, so a sweep that fails is made up for by the
// next.
func (w *web) sweepSessions(ctx context.Context) {
	if _, err := w.a.env.Pool.Exec(ctx, `delete from sessions where expiry < current_timestamp`); err != nil {
		w.a.env.Log.Warn("expired sessions could not be deleted; the next sign-in tries again", "error", err)
	}
}

// kept is the part of an identity that a session has: the claims are those that roles and requesters are read from.
func (w *web) kept(who *identity) *identity {
	short := *who
	short.Claims = map[string]any{}
	for _, t := range w.a.tenants {
		for name, value := range t.roleClaims(who.Claims) {
			short.Claims[name] = value
		}
	}
	if name := claimText(who.Claims, "preferred_username"); name != "" {
		short.Claims["preferred_username"] = name
	}
	return &short
}

// flash is told once, on the next page. Kind is good, plain or bad. Link is where to go on, "" where it leads nowhere.
type flash struct{ Kind, Text, Link, Label string }

func (w *web) putFlash(ctx context.Context, kind, text string) {
	w.keepFlash(ctx, flash{Kind: kind, Text: text})
}

func (w *web) keepFlash(ctx context.Context, f flash) {
	said, _ := json.Marshal(f) // texts always marshal
	w.sessions.Put(ctx, keyFlash, string(said))
}

func (w *web) takeFlash(ctx context.Context) *flash {
	var f flash
	if json.Unmarshal([]byte(w.sessions.PopString(ctx, keyFlash)), &f) != nil {
		return nil
	}
	return &f
}

// shown is the page of an approval that the person saw last (A17).
type shown struct {
	Digest []byte
	Hash   string // of the intent
	Cut    bool   // a value was not shown whole
	Target string // what was shown of the targets (targetsShown), "" for nothing
	// ReadAt is when the first target was read, and Further when the further ones were. A release that reads only the first has no other.
	ReadAt  time.Time
	Further []time.Time `json:",omitempty"`
}

func (w *web) putShown(ctx context.Context, approval uuid.UUID, s shown) {
	w.forgetPages(ctx, 1)
	text, _ := json.Marshal(s) // bytes and texts always marshal
	w.sessions.Put(ctx, keyShown+approval.String(), string(text))
}

func (w *web) wasShown(ctx context.Context, approval uuid.UUID) (s shown, ok bool) {
	return s, json.Unmarshal([]byte(w.sessions.GetString(ctx, keyShown+approval.String())), &s) == nil
}

// forgetPages drops all remembered pages where as many more would be too many: who comes back to one is shown it anew.
func (w *web) forgetPages(ctx context.Context, more int) {
	var pages []string
	for _, key := range w.sessions.Keys(ctx) {
		if strings.HasPrefix(key, keyShown) || strings.HasPrefix(key, keyDraft) {
			pages = append(pages, key)
		}
	}
	if len(pages)+more <= keptPages {
		return
	}
	for _, key := range pages {
		w.sessions.Remove(ctx, key)
	}
}
