package approval

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// How many decisions one call makes, and how many bytes it has: a reason of 2,000 characters each.
const (
	mostDecisions = 100
	maxDecisions  = 3 << 20
)

// apiDecideMany takes many decisions of one person, each as if it had come alone (A18).
func (a *Approval) apiDecideMany(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.DecisionBatch
	if !a.read(w, r, maxDecisions, &body) {
		return
	}
	if n := len(body.Decisions); n < 1 || n > mostDecisions {
		a.problem(w, contracts.CodeSchemaInvalid, fmt.Sprintf("Send from 1 to %d decisions. Nothing was decided.", mostDecisions))
		return
	}
	results := make([]contracts.DecisionResult, len(body.Decisions))
	for i := range body.Decisions {
		results[i] = a.oneOfMany(r, who, &body.Decisions[i])
	}
	a.answer(w, http.StatusOK, contracts.DecisionResults{Results: results})
}

func (a *Approval) oneOfMany(r *http.Request, who *identity, one *contracts.BatchedDecision) contracts.DecisionResult {
	result := contracts.DecisionResult{ApprovalID: one.ApprovalID, Status: http.StatusOK}
	refuse := func(p *contracts.Problem) contracts.DecisionResult {
		result.Status, result.Problem = p.Status, p
		return result
	}
	id, err := uuid.Parse(one.ApprovalID)
	if err != nil {
		return refuse(a.problemFor(ledger.ErrNoApproval))
	}
	t, card, err := a.cardFor(r.Context(), who, id)
	if err != nil {
		return refuse(a.problemFor(err))
	}
	command := commandID(r, who, card.ApprovalID)
	if one.CommandID != "" {
		if command, err = uuid.Parse(one.CommandID); err != nil {
			return refuse(contracts.NewProblem(contracts.CodeSchemaInvalid, "command_id must be a UUID. Nothing was decided."))
		}
	}
	voted, err := a.decideAs(r.Context(), who, t, card, command, &one.DecisionRequest, true)
	if err != nil {
		return refuse(a.problemFor(err))
	}
	answer, p := whatStands(card, voted)
	if result.Answer = &answer; p != nil {
		return refuse(p)
	}
	return result
}
