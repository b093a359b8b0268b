package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// cardView is all that the card says about a request. It has nothing that belongs to one visit, so that what was
// rendered of it can be hashed (A17).
type cardView struct {
	*ledger.Card
	Eye         *eye
	Tenant      string
	Zone        *time.Location // of the tenant, nil for UTC alone
	State       string         // as a person reads it
	Action      *config.Action
	Terms       terms
	Stages      []contracts.ReviewStage
	Deciders    []decider
	Amount      string // "250 EUR", where the change has one
	Purpose     string
	Payer       string
	Change      []compared // of the first action
	Held        heldView
	Done        bool         // it was done by an earlier approval, and one decision is about the rest
	Others      []actionView // the further actions
	Current     string
	Evidence    []evidence
	Assumptions []string
	Uncertainty string
	Model       modelView
	Workflow    string
	PolicyThen  string // that was active when the intent was submitted
	Destination string
	Why         []reason
	Problems    []string
	Execution   string
	Rules       []string
	Origin      origin
	Steps       []step

	actions []*intent.Snapshot
}

// actionView is one of the further actions.
type actionView struct {
	*intent.Snapshot
	Eye    *eye
	Zone   *time.Location
	Amount string
	Change []compared
	Held   heldView
	Done   bool
}

// When is an exact time, as on the card.
func (v actionView) When(at time.Time) template.HTML { return inZone(at, v.Zone) }

// Current is the version that the action was proposed from.
func (v actionView) Current() string { return v.CurrentVersion }

// Alone is false: the decision is about other actions too.
func (v actionView) Alone() bool { return false }

// Together is how many actions stand and fall with one decision.
func (v *cardView) Together() int { return len(v.actions) }

// Stage is that of the first action.
func (v *cardView) Stage() int { return v.actions[0].Stage }

// Alone reports whether the decision is about one action.
func (v *cardView) Alone() bool { return len(v.actions) == 1 }

// Ordinal is that of the first action.
func (v *cardView) Ordinal() int { return 1 }

// Unknown are the targets of which nobody knows what they hold.
func (v *cardView) Unknown() []string {
	if v.Alone() && !v.Held.Answered {
		return []string{"the target"}
	}
	var unknown []string
	for ordinal := 1; ordinal <= len(v.actions) && !v.Alone(); ordinal++ {
		if !v.Readings.Of(ordinal).Answered() {
			unknown = append(unknown, targetOf(ordinal))
		}
	}
	return unknown
}

// othersOf are the actions after the first, on a page that does not tell what their targets hold.
func othersOf(actions []*intent.Snapshot, e *eye) []actionView {
	var others []actionView
	for _, s := range actions[1:] {
		others = append(others, actionView{Snapshot: s, Eye: e, Amount: moneyOf(s.Change), Change: compare(s.Change, nil)})
	}
	return others
}

// reads puts beside the actions what their targets hold.
func (v *cardView) reads(t *tenant) {
	v.Change, v.Held = t.beside(v.actions[0], v.Readings.Of(1))
	v.Done = v.done(1)
	for i := range v.Others {
		other := &v.Others[i]
		other.Change, other.Held = t.beside(other.Snapshot, v.Readings.Of(other.Ordinal))
		other.Zone, other.Done = v.Zone, v.done(other.Ordinal)
	}
}

// done reports whether an action was done by an approval before this one.
func (v *cardView) done(ordinal int) bool {
	id := ledger.EffectKey{TenantID: v.TenantID, RunID: v.RunID, Revision: v.Revision, Ordinal: ordinal}.OperationID()
	return slices.ContainsFunc(v.Effects, func(e ledger.EffectView) bool { return e.OperationID == id && e.State == ledger.EffectCompleted })
}

// modelView is what the model said, and which it was.
type modelView struct {
	Draft, Label, Score string
	Facts               []fact
}

// fact is one member of something that is told as it is.
type fact struct{ Name, Value string }

// evidence is one thing that the proposer read; Link is "" unless it is http or https.
type evidence struct {
	intent.Evidence
	Link string
}

