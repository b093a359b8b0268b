package approval

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// rerunRules say what happens next and what may run again, in words (A10).
func (t *tenant) rerunRules(card *ledger.Card, s *intent.Snapshot) []string {
	action, source := t.action(card.ActionType), t.sources[card.Source]
	rules := []string{"If it is rejected, the run ends and nothing is sent." + ifSaid(" ", rejection(action)),
		"If nobody decides in time, the run ends as expired and nothing is sent.",
		"If it is approved and not executed within " + span(card.ExecuteWithin) + ", or its target or the rules have changed by then, it " +
			"comes back to people and nothing is sent before.",
		"The same event again starts nothing: its sender is told how this run stands. The same key with another content is a conflict, " +
			"and changes nothing.",
		"After a rejection or an expiry, the same key never runs again: it takes a new event under a new key." + nearRule(action)}
	if revisions := t.revisions(card); revisions.Left(card.Revision) {
		rules = append(rules, "If it is sent back, whoever proposed it may bring a better proposal within "+span(revisions.Within)+
			", which is asked for anew. Else the run ends as expired. It can be sent back "+times(revisions.Rounds-card.Revision+1)+" more.")
	}
	if source == nil || source.Corrects == "" {
		rules = append(rules, "This source takes no corrections: what has ended is put right by a new event.")
	} else {
		rules = append(rules, "When the run has ended, it can be corrected by a new event that names its key, who corrects it and why.")
	}
	return append(rules, retryRule(t.Operation(s.Connector, s.Operation)))
}

func rejection(action *config.Action) string {
	if action == nil {
		return ""
	}
	return action.Rejection
}

func nearRule(action *config.Action) string {
	if action == nil || action.NearDuplicate == nil {
		return ""
	}
	return " One that wants nearly the same within " + span(action.NearDuplicate.Within) + " is shown to a person."
}

// retryRule says what becomes of a write whose answer is lost.
func retryRule(op *config.Operation) string {
	const lost = "If the answer to the write gets lost, "
	switch {
	case op == nil:
		return "The connector or its operation is not configured any more, so it cannot be sent."
	case op.Lookup != nil && op.IdempotentCreate():
		return lost + "it is looked for by reading, and sent again only under the same key, which the system recognises."
	case op.Lookup != nil:
		return lost + "it is looked for by reading, and sent again only where it is proven not to be there."
	case op.IdempotentCreate():
		return lost + "it is sent again under the same key, which the system recognises."
	}
	return lost + "an operator has to find out whether it was done; it is not sent again by itself."
}

// decider is a role that may decide, with the people who are known to hold it.
type decider struct {
	Role  string
	Names []string // of its members; nil where whoever has the claim holds it
}

// deciders are the roles whose approval still counts: those of the groups that are open, or of the audience. People are named as
// colleagues know them; who has voted, asked or is disabled is left out.
func (t *tenant) deciders(card *ledger.Card, rule terms) []decider {
	var all []decider
	for _, role := range t.openRoles(card, rule) {
		d := decider{Role: role}
		for _, id := range t.membersOf(role) {
			p := t.PersonByID(id)
			if p == nil || p.Disabled || t.asked(t.standIn(p), card) || voteOf(card, t.standIn(p)) != nil {
				continue
			}
			d.Names = append(d.Names, p.Name)
		}
		all = append(all, d)
	}
	return all
}

func (t *tenant) membersOf(role string) []string {
	i := slices.IndexFunc(t.Roles, func(r *config.Role) bool { return r.Name == role })
	if i < 0 {
		return nil
	}
	return t.Roles[i].Members
}

func (t *tenant) openRoles(card *ledger.Card, rule terms) []string {
	tally := ledger.Fold(rule.All, card.Cast)
	if !rule.Named() || tally.Open >= len(tally.Stages) {
		return card.Audience
	}
	var roles []string
	for _, g := range tally.Stages[tally.Open] {
		switch {
		case g.Missing() == 0:
		case g.Role == "":
			return card.Audience
		case !slices.Contains(roles, g.Role):
			roles = append(roles, g.Role)
		}
	}
	return roles
}

// problemsOf are what the model step and the rules of evidence found wrong, or nearly so (A10).
func (t *tenant) problemsOf(card *ledger.Card, s *intent.Snapshot) []string {
	var found []string
	model := factsIn(card.Model)
	if model.text("validation") == contracts.ValidationRepaired {
		found = append(found, "The model's first draft did not fit the schema; it was repaired"+
			ifSaid(" after calls: ", model.text("attempts"))+".")
	}
	for _, h := range card.History {
		if f := factsIn(h.Facts); h.Move == "fail_retryable" {
			found = append(found, "An earlier draft failed, "+human(cmp.Or(f.text("class"), "for a reason of the worker's"))+": "+
				cmp.Or(f.text("reason"), "it does not say why"))
		}
	}
	action := t.action(card.ActionType)
	if action == nil {
		return append(found, "The action type is not configured any more.")
	}
	for _, rule := range action.Evidence {
		if problem := evidenceProblem(rule, s, card); problem != "" {
			found = append(found, problem)
		}
	}
	return found
}

// evidenceProblem is "" where the newest evidence of the source is fresh enough when the card is shown.
func evidenceProblem(rule config.EvidenceRule, s *intent.Snapshot, card *ledger.Card) string {
	newest := -1
	for i, e := range s.Evidence {
		if e.Source == rule.Source && (newest < 0 || e.ObservedAt.After(s.Evidence[newest].ObservedAt)) {
			newest = i
		}
	}
	if newest < 0 {
		return fmt.Sprintf("Evidence from %s is missing, which this action type asks for.", rule.Source)
	}
	if age := card.Now.Sub(s.Evidence[newest].ObservedAt); age > rule.MaxAge {
		return fmt.Sprintf("Evidence from %s is stale: it is %s, and may be %s old at most.", rule.Source,
			since(card.Now, s.Evidence[newest].ObservedAt), span(rule.MaxAge))
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
