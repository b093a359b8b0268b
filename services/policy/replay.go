package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
)

// Replay decides intents of the past by a candidate policy, and counts what would be routed otherwise (P7, P10). It changes nothing
// and can authorize nothing.
type Replay struct {
	tenant *tenant
	amount string
	report ReplayReport
	flips  map[flip]*Flip
	sums   map[*Flip]*big.Rat
}

// ReplayReport is what a replay found.
type ReplayReport struct {
	Tenant        string `json:"tenant"`
	PolicyVersion string `json:"policy_version"` // of the candidate
	Decisions     int    `json:"decisions"`      // that were looked at
	Same          int    `json:"same"`           // whose route stays
	Unreadable    int    `json:"unreadable"`     // that this release cannot read; they count in neither
	Flips         []Flip `json:"flips"`          // the most frequent first
}

// Flip is a kind of change of route.
type Flip struct {
	ActionType string   `json:"action_type"`
	From       string   `json:"from"`
	To         string   `json:"to"`
	Count      int      `json:"count"`
	Amount     string   `json:"amount,omitempty"` // exact sum, of those intents that have one; "" where none has
	Keys       []string `json:"keys"`             // of the newest
}

// flip tells kinds of changes apart.
type flip struct{ action, from, to string }

// shownKeys is how many keys of a flip are named.
const shownKeys = 5

// NewReplay compiles the candidate. amount is a JSON pointer into the action, such as /proposed_change/amount, to what is added up;
// "" is what the action type's limits add up.
func NewReplay(candidate *config.Tenant, amount string) (*Replay, error) {
	compiled, err := newTenant(candidate)
	if err != nil {
		return nil, err
	}
	return &Replay{tenant: compiled, amount: amount, flips: map[flip]*Flip{}, sums: map[*Flip]*big.Rat{},
		report: ReplayReport{Tenant: candidate.ID, PolicyVersion: candidate.PolicyVersion}}, nil
}

// Add decides one more intent, by the clock of its own decision.
func (r *Replay) Add(past *ledger.Recorded) error {
	r.report.Decisions++
	actions, err := intent.ReadActions(past.Canonical, past.IntentHash)
	var reasons []engine.Reason
	if err == nil {
		err = json.Unmarshal(past.Reasons, &reasons)
	}
	if err != nil {
		r.report.Unreadable++
		return nil
	}
	from, raised := was(past.Route, reasons)
	verdict, _ := r.tenant.judge(actions, past.DecidedAt)
	to := verdict.Route
	if raised && engine.Stricter(config.RouteHumanReview, to) {
		to = config.RouteHumanReview
	}
	if from == to {
		r.report.Same++
		return nil
	}
	for _, s := range actions {
		r.count(s, past.Key, flip{s.ActionType, from, to})
	}
	return nil
}

// was is the route that the rules of then gave, and whether something besides them asked for a person: what else was authorized then is
// no part of a replay.
func was(route string, reasons []engine.Reason) (from string, raised bool) {
	for _, reason := range reasons {
		switch reason.Code {
		case engine.CodeShadow:
			route = reason.Route
		case engine.CodeNearDuplicate, engine.CodeLimitExceeded, engine.CodeLimitUnreadable:
			raised = true
		}
	}
	return route, raised
}

func (r *Replay) count(s *intent.Snapshot, key string, kind flip) {
	f := r.flips[kind]
	if f == nil {
		f = &Flip{ActionType: kind.action, From: kind.from, To: kind.to}
		r.flips[kind] = f
	}
	f.Count++
	if len(f.Keys) < shownKeys {
		f.Keys = append(f.Keys, key)
	}
	if amount, ok := new(big.Rat).SetString(r.amountOf(s)); ok {
		if r.sums[f] == nil {
			r.sums[f] = new(big.Rat)
		}
		r.sums[f].Add(r.sums[f], amount)
	}
}

// amountOf is an exact decimal, or "" where there is none.
func (r *Replay) amountOf(s *intent.Snapshot) string {
	pointer := r.amount
	if action := r.tenant.actions[s.ActionType]; pointer == "" && action != nil {
		for _, l := range action.Limits {
			if l.Amount != nil {
				pointer = l.Amount.Pointer
				break
			}
		}
	}
	value, found := s.Action.Pointer(pointer)
	if text := value.Text(); found && config.PlainDecimal(text) {
		return text
	}
	return ""
}

// Report is what was found until now.
func (r *Replay) Report() ReplayReport {
	report := r.report
	report.Flips = []Flip{}
	for _, f := range slices.SortedFunc(maps.Values(r.flips), func(a, b *Flip) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.ActionType+a.From+a.To, b.ActionType+b.From+b.To))
	}) {
		one := *f
		if sum := r.sums[f]; sum != nil {
			digits, _ := sum.FloatPrec()
			one.Amount = sum.FloatString(digits)
		}
		report.Flips = append(report.Flips, one)
	}
	return report
}
