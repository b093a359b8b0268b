package intake

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// httpDoor is the HTTP API.
type httpDoor struct{ in *Intake }

func (d *httpDoor) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sources/{source}/events", d.as("event", config.ScopePublish, d.waited(d.delivered(d.in.event))))
	mux.HandleFunc("POST /v1/hooks/{tenant}/{source}", d.hook)
	mux.HandleFunc("POST /v1/sources/{source}/claims", d.as("claim", config.ScopeWork, d.delivered(d.in.claim)))
	mux.HandleFunc("POST /v1/sources/{source}/work", d.as("work", config.ScopeWork, d.delivered(d.in.work)))
	for path, verb := range map[string]*workerVerb{"renewal": &renewal, "proposal": &submission, "failure": &giveUp} {
		mux.HandleFunc("POST /v1/runs/{run}/"+path, d.as(verb.name, config.ScopeWork, d.worker(verb)))
	}
	mux.HandleFunc("POST /v1/sources/{source}/batches", d.as("batch", config.ScopePublish, d.batch))
	mux.HandleFunc("GET /v1/runs/{run}", d.as("get", config.ScopeRead, d.waited(d.get)))
	mux.HandleFunc("GET /v1/runs", d.as("get", config.ScopeRead, d.waited(d.find)))
	mux.HandleFunc("GET /v1/runs/search", d.as("search", config.ScopeRead, d.search))
	mux.HandleFunc("GET /v1/sources", d.as("sources", config.ScopeRead, d.sources))
	return found(mux)
}

// handler answers a request of a known caller.
type handler func(w http.ResponseWriter, r *http.Request, c *caller) reply

// as lets callers through that hold an API key with the scope, and counts what they are told.
func (d *httpDoor) as(verb, scope string, next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, problem := d.in.callerOf(r.Context(), bearer(r))
		var answer reply
		var over bool
		what := counted{door: doorHTTP, verb: verb}
		switch {
		case problem != nil:
			if problem.Code == contracts.CodeUnauthenticated {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			answer = refuse(problem)
		case !c.scopes[scope]:
			what.tenant = c.tenant.ID
			answer = refuse(newProblemf(contracts.CodeForbidden, "The API key %q does not have the scope %q.", c.name,
				scope))
		default:
			what.tenant = c.tenant.ID
			if answer, over = c.tenant.overRate(1); !over {
				answer = next(w, r, c)
			}
		}
		what.result = answer.result
		d.in.counters.answer(r.Context(), what)
		write(w, &answer)
	}
}

// bearer is the token of the request. No key has the digest of an empty one.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// delivered reads an event of a source.
func (d *httpDoor) delivered(take func(context.Context, *tenant, *source, *delivery) reply) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) reply {
		s, problem := c.tenant.source(r.PathValue("source"))
		if problem != nil {
			return refuse(problem)
		}
		delivered, problem := read(w, r, s.MaxBytes)
		if problem != nil {
			return refuse(problem)
		}
		delivered.sentBy = c.name
		return take(r.Context(), c.tenant, s, delivered)
	}
}

// worker reads a call under a lease.
func (d *httpDoor) worker(v *workerVerb) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) reply {
		call, problem := read(w, r, maxWorkerBytes)
		if problem != nil {
			return refuse(problem)
		}
		return d.in.own(r.Context(), c.tenant, r.PathValue("run"), call, v)
	}
}

// get tells where a run stands.
func (d *httpDoor) get(_ http.ResponseWriter, r *http.Request, c *caller) reply {
	id, problem := runID(r.PathValue("run"))
	if problem != nil {
		return refuse(problem)
	}
	return d.in.get(r.Context(), c.tenant, id)
}

// find tells where the run of an idempotency key stands.
func (d *httpDoor) find(_ http.ResponseWriter, r *http.Request, c *caller) reply {
	keys := r.URL.Query()["key"]
	switch {
	case len(keys) > 1:
		return refuse(newProblem(contracts.CodeKeyAmbiguous, "Ask for one run at a time: there is more than one key."))
	case len(keys) == 0 || keys[0] == "":
		return refuse(newProblem(contracts.CodeKeyMissing, "Ask for a run by its key: /v1/runs?key=…"))
	}
	return d.in.get(r.Context(), c.tenant, ledger.RunID(c.tenant.ID, keys[0]))
}

// read takes a request with one JSON document in. What is said to be something else, or compressed, is not read.
func read(w http.ResponseWriter, r *http.Request, limit int64) (d *delivery, problem *contracts.Problem) {
	d = &delivery{headers: headers(r.Header)}
	if problem := d.checkContentType(); problem != nil {
		leave(w)
		return nil, problem
	}
	d.raw, problem = readBody(w, r, limit)
	return d, problem
}

// readBody reads no further than it is said, or found out, that the body is over the limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *contracts.Problem) {
	tooLarge := newProblemf(contracts.CodeTooLarge, "At most %d bytes are taken.", limit)
	if r.ContentLength > limit {
		leave(w)
		return nil, tooLarge
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	var raw []byte
	var err error
	if r.ContentLength >= 0 {
		raw = make([]byte, r.ContentLength)
		_, err = io.ReadFull(body, raw)
	} else {
		raw, err = io.ReadAll(body)
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, newProblem(contracts.CodeMalformed, "The body ended early.")
	}
	return raw, nil
}

// leave has the answer sent without waiting for the body that it refuses.
func leave(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

func write(w http.ResponseWriter, r *reply) {
	data := r.encode()
	h := w.Header()
	h.Set("Content-Type", r.contentType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if r.location != "" {
		h.Set("Location", r.location)
	}
	if r.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if r.retryAfter != "" {
		h.Set("Retry-After", r.retryAfter)
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(data) // the client is gone, and what was stored stays stored
}
