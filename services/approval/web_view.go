package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
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
	State       string // as a person reads it
	Action      *config.Action
	Terms       terms
	Stages      []contracts.ReviewStage
	Amount      string // "250 EUR", where the change has one
	Change      []field
	Current     string
	Evidence    []evidence
	Assumptions []string
	Uncertainty string
	Workflow    string
	PolicyThen  string // that was active when the intent was submitted
	Destination string
	Model       string
	Why         []reason
	Execution   string
	Told        []told
}

// field is one member of the proposed change.
type field struct {
	Name, Value string
	Nested      bool
}

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

// told is one line of the history.
type told struct {
	At                      time.Time
	Actor, Move, To, Detail string
}

// view reads the canonical intent that would be approved, and nothing else says what would be done (A11).
func (t *tenant) view(card *ledger.Card, full bool) (*cardView, error) {
	s, err := intent.Read(card.Canonical, card.IntentHash)
	if err != nil {
		return nil, fmt.Errorf("read the intent of approval %s: %w", card.ApprovalID, err)
	}
	rule := t.termsOf(card)
	v := &cardView{Card: card, Eye: &eye{Full: full}, Tenant: t.DisplayName, State: stateNow(&card.ApprovalSummary),
		Action: t.actions[card.ActionType], Terms: rule, Stages: stagesOf(ledger.Fold(rule.All, card.Cast)), Amount: moneyOf(s.Change),
		Change:  fieldsOf(s.Change),
		Current: s.CurrentVersion, Uncertainty: s.Uncertainty, Workflow: s.WorkflowVersion, PolicyThen: s.PolicyVersion,
		Destination: s.Destination, Model: factsOf(card.Model), Execution: ledger.ExecutionStatus(card.Effects)}
	for _, e := range s.Evidence {
		v.Evidence = append(v.Evidence, evidence{Evidence: e, Link: webAddress(e.URL)})
	}
	assumptions, _ := s.Tree.Get("assumptions")
	if assumptions.Kind() == canonical.Array {
		for item := range assumptions.Items() {
			v.Assumptions = append(v.Assumptions, textOf(item))
		}
	}
	v.Why = reasonsOf(card.Reasons)
	for _, h := range card.History {
		v.Told = append(v.Told, told{At: h.At, Actor: h.Actor, Move: h.Move, To: text0(h.To), Detail: factsOf(h.Facts)})
	}
	return v, nil
}

// fieldsOf are the members of a change in canonical order. Numbers are the exact decimals that were hashed.
func fieldsOf(change canonical.Value) []field {
	if change.Kind() != canonical.Object {
		return []field{{Name: "(the whole change)", Value: textOf(change), Nested: true}}
	}
	var fields []field
	for name, value := range change.Members() {
		nested := value.Kind() == canonical.Object || value.Kind() == canonical.Array
		fields = append(fields, field{Name: name, Value: textOf(value), Nested: nested})
	}
	return fields
}

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
