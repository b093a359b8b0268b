package sandbox

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Match selects requests. Every field that is set must hold; the zero value selects all requests to all systems.
type Match struct {
	System     string `json:"system,omitempty"`
	Operation  string `json:"operation,omitempty"`
	Reference  string `json:"reference,omitempty"` // mail: the recipient in lower case; hooks: the Webhook-Id
	PathPrefix string `json:"path_prefix,omitempty"`

	// Nth lets only the nth request (1, 2, …) that the fields above select feel the fault.
	Nth int `json:"nth,omitempty"`
	// Count ends the rule after so many firings; 0 is no end.
	Count int `json:"count,omitempty"`
	// PerReference counts Nth and Count for each reference by itself: "the first attempt of every operation".
	PerReference bool `json:"per_reference,omitempty"`
	// Probability in (0, 1] thins the rule out; 0 is the same as 1. The draw is a hash of Seed, the reference and how
	// many of the reference's requests came before, so that a seed repeats whatever the order of arrival.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
}

// Rule applies a fault to the requests it matches. Several rules may match one request: delays add up, and of the
// faults that end a request the first rule's stands.
type Rule struct {
	Match Match `json:"match"`
	Fault Fault `json:"fault"`
}

// RuleState is an installed rule with its history.
type RuleState struct {
	ID string `json:"id"`
	Rule
	Matched int `json:"matched"` // requests that the fields selected
	Fired   int `json:"fired"`   // requests that felt the fault
}

func (r *Rule) validate() error {
	var errs []error
	if r.Match.Probability < 0 || r.Match.Probability > 1 {
		errs = append(errs, fmt.Errorf("probability %g is outside 0 to 1", r.Match.Probability))
	}
	if r.Match.Nth < 0 || r.Match.Count < 0 {
		errs = append(errs, errors.New("nth and count must not be negative"))
	}
	if r.Fault.Kind == RefuseConnection && r.Match != (Match{}) {
		errs = append(errs, errors.New("refuse_connection acts on the listener and takes no match"))
	}
	errs = append(errs, r.Fault.validate())
	return errors.Join(errs...)
}

// call is what a rule can match on.
type call struct{ system, operation, reference, path string }

func (m *Match) selects(c call) bool {
	return (m.System == "" || m.System == c.system) &&
		(m.Operation == "" || m.Operation == c.operation) &&
		(m.Reference == "" || m.Reference == c.reference) &&
		strings.HasPrefix(c.path, m.PathPrefix)
}

// rule is an installed rule. Its counters belong to the rules that hold it.
type rule struct {
	RuleState
	byReference map[string]*tally // kept only where the match counts or draws per reference
}

type tally struct{ matched, fired int }

func newRule(id string, r Rule) *rule {
	installed := &rule{RuleState: RuleState{ID: id, Rule: r}}
	if r.Match.PerReference || r.Match.Probability > 0 {
		installed.byReference = map[string]*tally{}
	}
	return installed
}

// fires counts the call and reports whether it feels the fault.
func (r *rule) fires(c call) bool {
	if !r.Match.selects(c) {
		return false
	}
	r.Matched++
	all, own := tally{r.Matched, r.Fired}, r.tally(c.reference)
	own.matched++
	counted := all
	if r.Match.PerReference {
		counted = *own
	}
	due := (r.Match.Nth == 0 || counted.matched == r.Match.Nth) &&
		(r.Match.Count == 0 || counted.fired < r.Match.Count) &&
		r.Match.draw(c.reference, own.matched)
	if due {
		r.Fired++
		own.fired++
	}
	return due
}

func (r *rule) tally(reference string) *tally {
	if r.byReference == nil {
		return &tally{}
	}
	own := r.byReference[reference]
	if own == nil {
		own = &tally{}
		r.byReference[reference] = own
	}
	return own
}

// draw decides by chance, the same way for the same seed, reference and turn.
func (m *Match) draw(reference string, turn int) bool {
	if m.Probability == 0 || m.Probability == 1 {
		return true
	}
	h := fnv.New64a()
	h.Write([]byte(strconv.FormatUint(m.Seed, 10) + "/" + reference + "/" + strconv.Itoa(turn)))
	return float64(mix(h.Sum64())>>11)/(1<<53) < m.Probability
}

// mix spreads the hash over all its bits (the finalizer of MurmurHash3); FNV alone leaves the high bits of similar
// texts alike.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
