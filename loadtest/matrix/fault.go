package matrix

import (
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// misbehaviour is what the provider does to the first write of an effect, and to the searches for it.
type misbehaviour struct {
	name   string
	write  *sandbox.Fault                // nil: it takes the write
	search *sandbox.Fault                // nil: it is found as declared
	once   bool                          // only the first search feels it
	outage sandbox.Duration              // for so long nothing can be dialled, from when the effect is about to be sent
	fits   func(profile) (possible bool) // nil: every profile
}

// well reports whether the provider does as it should.
func (m misbehaviour) well() bool { return m.write == nil && m.search == nil && m.outage == 0 }

// Of the durations, two lie on purpose on either side of what is declared: acceptedLate is longer than the timeout, and
// by less than the index lag; a lag of searchLag is longer than declared, and shorter than the twice that is waited for.
// A key in flight is so for longer than it takes to send again.
const (
	acceptedLate = sandbox.Duration(1300 * time.Millisecond)
	searchLag    = sandbox.Duration(800 * time.Millisecond)
	keyInFlight  = sandbox.Duration(4 * time.Second)
	outage       = sandbox.Duration(1500 * time.Millisecond)
)

func looksUp(p profile) bool { return p.lookup }

var lost = &sandbox.Fault{Kind: sandbox.AcceptThenReset}

func errorBefore(status int) *sandbox.Fault {
	return &sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: status}
}

var misbehaviours = []misbehaviour{
	{name: "none"},
	{name: "delay", write: &sandbox.Fault{Kind: sandbox.Delay, Duration: sandbox.Duration(300 * time.Millisecond)}},
	{name: "refuse_connection", outage: outage},
	{name: "reset_before_accept", write: &sandbox.Fault{Kind: sandbox.ResetBeforeAccept}},
	{name: "hang_before_accept", write: &sandbox.Fault{Kind: sandbox.HangBeforeAccept}},
	{name: "500_before_accept", write: errorBefore(http.StatusInternalServerError)},
	{name: "503_before_accept", write: errorBefore(http.StatusServiceUnavailable)},
	{name: "accept_then_hang", write: &sandbox.Fault{Kind: sandbox.AcceptThenHang}},
	{name: "accept_then_reset", write: lost},
	{name: "accept_late", write: &sandbox.Fault{Kind: sandbox.Delay, Duration: acceptedLate}},
	{name: "500_after_accept", write: &sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusInternalServerError}},
	{name: "500_stored_under_key", fits: profile.sendsKey,
		write: &sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusInternalServerError, Sticky: true}},
	{name: "truncated_body", write: &sandbox.Fault{Kind: sandbox.TruncateBody}},
	{name: "429_retry_after", write: &sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "1"}},
	{name: "404_refused", write: errorBefore(http.StatusNotFound)},
	{name: "422_refused", write: errorBefore(http.StatusUnprocessableEntity)},
	{name: "401_unauthorized", write: errorBefore(http.StatusUnauthorized)},
	{name: "redirect", write: &sandbox.Fault{Kind: sandbox.Redirect, Status: http.StatusTemporaryRedirect,
		Location: "http://127.0.0.1:9/elsewhere"}},
	{name: "key_in_flight", fits: profile.sendsKey, write: &sandbox.Fault{Kind: sandbox.Delay, Duration: keyInFlight}},
	{name: "lagging_search", fits: looksUp, write: lost, search: &sandbox.Fault{Kind: sandbox.LookupLag, Duration: searchLag}},
	{name: "duplicate_in_search", fits: looksUp, write: lost, search: &sandbox.Fault{Kind: sandbox.LookupDuplicate}},
	{name: "failing_search", fits: looksUp, write: lost, once: true, search: errorBefore(http.StatusServiceUnavailable)},
}

// never is a turn that no request has: a rule that fires then only counts what it matches.
const never = 1 << 30

// rules are the sandbox's rules of a cell. The first counts the writes that the provider is asked for.
func (c *cell) rules() []sandbox.Rule {
	writes := sandbox.Match{System: sandbox.CRM, Operation: c.profile.operation, Reference: c.operationID}
	counting := writes
	counting.Nth = never
	all := []sandbox.Rule{{Match: counting, Fault: sandbox.Fault{Kind: sandbox.ResetBeforeAccept}}}
	if c.fault.write != nil {
		writes.Count = 1
		all = append(all, sandbox.Rule{Match: writes, Fault: *c.fault.write})
	}
	if c.fault.search != nil {
		searches := sandbox.Match{System: sandbox.CRM, Operation: sandbox.Lookup, Reference: c.operationID}
		if c.fault.once {
			searches.Count = 1
		}
		all = append(all, sandbox.Rule{Match: searches, Fault: *c.fault.search})
	}
	return all
}
