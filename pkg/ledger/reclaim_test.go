package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestReclaim(t *testing.T) { // K6, K9
	t.Parallel()
	shared := ledgertest.New(t)
	settled := func(move string) func(*testing.T, *ledgertest.Bench, string) {
		return func(t *testing.T, b *ledgertest.Bench, key string) {
			s := succeed(b.Lease(time.Minute, b.Approved(key)...)[0], "ext-1")
			s.Move = move
			_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
			require.NoError(t, err)
		}
	}
	decided := func(route string) func(*testing.T, *ledgertest.Bench, string) {
		return func(_ *testing.T, b *ledgertest.Bench, key string) {
			b.Claim(ledgertest.Proposal(key))
			b.Decide(route, ledgertest.Proposal(key))
		}
	}
	for name, c := range map[string]struct {
		arrange func(t *testing.T, b *ledgertest.Bench, key string)
		result  string
	}{
		"RunThatNobodyOwns": {func(_ *testing.T, b *ledgertest.Bench, key string) { b.Claim(ledgertest.Event(key)) }, contracts.ResultAccepted},
		"RunWhoseLeaseHasEnded": {func(_ *testing.T, b *ledgertest.Bench, key string) {
			o := owning(b, key)
			b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, o.RunID)
		}, contracts.ResultAccepted},
		"RunThatWasGivenBack": {func(t *testing.T, b *ledgertest.Bench, key string) {
			o := owning(b, key)
			o.Fail = &ledger.Failure{Retryable: true, Reason: "x"}
			own(t, b, o)
		}, contracts.ResultAccepted},
		"NotARunThatIsOwned":       {func(_ *testing.T, b *ledgertest.Bench, key string) { owning(b, key) }, contracts.ResultDuplicate},
		"NotARunWithAnIntent":      {func(_ *testing.T, b *ledgertest.Bench, key string) { b.Claim(ledgertest.Proposal(key)) }, contracts.ResultDuplicate},
		"NotARunThatAwaitsAPerson": {decided(config.RouteHumanReview), contracts.ResultDuplicate},
		"NotAnApprovedRun":         {decided(config.RouteAuto), contracts.ResultDuplicate},
		"NotADeniedRun":            {decided(config.RouteReject), contracts.ResultDuplicateWithResult},
		"NotACompletedRun":         {settled("succeed"), contracts.ResultDuplicateWithResult},
		"NotAFailedRun":            {settled("refuse"), contracts.ResultDuplicateWithResult},
		"NotARunOfUnknownOutcome":  {settled("lose"), contracts.ResultOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			c.arrange(t, b, name)
			before := b.Run(name)
			worker := ledgertest.Worker(name, time.Minute)
			answer := b.Claim(worker)[0]
			require.NoError(t, answer.Err)
			require.Equal(t, c.result, answer.Result)
			after := b.Run(name)
			if c.result == contracts.ResultAccepted {
				require.Equal(t, worker.Lease.Owner, after.LeaseOwner)
				require.Equal(t, before.Version+1, after.Version)
				require.Equal(t, after.Version, answer.Run.Version, "the version is the fence of the next move")
				require.Equal(t, after.LeaseExpiresAt(), answer.Run.LeaseExpiresAt())
				require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'reclaim'`, after.RunID))
			} else {
				require.Equal(t, before.Version, after.Version)
				require.Equal(t, before.LeaseOwner, after.LeaseOwner)
				require.Equal(t, before.State, after.State)
			}
		})
	}

	t.Run("NeverWithAnotherPayload", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		o := owning(b, "payload")
		b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, o.RunID)
		answer := b.Claim(ledgertest.Other(ledgertest.Worker("payload", time.Minute), `{"other":1}`))[0]
		require.Equal(t, contracts.ResultPayloadMismatch, answer.Result)
		require.Equal(t, o.Owner, b.Run("payload").LeaseOwner)
	})

	t.Run("TakeoversAreCountedAndFenceTheFormerOwner", func(t *testing.T) { // K7, INT-03
		t.Parallel()
		b := shared.For(t)
		former := owning(b, "fence")
		for n := 1; n <= 3; n++ {
			b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, former.RunID)
			answer := b.Claim(ledgertest.Worker("fence", time.Minute))[0]
			require.Equal(t, contracts.ResultAccepted, answer.Result)
			require.True(t, answer.TookOver)
			require.Equal(t, n, answer.Run.Takeovers)
		}
		former.Renew = time.Minute
		require.Equal(t, contracts.ResultOwnershipLost, own(t, b, former)[0].Result)
	})

	t.Run("OwnerWhoAsksAgainKeepsItsLeaseAsItIs", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		worker := ledgertest.Worker("again", time.Minute)
		first := b.Claim(worker)[0]
		worker.CommandID = uuid.New()
		second := b.Claim(worker)[0]
		require.Equal(t, contracts.ResultAccepted, second.Result)
		require.Equal(t, first.Run.LeaseExpiresAt(), second.Run.LeaseExpiresAt())
		require.Equal(t, first.Run.Version, second.Run.Version)

		b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, first.Run.RunID)
		worker.CommandID = uuid.New()
		require.Equal(t, contracts.ResultOwnershipLost, b.Claim(worker)[0].Result, "an ended lease is never lengthened past its cap")
	})

	t.Run("TwentyTakersOfOneEndedLeaseHaveOneWinner", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		o := owning(b, "many")
		b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, o.RunID)
		counts, _ := race(t, b, 4, 20, func(int) ledger.Claim { return ledgertest.Worker("many", time.Minute) })
		require.Equal(t, map[string]int{contracts.ResultAccepted: 1, contracts.ResultDuplicate: 19}, counts)
		require.Equal(t, 1, b.Run("many").Takeovers)
	})

	t.Run("TwoWorkersInOneBatchGetOneLease", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		b.Claim(ledgertest.Event("two"))
		require.ElementsMatch(t, []string{contracts.ResultAccepted, contracts.ResultDuplicate},
			results(b.Claim(ledgertest.Worker("two", time.Minute), ledgertest.Worker("two", time.Minute))))
	})
}
