package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// httpDoor is the HTTP API.
type httpDoor struct{ in *Intake }

// Run serves until the context ends, then finishes the requests it has.
func (d *httpDoor) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           d.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		_ = server.Shutdown(drain) // what is cut off was not answered, and its sender sends it again
	})
	defer stop()
	if err := server.Serve(d.in.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve events: %w", err)
	}
	return nil
}

func (d *httpDoor) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sources/{source}/events", d.as(config.ScopePublish, d.event))
	mux.HandleFunc("POST /v1/sources/{source}/claims", d.as(config.ScopeWork, d.claim))
	mux.HandleFunc("POST /v1/runs/{run}/renewal", d.as(config.ScopeWork, d.renew))
	mux.HandleFunc("POST /v1/runs/{run}/proposal", d.as(config.ScopeWork, d.submit))
	mux.HandleFunc("POST /v1/runs/{run}/failure", d.as(config.ScopeWork, d.fail))
	mux.HandleFunc("GET /v1/runs/{run}", d.as(config.ScopeRead, d.run))
	mux.HandleFunc("GET /v1/runs", d.as(config.ScopeRead, d.find))
	return mux
}

// handler answers a request of a known caller.
type handler func(w http.ResponseWriter, r *http.Request, c *caller)

// as lets callers through that hold an API key with the scope.
func (d *httpDoor) as(scope string, next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		c := d.in.keys[sha256.Sum256([]byte(token))]
		switch {
		case !ok || c == nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeProblem(w, contracts.NewProblem(contracts.CodeUnauthenticated, "Send an API key: Authorization: Bearer <key>."))
		case !c.scopes[scope]:
			writeProblem(w, contracts.NewProblem(contracts.CodeForbidden, fmt.Sprintf("The API key %q does not have the scope %q.", c.name, scope)))
		default:
			next(w, r, c)
		}
	}
}

// event takes an event in: 202 where its run has yet to end, 200 with the result where it has.
func (d *httpDoor) event(w http.ResponseWriter, r *http.Request, c *caller) {
	claim, problem := d.admit(w, r, c)
	if problem != nil {
		writeProblem(w, problem)
		return
	}
	claimed, err := d.in.claims.Do(r.Context(), claim)
	d.answer(w, r, claimed, err, uuid.Nil)
}

// claim takes an event in and gives its run to the caller under a lease, unless another worker has it.
func (d *httpDoor) claim(w http.ResponseWriter, r *http.Request, c *caller) {
	claim, problem := d.admit(w, r, c)
	if problem == nil && c.tenant.sources[r.PathValue("source")].Mode != config.ModeWorker {
		problem = contracts.NewProblem(contracts.CodeForbidden, "This source's events carry their proposals; post them to /events.")
	}
	owner := uuid.New()
	if given := r.Header.Get("Holdpoint-Owner"); given != "" && problem == nil {
		var err error
		if owner, err = uuid.Parse(given); err != nil || owner == uuid.Nil {
			problem = contracts.NewProblem(contracts.CodeMalformed, "Holdpoint-Owner must be a random UUID, new for every execution.")
		}
	}
	if problem != nil {
		writeProblem(w, problem)
		return
	}
	terms := c.tenant.sources[r.PathValue("source")].Lease
	claim.Lease = &ledger.LeaseTerms{Owner: owner, Duration: terms.Duration, MaxLifetime: terms.MaxLifetime}
	claimed, err := d.in.claims.Do(r.Context(), claim)
	if left := time.Until(claimed.Run.LeaseExpiresAt()); left > 0 && claimed.Run.LeaseOwner != owner {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(left.Seconds())))) // not longer than the lease that is left
	}
	d.answer(w, r, claimed, err, owner)
}

func (d *httpDoor) admit(w http.ResponseWriter, r *http.Request, c *caller) (ledger.Claim, *contracts.Problem) {
	s := c.tenant.sources[r.PathValue("source")]
	if s == nil {
		return ledger.Claim{}, contracts.NewProblem(contracts.CodeUnknownSource, fmt.Sprintf("No source is called %q.", r.PathValue("source")))
	}
	raw, problem := readBody(w, r, s.MaxBytes)
	if problem != nil {
		return ledger.Claim{}, problem
	}
	return c.tenant.admit(s, &delivery{raw: raw, headers: r.Header})
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *contracts.Problem) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, contracts.NewProblem(contracts.CodeTooLarge, fmt.Sprintf("At most %d bytes are taken.", limit))
	case err != nil:
		return nil, contracts.NewProblem(contracts.CodeMalformed, "The body ended early.")
	}
	return raw, nil
}

// run tells where a run stands.
func (d *httpDoor) run(w http.ResponseWriter, r *http.Request, c *caller) {
	id, err := uuid.Parse(r.PathValue("run"))
	if err != nil {
		writeProblem(w, contracts.NewProblem(contracts.CodeNotFound, "A run's id is a UUID."))
		return
	}
	d.show(w, r, c, id)
}

// find tells where the run of an idempotency key stands.
func (d *httpDoor) find(w http.ResponseWriter, r *http.Request, c *caller) {
	key := r.URL.Query().Get("key")
	if key == "" {
		writeProblem(w, contracts.NewProblem(contracts.CodeKeyMissing, "Ask for a run by its key: /v1/runs?key=…"))
		return
	}
	d.show(w, r, c, ledger.RunID(c.tenant.ID, key))
}

func (d *httpDoor) show(w http.ResponseWriter, r *http.Request, c *caller, id uuid.UUID) {
	runs, err := d.in.env.Ledger.Runs(r.Context(), c.tenant.ID, id)
	switch {
	case err != nil:
		writeProblem(w, d.in.problem(err))
	case len(runs) == 0:
		writeProblem(w, contracts.NewProblem(contracts.CodeNotFound, ""))
	default:
		writeJSON(w, http.StatusOK, d.in.describe(&runs[0], statusOf(&runs[0]), uuid.Nil))
	}
}

// statusOf is the result that a duplicate would be answered with now.
func statusOf(run *ledger.Run) string {
	switch {
	case run.Unknown():
		return contracts.ResultOutcomeUnknown
	case run.Ended():
		return contracts.ResultDuplicateWithResult
	}
	return contracts.ResultDuplicate
}

func (d *httpDoor) answer(w http.ResponseWriter, r *http.Request, claimed ledger.Claimed, err error, owner uuid.UUID) {
	answer, problem := d.in.answer(r.Context(), claimed, err, owner)
	if problem != nil {
		writeProblem(w, problem)
		return
	}
	status := http.StatusAccepted
	if answer.Result == contracts.ResultDuplicateWithResult {
		status = http.StatusOK
	}
	w.Header().Set("Location", answer.StatusURL)
	writeJSON(w, status, answer)
}

func writeProblem(w http.ResponseWriter, p *contracts.Problem) {
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", contracts.ProblemContentType)
	write(w, p.Status, p)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client is gone, and what was stored stays stored
}
