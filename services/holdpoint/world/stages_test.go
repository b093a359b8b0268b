package world_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// written are the accepted writes of a plan's actions, in the order in which the sandbox accepted them.
func written(t *testing.T, w *world.World, e world.Event) (ordinals []int) {
	t.Helper()
	all, err := w.Sandbox.Writes(t.Context(), sandbox.Filter{})
	require.NoError(t, err)
	for _, write := range all {
		run, _, ordinal, err := ledger.ParseOperationID(write.Reference)
		if err == nil && run == e.RunID() {
			ordinals = append(ordinals, ordinal)
		}
	}
	return ordinals
}

func partOf(e world.Event, ordinal int, system string, operation string, f sandbox.Fault) sandbox.Rule {
	return sandbox.Rule{Match: sandbox.Match{System: system, Operation: operation,
		Reference: ledger.OperationID(e.RunID(), 1, ordinal)}, Fault: f}
}

// TestStages is D10 on the whole system: the effects of one run go out one after the other.
func TestStages(t *testing.T) {
	t.Parallel()
	const update = "crm.contact.update"
	refused := sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusUnprocessableEntity}
	w := world.New(t)

	t.Run("EachIsSentOnceInItsTurn", func(t *testing.T) {
		e := w.Plan(update, update, update)
		w.Post(e)
		w.Await(e, contracts.StateCompleted)
		require.Equal(t, []int{1, 2, 3}, written(t, w, e))
		w.AwaitTold(e, contracts.TypeRunCompleted)
	})

	t.Run("WhatIsUnknownKeepsTheLaterOnesBackUntilItIsFound", func(t *testing.T) {
		e := w.Plan(update, update)
		w.Fault(partOf(e, 1, sandbox.CRM, sandbox.Update, sandbox.Fault{Kind: sandbox.AcceptThenReset}),
			partOf(e, 1, sandbox.CRM, sandbox.Lookup, sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500}))
		w.Post(e)
		w.Until("the first to be unknown and looked for", func() bool {
			return w.Count(`select count(*) from effects where run_id = $1 and ordinal = 1 and state = 'unknown' and lookups > 0`, e.RunID()) == 1
		})
		require.Equal(t, []int{1}, written(t, w, e))
		require.NoError(t, w.Sandbox.ClearFaults(t.Context()))
		w.Await(e, contracts.StateCompleted)
		require.Equal(t, []int{1, 2}, written(t, w, e))
	})

	t.Run("AFailureKeepsTheLaterOnesFromBeingSent", func(t *testing.T) {
		e := w.Plan(update, update, update)
		w.Fault(partOf(e, 2, sandbox.CRM, sandbox.Update, refused))
		w.Post(e)
		w.Await(e, contracts.StateCompleted)
		require.Equal(t, []int{1}, written(t, w, e))
		told := w.AwaitTold(e, contracts.TypeRunCompleted).Data.(*contracts.RunCompleted)
		require.Equal(t, contracts.OutcomePartial, told.Outcome)

		all := w.Plan(update, update)
		w.Fault(partOf(all, 1, sandbox.CRM, sandbox.Update, refused))
		w.Post(all)
		w.Await(all, contracts.StateFailedTerminal)
		require.Empty(t, written(t, w, all))
	})

	t.Run("PeopleOfBothAudiencesDecideOnAllOfItTogether", func(t *testing.T) {
		e := w.Plan(update, "payment.refund")
		w.Post(e)
		w.Await(e, contracts.StateAwaitingHuman)
		lead, sales := w.SignIn("nora"), w.SignIn("dora")
		card := lead.Card(e)
		require.Equal(t, update+"+payment.refund", card.ActionType)
		require.Equal(t, 2, card.Quorum)
		status, voted := lead.DecideCard(card, ledger.Approve, "Both belong together.")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, ledger.ApprovalPending, voted.Status, "the people of the CRM have not said anything yet")
		require.Empty(t, written(t, w, e))
		status, _ = sales.DecideCard(card, ledger.Approve, "The address is right.")
		require.Equal(t, http.StatusOK, status)
		w.Await(e, contracts.StateCompleted)
		require.Equal(t, []int{1, 2}, written(t, w, e))
	})
}
