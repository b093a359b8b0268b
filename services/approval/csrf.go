package approval

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// largestForm is in bytes: a reason of 2,000 characters, each percent-encoded, and the fields around it.
const largestForm = 64 << 10

// formToken is what every form of the session carries.
func (w *web) formToken(ctx context.Context) string { return w.sessions.GetString(ctx, keyForm) }

// form lets a form through that our own page sent for somebody who is signed in (A3): the browser says that it came
// from here, and it has the token that only our pages have. Whatever is refused here has changed nothing.
func (w *web) form(next func(*http.Request, *identity) *reply) func(*http.Request) *reply {
	return func(r *http.Request) *reply {
		if err := w.cross.Check(r); err != nil {
			return trouble(http.StatusForbidden, "This form came from another site", "Nothing was decided.")
		}
		who := w.visitor(r.Context())
		if who == nil {
			return tell(http.StatusForbidden, notice{Heading: "You are not signed in",
				Text: "Nothing was decided. Sign in, look at the request again, and decide then.",
				Link: signInPath(cardOf(r), false), Label: "Sign in"})
		}
		r.Body = http.MaxBytesReader(nil, r.Body, largestForm)
		if err := r.ParseForm(); err != nil {
			var tooLarge *http.MaxBytesError
			if errors.As(err, &tooLarge) {
				return trouble(http.StatusRequestEntityTooLarge, "The form is too large",
					"Nothing was decided. Shorten the reason.")
			}
			return trouble(http.StatusBadRequest, "The form cannot be read", "Nothing was decided.")
		}
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(w.formToken(r.Context()))) != 1 {
			return tell(http.StatusForbidden, notice{Heading: "This form is not of your present session",
				Text: "Nothing was decided. Look at the request again, and decide then.",
				Link: cardOf(r), Label: "Look again"})
		}
		return next(r, who)
	}
}

// cardOf is the page to which a form belongs.
func cardOf(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, switchesPath) {
		return switchesPath
	}
	if operation := r.PathValue("operation"); operation != "" {
		return safeReturn("/desk/" + operation)
	}
	return safeReturn("/approvals/" + r.PathValue("approval"))
}
