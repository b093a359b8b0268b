package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// theKey is the API key of all these tests.
const theKey = "hp-test-key"

// fault is what goes wrong with one call, in this order.
type fault struct {
	loseRequest bool          // nothing was done
	status      int           // answered instead of doing it
	retryAfter  string        //
	problem     string        // code of the problem that comes with status; "" is no problem of ours
	doFor       time.Duration // how long it takes until it is done
	loseAnswer  bool          // it was done
	answerFor   time.Duration // how long the answer takes
}

// seen is one call as it arrived.
type seen struct {
	path   string
	header http.Header
	body   string
	at     time.Time
}

// intake is a scripted one: it keeps one run's lease and proposal, as the real one would, on a clock of its own, and
// does wrong what it is told to.
type intake struct {
	t     testing.TB
	skew  time.Duration // of its clock
	drift time.Duration // of the clock that leases are stamped by; with one, answers say what is left of a lease
	lease time.Duration
	cap   time.Duration // of all renewals together

	mu        sync.Mutex
	faults    map[string][]fault // by the last part of the path
	calls     []seen
	ended     string // state once the lease has ended by a call
	owner     string
	version   int64
	renewedBy map[string]int64 // answers that can be given again, by what was asked
	expires   time.Time
	capAt     time.Time
	finished  []string // bodies of proposals and failures that were stored
	waiting   int      // runs to be taken
	runs      []string // states that a look at the run finds, one after the other
}

func newIntake(t testing.TB) *intake {
	return &intake{t: t, lease: 30 * time.Second, cap: time.Hour, faults: map[string][]fault{},
		renewedBy: map[string]int64{}}
}

func (f *intake) now() time.Time { return time.Now().Add(f.skew) }

// arrived are the calls of one kind.
func (f *intake) arrived(what string) []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(s seen) bool { return path.Base(s.path) != what })
}

// stored are the proposals and failures that ended a lease.
func (f *intake) stored() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.finished)
}

// fault lets things go wrong with the next calls of a kind.
func (f *intake) fault(what string, faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[what] = append(f.faults[what], faults...)
}

// leaseEnds is when the lease ends, on the clock of this process.
func (f *intake) leaseEnds() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.expires.Add(-f.skew)
}

// takeOver gives the run to another worker.
func (f *intake) takeOver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner, f.version = "another", f.version+1
}

func (f *intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	what := path.Base(r.URL.Path)
	fault := f.arrive(what, seen{r.URL.RequestURI(), r.Header.Clone(), string(body), time.Now()})
	if fault.loseRequest {
		panic(http.ErrAbortHandler)
	}
	pass(r.Context(), fault.doFor)
	status, answer := fault.status, any(nil)
	switch {
	case status == 0:
		status, answer = f.do(what, r, body)
	case fault.problem != "":
		answer = contracts.NewProblem(fault.problem, "as the test says")
	}
	date := f.now().UTC().Format(http.TimeFormat)
	if fault.loseAnswer {
		panic(http.ErrAbortHandler)
	}
	pass(r.Context(), fault.answerFor)
	w.Header().Set("Date", date)
	if fault.retryAfter != "" {
		w.Header().Set("Retry-After", fault.retryAfter)
	}
	write(w, status, answer)
}

func (f *intake) arrive(what string, s seen) (next fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, s)
	if left := f.faults[what]; len(left) > 0 {
		next, f.faults[what] = left[0], left[1:]
	}
	return next
}

func write(w http.ResponseWriter, status int, answer any) {
	if p, ok := answer.(*contracts.Problem); ok {
		status = p.Status
		w.Header().Set("Content-Type", contracts.ProblemContentType)
	}
	w.WriteHeader(status)
	data, _ := json.Marshal(answer)
	_, _ = w.Write(data)
}

