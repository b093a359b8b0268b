package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// kindsTold are the kinds of the events that tell of a request, in their order, as the relay would publish them.
func kindsTold(b *ledgertest.Bench, a ledgertest.Asked) string {
	return b.Text(`select coalesce(string_agg(convert_from(payload, 'UTF8')::json->'data'->>'kind', ' ' order by event_id), '')
from event_log join pending using (event_id) where subject = 'holdpoint.events.demo.approval.requested' and stream = 'HOLDPOINT_EVENTS_DEMO'
and convert_from(payload, 'UTF8')::json->'data'->>'approval_id' = $1`, a.ApprovalID.String())
}

// TestRequestsAreTold is A1 and B1: the event of a request is committed with what it tells of, once, whatever is repeated or lost.
func TestRequestsAreTold(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)
	plan := func(a ledgertest.Asked) []ledger.Plan {
		return []ledger.Plan{{ApprovalID: a.ApprovalID, RemindBefore: time.Nanosecond, EscalateBefore: time.Nanosecond}}
	}
	widen := func(roles ...string) func(*ledger.Asked) ledger.Widening {
		return func(*ledger.Asked) ledger.Widening { return ledger.Widening{Roles: roles} }
	}
	due := func(b *ledgertest.Bench, a ledgertest.Asked) {
		b.Exec(`update approvals set remind_at = clock_timestamp() where approval_id = $1 and remind_at is not null`, a.ApprovalID)
		b.Exec(`update approvals set escalate_at = clock_timestamp() where approval_id = $1 and escalate_at is not null`, a.ApprovalID)
	}
	// all runs the three commands for one request.
	all := func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, a ledgertest.Asked) {
		require.NoError(t, l.Announce(t.Context(), plan(a), nil))
		due(b, a)
		_, err := l.Remind(t.Context(), 100)
		require.NoError(t, err)
		_, err = l.Escalate(t.Context(), 100, widen("operator"))
		require.NoError(t, err)
	}

	t.Run("EachKindIsToldOnce", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		a := b.Asked("once")[0]
		require.Empty(t, kindsTold(b, a), "nobody is told before the request stands")
		all(t, b, b.Approval, a)
		all(t, b, b.Approval, a)
		require.Equal(t, "requested reminder escalation", kindsTold(b, a))
	})

	t.Run("WhatIsToldCanBeReadAndHoldsNothingOfTheProposal", func(t *testing.T) { // A18
		t.Parallel()
		b := shared.For(t)
		a := b.Asked("read")[0]
		all(t, b, b.Approval, a)
		text := b.Text(`select convert_from(payload, 'UTF8') from event_log where run_id = $1
and convert_from(payload, 'UTF8')::json->'data'->>'kind' = 'escalation'`, a.Effect.RunID)
		event, err := contracts.Decode([]byte(text))
		require.NoError(t, err)
		told := event.Data.(*contracts.ApprovalRequested)
		run := b.Run("read")
		require.Equal(t, contracts.RunRef{TenantID: ledgertest.Tenant, RunID: run.RunID.String(), IdempotencyKey: "read",
			CorrelationID: run.CorrelationID}, told.RunRef)
		require.Contains(t, told.Audience, "operator", "as it is from now on")
		require.Equal(t, b.Text(`select action_type from approvals where approval_id = $1`, a.ApprovalID), told.ActionType)
		require.Equal(t, 1, b.Count(`select count(*) from approvals where approval_id = $1 and decide_by = $2`, a.ApprovalID, told.DecideBy))
		require.Equal(t, "action_type approval_id audience correlation_id decide_by idempotency_key kind run_id tenant_id",
			b.Text(`select string_agg(k, ' ' order by k) from json_object_keys($1::json->'data') k`, text))
	})

	t.Run("WhatIsDecidedAlreadyIsNotToldOf", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		a := b.Asked("over")[0]
		b.Vote(a.Vote("nora", ledger.Reject))
		all(t, b, b.Approval, a)
		require.Empty(t, kindsTold(b, a))
	})

	t.Run("AnEscalationToNobodyTellsNothing", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		a := b.Asked("nobody")[0]
		require.NoError(t, b.Approval.Announce(t.Context(), plan(a), nil))
		due(b, a)
		escalated, err := b.Approval.Escalate(t.Context(), 100, widen())
		require.NoError(t, err)
		require.Equal(t, 1, escalated)
		require.Equal(t, "requested", kindsTold(b, a))
	})

	for name, at := range map[string]int{"BeforeTheCommit": ledgertest.BeforeCommit, "AfterTheCommit": ledgertest.AfterCommit} {
		t.Run("ALostAnswerTellsNothingTwice/"+name, func(t *testing.T) {
			t.Parallel()
			b := ledgertest.New(t)
			l, cut := b.Cut(ledger.Approval)
			a := b.Asked("lost")[0]
			for i, run := range []func() error{
				func() error { return l.Announce(t.Context(), plan(a), nil) },
				func() error { _, err := l.Remind(t.Context(), 100); return err },
				func() error { _, err := l.Escalate(t.Context(), 100, widen("operator")); return err },
			} {
				due(b, a)
				cut.Arm(at, 0)
				require.NoError(t, run())
				require.True(t, cut.Fired(), "the connection was cut")
				require.Equal(t, i+1, b.Count(`select count(*) from event_log join pending using (event_id)
where subject like '%.approval.requested'`))
			}
			require.Equal(t, "requested reminder escalation", kindsTold(b, a))
		})
	}
}
