package policy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
)

// Candidates finds kinds of changes that people have always approved, so that somebody may think of a rule for them (P4). It reads what
// was decided, and switches nothing on.
type Candidates struct {
	tenant *config.Tenant
	least  int
	groups map[string]*Candidate
	waits  map[*Candidate][]time.Duration
	people map[*Candidate]map[string]bool
	report CandidateReport
}

// CandidateReport is what was found in one tenant.
type CandidateReport struct {
	Tenant     string      `json:"tenant"`
	Decided    int         `json:"decided"`    // requests that were looked at
	Unreadable int         `json:"unreadable"` // that this release cannot read
	Candidates []Candidate `json:"candidates"` // the most frequent first
}

// Candidate is one kind of change: an action type, the members that change, and why people were asked.
type Candidate struct {
	ActionType string   `json:"action_type"`
	Fields     []string `json:"fields"`  // JSON pointers into proposed_change, sorted
	Reasons    []string `json:"reasons"` // codes and rules, sorted
	Approved   int      `json:"approved"`
	Other      int      `json:"other"`     // rejected, withdrawn or sent back
	Failed     int      `json:"failed"`    // approved ones whose run did not end as executed
	Reviewers  int      `json:"reviewers"` // different people who decided
	// MedianSeconds is half of them decided within; a few seconds for all of them says that nobody has really looked.
	MedianSeconds int      `json:"median_seconds"`
	Keys          []string `json:"keys"` // of the newest
}

// NewCandidates looks for kinds of at least so many approvals.
func NewCandidates(tenant *config.Tenant, least int) *Candidates {
	return &Candidates{tenant: tenant, least: least, groups: map[string]*Candidate{}, waits: map[*Candidate][]time.Duration{},
		people: map[*Candidate]map[string]bool{}, report: CandidateReport{Tenant: tenant.ID}}
}

// Add counts one request that people have decided. Those of types that can never act with no person asked are left out: what cannot be
// undone, and what needs a professional (P4, P5).
func (c *Candidates) Add(r *ledger.Reviewed) error {
	action := c.tenant.Action(r.ActionType)
	if action == nil || !action.Reversible || !action.Unattended() {
		return nil
	}
	c.report.Decided++
	whole, err := canonical.Parse(r.Canonical)
	if err != nil {
		c.report.Unreadable++
		return nil
	}
	if actions, _ := whole.Get("actions"); actions.Len() > 1 {
		return nil // no rule is about several actions together
	}
	change, _ := whole.Pointer("/actions/0/proposed_change")
	found := Candidate{ActionType: r.ActionType, Fields: fieldsOf("", change), Reasons: whyOf(r.Reasons)}
	name := strings.Join(slices.Concat([]string{found.ActionType}, found.Fields, []string{"|"}, found.Reasons), "\x00")
	group := c.groups[name]
	if group == nil {
		group = &found
		c.groups[name], c.people[group] = group, map[string]bool{}
	}
	c.count(group, r)
	return nil
}

func (c *Candidates) count(group *Candidate, r *ledger.Reviewed) {
	for _, who := range r.Reviewers {
		c.people[group][who] = true
	}
	if r.State != ledger.ApprovalApproved {
		group.Other++
		return
	}
	group.Approved++
	c.waits[group] = append(c.waits[group], r.Waited)
	if r.RunOutcome != "" && r.RunOutcome != ledger.OutcomeExecuted {
		group.Failed++
	}
	if len(group.Keys) < shownKeys {
		group.Keys = append(group.Keys, r.Key)
	}
}

// Report names the kinds that were approved every time, were executed every time, and are frequent enough.
func (c *Candidates) Report() CandidateReport {
	report := c.report
	report.Candidates = []Candidate{}
	for _, g := range c.groups {
		if g.Approved < c.least || g.Other > 0 || g.Failed > 0 {
			continue
		}
		g.Reviewers = len(c.people[g])
		waits := c.waits[g]
		slices.Sort(waits)
		g.MedianSeconds = int(waits[len(waits)/2].Seconds())
		report.Candidates = append(report.Candidates, *g)
	}
	slices.SortFunc(report.Candidates, func(a, b Candidate) int {
		return cmp.Or(b.Approved-a.Approved, strings.Compare(a.ActionType, b.ActionType), slices.Compare(a.Fields, b.Fields),
			slices.Compare(a.Reasons, b.Reasons))
	})
	return report
}

// fieldsOf are pointers to the members that a change sets, down to what is no object.
func fieldsOf(at string, v canonical.Value) []string {
	if v.Kind() != canonical.Object {
		return []string{at}
	}
	var fields []string
	for name, value := range v.Members() {
		fields = append(fields, fieldsOf(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), value)...)
	}
	slices.Sort(fields)
	return fields
}

func whyOf(raw []byte) []string {
	var reasons []engine.Reason
	_ = json.Unmarshal(raw, &reasons) // reasons of another form tell nothing apart
	var why []string
	for _, r := range reasons {
		why = append(why, strings.TrimSuffix(r.Code+" "+r.RuleID, " "))
	}
	slices.Sort(why)
	return slices.Compact(why)
}
