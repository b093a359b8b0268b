package reconciler

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Reads of a target after a write that the provider says was done (R7):
//
//	the target holds what was written                      it is done
//	it holds something else, twice, the index lag apart    held for an operator; nothing is sent again
//	likewise, at a version that somebody else has written  done, and the record says that it has moved on
//	it cannot be read for outcome.AcceptedDeadline         done by the provider's word, and the record says that it is unread
//
// Until then it is accepted, and nothing else is sent to the same target. Reads come as often as lookups.
const noteUnread = "its target could not be read after the write; that it was done is the provider's word"

// completing has what a read, a late report or the provider's webhook says is done read once more at its target, where the operation
// verifies.
func completing(op *config.Operation, s ledger.Settlement) ledger.Settlement {
	if (s.Move == "find" || s.Move == "late_success" || s.Move == "report_success") && op.Verifies() {
		s.Move, s.NextCheck = "verify_found", indexLag(op)
	}
	return s
}

// verify reads the target of an effect that is done by the provider's word.
func (r *Reconciler) verify(ctx context.Context, e *ledger.Open, t *target, op *config.Operation) ledger.Settlement {
	asked, err := operationOf(e)
	if err != nil {
		return judgeTarget(e, op, connector.LookupResult{Verdict: connector.Unclear, Evidence: fmt.Sprintf("it cannot be read: %v", err)})
	}
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	return judgeTarget(e, op, t.conn.Verify(ctx, asked, e.RecordVersion))
}

// judgeTarget turns what a target holds into a move, by the table above.
func judgeTarget(e *ledger.Open, op *config.Operation, found connector.LookupResult) ledger.Settlement {
	s := ledger.Settlement{Move: "confirm", MaybeSent: true, ExternalID: e.ExternalID, NextCheck: ledger.Never, Looked: &ledger.Looked{Verdict: string(found.Verdict), Conclusive: found.Conclusive, Evidence: found.Evidence}}
	switch {
	case found.Verdict == connector.Matched:
		s.Postcondition = ledger.PostconditionMatched
	case found.Verdict == connector.Unclear && e.Now.Sub(e.SucceededAt) >= outcome.AcceptedDeadline:
		s.Postcondition, s.Note = ledger.PostconditionUnread, noteUnread
	case found.Verdict == connector.Unclear:
		s.Move, s.NextCheck = "verify_again", lookAgain(e)
	case e.Absences+1 < probes: // a replica that lags says so too
		s.Move, s.Absent, s.NextCheck = "verify_again", true, max(indexLag(op), shortestLag)
	case found.Verdict == connector.MovedOn:
		s.Postcondition = ledger.PostconditionMovedOn
	default:
		s.Move, s.HoldReason, s.Postcondition = "mismatch", ledger.HoldMismatch, ledger.PostconditionDiffers
	}
	if s.Postcondition != "" {
		s.PostconditionVersion = found.RecordVersion
	}
	return s
}
