package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// succeed is what the dispatcher reports of an attempt that worked.
func succeed(e ledger.Leased, externalID string) ledger.Settlement {
	return ledger.Settlement{
		EffectKey: e.EffectKey, Move: "succeed", Attempt: e.Attempt, Owner: e.Owner, NextCheck: ledger.Never, MaybeSent: true,
		ExternalID: externalID, RunKey: e.RunKey, CorrelationID: e.CorrelationID,
		Outcome: &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: "succeeded", Sent: true, HTTPStatus: 200,
			ExternalID: externalID},
	}
}

func TestJourney(t *testing.T) {
	t.Parallel()

	t.Run("OneEventGoesFromClaimToReceipt", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.Approved("k1")
		leased := b.Lease(time.Minute, effects...)
		require.Len(t, leased, 1)
		require.Equal(t, "k1", leased[0].RunKey)
		require.Equal(t, "corr-k1", leased[0].CorrelationID)
		require.Equal(t, ledgertest.PolicyVersion, leased[0].PolicyVersion)
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{succeed(leased[0], "ext-1")})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)

		run := b.Run("k1")
		require.Equal(t, ledger.RunCompleted, run.State)
		require.Equal(t, ledger.OutcomeExecuted, run.Outcome)
		require.Equal(t, []ledger.EffectSummary{{OperationID: effects[0].OperationID(), State: ledger.EffectCompleted, ExternalID: "ext-1"}}, run.Effects)
		require.Equal(t, 3, b.Count(`select count(*) from event_log`))
		require.Equal(t, 3, b.Count(`select count(*) from pending`))
		require.Equal(t, 4, b.Count(`select count(*) from audit_events`), "claim, authorize, lease, succeed")
	})

	t.Run("ADuplicateAfterTheEndGetsTheResult", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		leased := b.Lease(time.Minute, b.Approved("k1")...)
		_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{succeed(leased[0], "ext-1")})
		require.NoError(t, err)
		again := b.Claim(ledgertest.Proposal("k1"))
		require.Equal(t, contracts.ResultDuplicateWithResult, again[0].Result)
		require.Equal(t, "ext-1", again[0].Run.Effects[0].ExternalID)
	})
}