// reason is why a person is asked (P2).
type reason struct {
	Code    string `json:"code"`
	RuleID  string `json:"rule_id"`
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// view reads the canonical intent that would be approved, and nothing else says what would be done (A11).
func (t *tenant) view(card *ledger.Card, full bool) (*cardView, error) {
	actions, err := intent.ReadActions(card.Canonical, card.IntentHash)
	if err != nil {
		return nil, fmt.Errorf("read the intent of approval %s: %w", card.ApprovalID, err)
	}
	s := actions[0]
	rule := t.termsOf(card)
	e := &eye{Full: full}
	v := &cardView{Card: card, Eye: e, Tenant: t.DisplayName, Zone: t.TimeZone, State: stateNow(&card.ApprovalSummary),
		Action: t.action(card.ActionType), Terms: rule, Stages: stagesOf(ledger.Fold(rule.All, card.Cast)),
		Deciders: t.deciders(card, rule), Amount: moneyOf(s.Change),
		Current: s.CurrentVersion, Uncertainty: s.Uncertainty, Workflow: s.WorkflowVersion, PolicyThen: s.PolicyVersion,
		Destination: s.Destination, Why: reasonsOf(card.Reasons), Problems: t.problemsOf(card, s),
		Execution: ledger.ExecutionStatus(card.Effects), Rules: t.rerunRules(card, s), Others: othersOf(actions, e), actions: actions}
	v.reads(t)
	for _, e := range s.Evidence {
		v.Evidence = append(v.Evidence, evidence{Evidence: e, Link: webAddress(e.URL)})
	}
	assumptions, _ := s.Tree.Get("assumptions")
	if assumptions.Kind() == canonical.Array {
		for item := range assumptions.Items() {
			v.Assumptions = append(v.Assumptions, textOf(item))
		}
	}
	v.declared(s)
	return v, nil
}

// declared takes out of the change what the action type says that it has for reviewers.
func (v *cardView) declared(s *intent.Snapshot) {
	var at config.Card
	if v.Action != nil {
		at = v.Action.Card
	}
	take := func(pointer string) string {
		value, there := s.Change.Pointer(pointer)
		if pointer == "" || !there {
			return ""
		}
		return textOf(value)
	}
	v.Purpose, v.Payer = take(at.Purpose), take(at.PayingEntity)
	v.Model = modelView{Draft: take(at.Draft), Label: take(at.Label), Score: take(at.Score)}
	if model, err := canonical.Parse(v.Card.Model); err == nil && model.Kind() == canonical.Object {
		for name, value := range model.Members() {
			v.Model.Facts = append(v.Model.Facts, fact{human(name), textOf(value)})
		}
	}
}

// When is an exact time in UTC, and in the tenant's zone where it has one.
func (v *cardView) When(at time.Time) template.HTML { return inZone(at, v.Zone) }

// textOf is a string as it is, and everything else as indented JSON.
func textOf(v canonical.Value) string {
	if v.Kind() == canonical.String {
		return v.Text()
	}
	return indented(v.AppendCanonical(nil))
}

func indented(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// moneyOf is what the change would move, where it has an amount and a currency.
func moneyOf(change canonical.Value) string {
	amount, hasAmount := change.Get("amount")
	currency, hasCurrency := change.Get("currency")
	if !hasAmount || !hasCurrency {
		return ""
	}
	return textOf(amount) + " " + textOf(currency)
}

// webAddress is the address if a browser may be sent there.
func webAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return ""
	}
	return u.String()
}

func reasonsOf(raw json.RawMessage) []reason {
	var reasons []reason
	if json.Unmarshal(raw, &reasons) != nil {
		return []reason{{Message: string(raw)}}
	}
	return reasons
}

// factsOf is an object as indented JSON, "" where it says nothing.
func factsOf(raw json.RawMessage) string {
	if facts := indented(bytes.TrimSpace(raw)); facts != "{}" && facts != "null" {
		return facts
	}
	return ""
}
