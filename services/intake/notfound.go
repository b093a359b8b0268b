package intake

import (
	"net/http"
	"path"

	"github.com/holdpoint/holdpoint/contracts"
)

// found answers what the mux has no handler for as everything else is answered, with a problem (RFC 9457). A path that the
// mux would redirect to, because of slashes or dots too many, is not found either: a redirected POST may come back as a GET.
func found(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := mux.Handler(r)
		if pattern != "" && path.Clean(r.URL.Path) == r.URL.Path {
			mux.ServeHTTP(w, r)
			return
		}
		problem := newProblem(contracts.CodeNotFound, "Nothing is at this path. `holdpoint contracts openapi` prints all paths.")
		asked := &asked{header: http.Header{}}
		if pattern == "" {
			handler.ServeHTTP(asked, r)
		}
		if asked.status == http.StatusMethodNotAllowed {
			allowed := asked.header.Get("Allow")
			w.Header().Set("Allow", allowed)
			problem = newProblemf(contracts.CodeMethodNotAllowed, "This path takes %s.", allowed)
		}
		answer := refuse(problem)
		write(w, &answer)
	})
}

// asked learns what the mux would answer, and sends nothing of it.
type asked struct {
	header http.Header
	status int
}

func (a *asked) Header() http.Header            { return a.header }
func (a *asked) WriteHeader(status int)         { a.status = status }
func (a *asked) Write(data []byte) (int, error) { return len(data), nil }
