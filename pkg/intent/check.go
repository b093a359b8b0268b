package intent

import (
	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

var proposalSchema = config.MustValidator("proposal.v1.json", contracts.ProposalSchema())

// Check says what is wrong with a proposal's shape: members that are missing, unknown (in exact letter case), of the
// wrong type or too long (M2, contracts/schemas/proposal.v1.json). Pointers are relative to the proposal. The change
// itself is checked against the schema of its action.
func Check(proposal config.Document) []contracts.FieldError {
	return proposalSchema.CheckDocument(proposal)
}
