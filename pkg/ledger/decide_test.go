package ledger_test

import (
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// undecided claims a proposal and reads what policy is asked.
func undecided(t *testing.T, b *ledgertest.Bench, key string) *ledger.Undecided {
	t.Helper()
	c := ledgertest.Proposal(key)
	b.Claim(c)
	waiting, err := b.Policy.Undecided(t.Context(), []ledger.IntentRef{ledgertest.Ref(c)})
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	return &waiting[0]
}

func decide(t *testing.T, l *ledger.Ledger, decisions ...ledger.Decision) int {
	t.Helper()
	moved, err := l.Decide(t.Context(), decisions, func(d *ledger.Decision, err error) { require.NoError(t, err, d.Intent.Key) })
	require.NoError(t, err)
	return moved
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func TestDecide(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)
	rows := func(b *ledgertest.Bench, table string, run uuid.UUID) int {
		return b.Count(`select count(*) from `+table+` where run_id = $1`, run)
	}

	for route, want := range map[string]struct {
		state, outcome, event              string
		authorizations, approvals, effects int
	}{
		config.RouteAuto:        {ledger.RunApproved, "", contracts.TypeEffectRequested, 1, 0, 1},
		config.RouteHumanReview: {ledger.RunAwaitingHuman, "", contracts.TypeRunAwaitingHuman, 0, 1, 0},
		config.RouteReject:      {ledger.RunFailedTerminal, ledger.OutcomeDenied, contracts.TypeRunEnded, 0, 0, 0},
		config.RouteRepair:      {ledger.RunFailedTerminal, ledger.OutcomeInvalid, contracts.TypeRunEnded, 0, 0, 0},
	} {
		t.Run("Route_"+route, func(t *testing.T) { // P2, B1
			t.Parallel()
			b := shared.For(t)
			u := undecided(t, b, "route-"+route)
			event := newID()
			require.Equal(t, 1, decide(t, b.Policy, ledgertest.Decision(u, event, route)))
			run := b.Run(u.Key)
			require.Equal(t, want.state, run.State)
			require.Equal(t, want.outcome, run.Outcome)
			require.Equal(t, int64(2), run.Version)
			require.Equal(t, 1, rows(b, "policy_decisions", u.RunID))
			require.Equal(t, want.authorizations, rows(b, "authorizations", u.RunID))
			require.Equal(t, want.approvals, rows(b, "approvals", u.RunID))
			require.Equal(t, want.effects, rows(b, "effects", u.RunID))
			require.Equal(t, 1, b.Count(`select count(*) from event_log join pending using (event_id) where run_id = $1
and convert_from(payload, 'UTF8')::json->>'type' = $2`, u.RunID, want.event))
			require.Equal(t, 1, b.Count(`select count(*) from inbox where event_id = $1 and consumer = 1 and not parked`, event))
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and actor = 'policy'
and from_state = 'processing' and to_state = $2 and detail->>'route' = $3`, u.RunID, want.state, route))
		})
	}

	t.Run("EffectIsBoundToTheIntentAndPending", func(t *testing.T) { // D2
		t.Parallel()
		b := shared.For(t)
		u := undecided(t, b, "bound")
		decide(t, b.Policy, ledgertest.Decision(u, newID(), config.RouteAuto))
		require.Equal(t, ledger.OperationID(u.RunID, 1, 1)+" pending "+u.IntentHash.String(),
			b.Text(`select operation_id || ' ' || state || ' ' || encode(intent_hash, 'hex') from effects where run_id = $1`, u.RunID))
		require.Equal(t, "3600", b.Text(`select round(extract(epoch from execute_by - created_at))::text from effects where run_id = $1`, u.RunID))
	})

	t.Run("RedeliveredEventIsAppliedOnce", func(t *testing.T) { // B2
		t.Parallel()
		b := shared.For(t)
		u := undecided(t, b, "redelivered")
		event := newID()
		require.Equal(t, 1, decide(t, b.Policy, ledgertest.Decision(u, event, config.RouteAuto)))
		b.Exec(`update runs set state = 'processing' where run_id = $1`, u.RunID) // as if only the inbox could tell
		require.Equal(t, 0, decide(t, b.Policy, ledgertest.Decision(u, event, config.RouteReject)))
		require.Equal(t, 1, rows(b, "policy_decisions", u.RunID))
		require.Equal(t, ledger.RunProcessing, b.Run(u.Key).State)
	})

	t.Run("EmptiedInboxDoublesNothing", func(t *testing.T) { // B2
		t.Parallel()
		b := shared.For(t)
		u := undecided(t, b, "emptied")
		event := newID()
		require.Equal(t, 1, decide(t, b.Policy, ledgertest.Decision(u, event, config.RouteAuto)))
		b.Exec(`delete from inbox where event_id = $1`, event)
		require.Equal(t, 0, decide(t, b.Policy, ledgertest.Decision(u, event, config.RouteHumanReview)))
		require.Equal(t, 1, rows(b, "policy_decisions", u.RunID))
		require.Equal(t, 0, rows(b, "approvals", u.RunID))
		require.Equal(t, ledger.RunApproved, b.Run(u.Key).State)
	})

	t.Run("DecisionOfAnotherRevisionMovesNothing", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		u := undecided(t, b, "revision")
		b.Exec(`update runs set intent_revision = 2 where run_id = $1`, u.RunID)
		require.Equal(t, 0, decide(t, b.Policy, ledgertest.Decision(u, newID(), config.RouteAuto)))
		waiting, err := b.Policy.Undecided(t.Context(), []ledger.IntentRef{{TenantID: u.TenantID, RunID: u.RunID, IntentHash: u.IntentHash}})
		require.NoError(t, err)
		require.Empty(t, waiting)
	})

	t.Run("DecidedIntentIsNoLongerUndecided", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		u := undecided(t, b, "decided")
		decide(t, b.Policy, ledgertest.Decision(u, newID(), config.RouteAuto))
		waiting, err := b.Policy.Undecided(t.Context(), []ledger.IntentRef{{TenantID: u.TenantID, RunID: u.RunID, IntentHash: u.IntentHash}})
		require.NoError(t, err)
		require.Empty(t, waiting)
	})

	t.Run("RepeatsInOneBatchAreAppliedOnceAndAllHandled", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		u := undecided(t, b, "repeats")
		one, two := ledgertest.Decision(u, newID(), config.RouteAuto), ledgertest.Decision(u, newID(), config.RouteReject)
		require.Equal(t, 1, decide(t, b.Policy, one, two))
		require.Equal(t, ledger.RunApproved, b.Run(u.Key).State)
		require.Equal(t, 2, b.Count(`select count(*) from inbox where event_id in ($1, $2)`, one.EventID, two.EventID))
	})

	t.Run("BadDecisionStandsAloneAndLeavesNoTrace", func(t *testing.T) { // B1
		t.Parallel()
		b := shared.For(t)
		good, bad, lost := undecided(t, b, "good"), undecided(t, b, "bad"), undecided(t, b, "lost")
		spoiled := ledgertest.Decision(bad, newID(), config.RouteAuto)
		spoiled.Effects[0].TargetRecord = "a\x00b" // the effect comes after the decision and the authorization
		nowhere := ledgertest.Decision(lost, newID(), "elsewhere")
		told := map[string]error{}
		moved, err := b.Policy.Decide(t.Context(), []ledger.Decision{spoiled, ledgertest.Decision(good, newID(), config.RouteAuto), nowhere},
			func(d *ledger.Decision, err error) { told[d.Intent.Key] = err })
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		require.Equal(t, ledger.RunApproved, b.Run("good").State)
		require.Len(t, told, 2)
		require.ErrorContains(t, told["lost"], "elsewhere")
		require.Equal(t, ledger.RunProcessing, b.Run("bad").State)
		for _, table := range []string{"policy_decisions", "authorizations", "effects"} {
			require.Equal(t, 0, rows(b, table, bad.RunID), table)
		}
		require.Equal(t, 0, b.Count(`select count(*) from inbox where event_id = $1`, spoiled.EventID), "it can be delivered again")
	})

	t.Run("RacingReplicasDecideOnce", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		replicas := []*ledger.Ledger{b.Policy, b.Replica(ledger.Policy), b.Replica(ledger.Policy)}
		u := undecided(t, b, "race")
		var moved atomic.Int32
		var group errgroup.Group
		for i := range 30 {
			group.Go(func() error {
				route := []string{config.RouteAuto, config.RouteHumanReview, config.RouteReject}[i%3]
				n, err := replicas[i%3].Decide(t.Context(), []ledger.Decision{ledgertest.Decision(u, newID(), route)},
					func(_ *ledger.Decision, err error) { t.Error(err) })
				moved.Add(int32(n))
				return err
			})
		}
		require.NoError(t, group.Wait())
		require.Equal(t, int32(1), moved.Load())
		require.Equal(t, 1, rows(b, "policy_decisions", u.RunID))
		require.Equal(t, int64(2), b.Run("race").Version)
	})
}

func TestInboxOfEventsThatMovedNothing(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	events := []uuid.UUID{newID(), newID()}
	require.NoError(t, b.Policy.Inbox(t.Context(), 1, events))
	require.NoError(t, b.Policy.Inbox(t.Context(), 1, append(events, newID())), "an event may be recorded again")
	require.Equal(t, 3, b.Count(`select count(*) from inbox where consumer = 1`))
}
