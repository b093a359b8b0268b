package approval

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// linkPage is where the links in messages lead. Mail gateways, chat previews and prefetchers open them before any
// person does, so it changes nothing, however often and by whichever method it is opened, and tells a stranger nothing:
// every token gives the same page, and the database is not even asked (A3, APR-01, APR-02).
func (w *web) linkPage(r *http.Request) *reply {
	token := r.PathValue("token")
	who := w.visitor(r.Context())
	if who == nil {
		return tell(http.StatusOK, notice{Heading: "Sign in to see the request",
			Text: "Opening this page decides nothing.",
			Link: signInPath(linkPath+token, false), Label: "Sign in"})
	}
	found, err := w.a.env.Ledger.FindToken(r.Context(), tokenHash(token))
	if err == nil {
		_, _, err = w.a.cardFor(r.Context(), who, found.ApprovalID)
	}
	switch {
	case errors.Is(err, ledger.ErrNoToken), errors.Is(err, ledger.ErrNoApproval):
		return trouble(http.StatusNotFound, "This link is not valid (any more)",
			"It was used, a newer one has replaced it, its request is "+
				"over, or it was never one. What waits for you is in the queue.")
	case err != nil:
		return w.failure(err)
	}
	return seeOther("/approvals/" + found.ApprovalID.String()).with(w.linkCookie(found.ApprovalID, token, linkAge))
}

// linkAge is for how many seconds a browser remembers which link led to a request.
const linkAge = 3600

// linkCookie carries the token from the link to the decision. It is the browser's alone, and is sent to this one
// request's pages.
func (w *web) linkCookie(approval uuid.UUID, token string, age int) *http.Cookie {
	return w.cookie(w.linkCookieName(), token, "/approvals/"+approval.String(), age)
}

func (w *web) linkCookieName() string {
	if w.secure {
		return "__Secure-holdpoint_link" // a cookie with a path of its own cannot be a __Host- one
	}
	return "holdpoint_link"
}

// linkToken is the token of the link that led to this request, "" where none did.
func (w *web) linkToken(r *http.Request) string {
	if cookie, err := r.Cookie(w.linkCookieName()); err == nil {
		return cookie.Value
	}
	return ""
}
