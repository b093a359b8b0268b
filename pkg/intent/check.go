package intent

import (
	"strconv"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

var (
	proposalSchema = config.MustValidator("proposal.v1.json", contracts.ProposalSchema())
	planSchema     = config.MustValidator("plan.v1.json", contracts.PlanSchema())
)

// Check says what is wrong with a proposal's shape: members that are missing, unknown (in exact letter case), of the
// wrong type or too long (M2; contracts/schemas/proposal.v1.json, or plan.v1.json where it has several actions). Pointers are
// relative to the proposal. The change of an action is checked against the schema of its type.
func Check(proposal config.Document) []contracts.FieldError {
	if isPlan(proposal.Value) {
		return planSchema.CheckDocument(proposal)
	}
	return proposalSchema.CheckDocument(proposal)
}

func isPlan(proposal canonical.Value) bool {
	_, several := proposal.Get("actions")
	return several
}

// ActionsAt are JSON pointers to the actions of a proposal that Check has found nothing wrong with: the proposal itself, "", where it has
// one.
func ActionsAt(proposal canonical.Value) []string {
	if !isPlan(proposal) {
		return []string{""}
	}
	actions, _ := proposal.Get("actions")
	pointers := make([]string, 0, actions.Len())
	for range actions.Items() {
		pointers = append(pointers, "/actions/"+strconv.Itoa(len(pointers)))
	}
	return pointers
}
