package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Request is one request to payments or the CRM that could be understood, whatever became of it: the order in which they came tells
// whether somebody looked before writing again.
type Request struct {
	Seq            uint64    `json:"seq"` // 1, 2, 3, … in order of arrival
	Time           time.Time `json:"time"`
	System         string    `json:"system"`
	Operation      string    `json:"operation"`
	Reference      string    `json:"reference,omitempty"` // the caller's operation id
	Path           string    `json:"path"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	BodySHA256     string    `json:"body_sha256,omitempty"` // hex, over the body as it arrived; writes alone
	RequestID      string    `json:"request_id"`            // a write that was accepted has the same
}

// Writes reports whether the request asked for something to be written.
func (r *Request) Writes() bool { return r.Operation == Create || r.Operation == Update }

// requestsKept is how many of the newest requests memory holds. They are on no disk: writes are, in the ledger.
const requestsKept = 10_000

// arrivals are the newest requests.
type arrivals struct {
	mu  sync.Mutex
	seq uint64
	all []Request
}

func (a *arrivals) add(r Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	r.Seq = a.seq
	if len(a.all) == 2*requestsKept {
		a.all = append(a.all[:0], a.all[requestsKept:]...)
	}
	a.all = append(a.all, r)
}

func (a *arrivals) find(f Filter) []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := []Request{}
	for _, r := range a.all[max(0, len(a.all)-requestsKept):] {
		if (f.Reference == "" || f.Reference == r.Reference) && (f.System == "" || f.System == r.System) {
			found = append(found, r)
		}
	}
	return found
}

// note keeps that the request came, before anything becomes of it.
func (x *exchange) note() {
	if x.call.system != Payments && x.call.system != CRM {
		return
	}
	r := Request{Time: x.server.cfg.Now().UTC(), System: x.call.system, Operation: x.call.operation, Reference: x.call.reference,
		Path: x.call.path, IdempotencyKey: x.r.Header.Get("Idempotency-Key"), RequestID: x.w.Header().Get("X-Request-Id")}
	if r.Writes() {
		sum := sha256.Sum256(x.body)
		r.BodySHA256 = hex.EncodeToString(sum[:])
	}
	x.server.arrived.add(r)
}

func (s *Server) listRequests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	respond(w, http.StatusOK, s.arrived.find(Filter{Reference: query.Get("reference"), System: query.Get("system")}))
}

// Requests returns the newest requests that the filter selects, at most 10,000, in the order in which they came.
func (c *Client) Requests(ctx context.Context, filter Filter) (found []Request, err error) {
	query := url.Values{"reference": {filter.Reference}, "system": {filter.System}}
	err = c.call(ctx, http.MethodGet, "/_sandbox/requests?"+query.Encode(), nil, into(&found))
	return found, err
}