// pass lets time go by, or the caller go away.
func pass(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// do does what is asked.
func (f *intake) do(what string, r *http.Request, body []byte) (int, any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch what {
	case "claims":
		return f.claim(r.Header.Get("Holdpoint-Owner"))
	case "work":
		return f.work(body)
	case "renewal", "proposal", "failure":
		return f.under(what, body)
	case "events":
		return http.StatusAccepted, f.answer(contracts.ResultAccepted)
	}
	return f.look()
}

func (f *intake) claim(owner string) (int, any) {
	switch {
	case owner == f.owner && f.now().After(f.expires):
		return 0, contracts.NewProblem(contracts.CodeOwnershipLost, "")
	case owner == f.owner:
	case f.owner != "":
		return http.StatusAccepted, f.answer(contracts.ResultDuplicate)
	default:
		f.grant(owner)
	}
	return http.StatusAccepted, f.leased()
}

func (f *intake) grant(owner string) {
	f.owner, f.version = owner, f.version+1
	f.expires, f.capAt = f.now().Add(f.lease), f.now().Add(f.cap)
}

// work gives as many runs as wait, all under the one lease that there is.
func (f *intake) work(body []byte) (int, any) {
	var asked contracts.WorkRequest
	_ = json.Unmarshal(body, &asked)
	given := contracts.Work{Work: []contracts.WorkItem{}}
	for range min(asked.Max, f.waiting) {
		f.waiting--
		f.ended = ""
		f.grant(asked.Owner)
		given.Work = append(given.Work, contracts.WorkItem{Run: *f.leased(), Attempt: 2,
			Event: contracts.WorkEvent{ContentType: "application/json", Body: json.RawMessage(`{"task":1}`)}})
	}
	return http.StatusOK, given
}

// under makes a call under the lease: a compare-and-set whose repetition is answered as it was (K8).
func (f *intake) under(what string, body []byte) (int, any) {
	var shown contracts.Renewal
	_ = json.Unmarshal(body, &shown)
	again, repeated := f.renewedBy[what+string(body)]
	switch {
	case repeated && again == f.version && what == "renewal":
		return http.StatusOK, f.leased()
	case repeated && what != "renewal":
		return http.StatusAccepted, f.answer(contracts.ResultAccepted)
	case shown.Owner != f.owner || shown.Version != f.version || f.now().After(f.expires) || f.ended != "":
		return 0, contracts.NewProblem(contracts.CodeOwnershipLost, "")
	}
	f.version++
	f.renewedBy[what+string(body)] = f.version
	if what == "renewal" {
		f.expires = f.now().Add(f.lease)
		if f.expires.After(f.capAt) {
			f.expires = f.capAt
		}
		return http.StatusOK, f.leased()
	}
	f.ended = what
	f.finished = append(f.finished, string(body))
	return http.StatusAccepted, f.answer(contracts.ResultAccepted)
}

func (f *intake) look() (int, any) {
	a := f.answer(contracts.ResultDuplicate)
	if len(f.runs) > 0 {
		a.Result, f.runs = f.runs[0], f.runs[1:]
	}
	if a.Result == contracts.ResultDuplicateWithResult {
		a.State, a.Outcome = contracts.StateCompleted, contracts.OutcomeExecuted
	}
	return http.StatusOK, a
}

const theRun = "bc05b61c-269c-41d5-8930-7a344e9d32ef"

func (f *intake) answer(result string) *contracts.Answer {
	return &contracts.Answer{Result: result, RunID: theRun, IdempotencyKey: "key-1", State: contracts.StateProcessing}
}

func (f *intake) leased() *contracts.Answer {
	a := f.answer(contracts.ResultAccepted)
	a.Lease = &contracts.Lease{Owner: f.owner, Version: f.version, ExpiresAt: f.expires.Add(f.drift)}
	if f.drift != 0 {
		a.Lease.RemainingMS = f.expires.Sub(f.now()).Milliseconds()
	}
	return a
}

// client calls the intake over a real connection.
func (f *intake) client(change ...func(*client.Config)) *client.Client {
	f.t.Helper()
	server := httptest.NewServer(f)
	f.t.Cleanup(server.Close)
	config := client.Config{BaseURL: server.URL + "/", APIKey: theKey, HTTPClient: server.Client(),
		BackoffBase: time.Millisecond}
	for _, c := range change {
		c(&config)
	}
	c, err := client.New(config)
	require.NoError(f.t, err)
	return c
}

// inBubble calls the intake in this process, so that time can be made to pass.
func (f *intake) inBubble() *client.Client {
	f.t.Helper()
	c, err := client.New(client.Config{BaseURL: "http://intake", APIKey: theKey, HTTPClient: &http.Client{Transport: f}})
	require.NoError(f.t, err)
	return c
}

// RoundTrip is the connection of inBubble.
func (f *intake) RoundTrip(r *http.Request) (response *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = io.ErrUnexpectedEOF
		}
		if r.Context().Err() != nil {
			response, err = nil, r.Context().Err()
		}
	}()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result(), nil
}

// anEvent is one that is claimed and published.
var anEvent = client.Event{Key: "key-1", Body: json.RawMessage(`{"amount": 12.10}`),
	Headers: http.Header{"x-tenant-note": {"a"}, "authorization": {"Bearer of somebody else"}}}

// aProposal fits.
var aProposal = contracts.Proposal{ActionType: "crm.contact.update", ProposedChange: json.RawMessage(`{"fields":{}}`),
	WorkflowVersion: "crm-enrichment@3"}
