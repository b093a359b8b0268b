package approval

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// wide is a loft in which refunds escalate to operations, who have a channel of their own.
func wide(t *testing.T, leads, operations *pigeon) *gate {
	t.Helper()
	g := loft(t, leads, "support-lead")
	tenant := g.tenant("demo")
	tenant.Channels = append(tenant.Channels, &config.Channel{ID: "ops", Kind: config.ChannelEmail, Roles: []string{"operator"}})
	tenant.channels["ops"] = operations
	refund := tenant.actions["payment.refund"]
	refund.Review.RemindBefore, refund.Review.Escalation = time.Hour, &config.Escalation{Before: 30 * time.Minute, To: []string{"operator"}}
	return g
}

// within lets time pass for an approval until so much is left to decide it.
func (g *gate) within(asked ledgertest.Asked, left time.Duration) {
	g.t.Helper()
	g.Exec(`update approvals set decide_by = clock_timestamp() + make_interval(secs => $2::float8),
  remind_at = remind_at - (decide_by - (clock_timestamp() + make_interval(secs => $2::float8))),
  escalate_at = escalate_at - (decide_by - (clock_timestamp() + make_interval(secs => $2::float8)))
where approval_id = $1`, asked.ApprovalID, left.Seconds())
}

// later runs the loops that wait for times, then those that tell.
func (g *gate) later() {
	g.t.Helper()
	_, err := g.remind(g.t.Context())
	require.NoError(g.t, err)
	_, err = g.escalate(g.t.Context())
	require.NoError(g.t, err)
	g.turn()
}

func TestRemindersAndEscalation(t *testing.T) { // A12
	t.Parallel()

	t.Run("WhoWasToldIsRemindedOnceBeforeTheEnd", func(t *testing.T) {
		t.Parallel()
		leads, operations := &pigeon{to: []string{"nora@example.test"}}, &pigeon{to: []string{"otto@example.test"}}
		g := wide(t, leads, operations)
		asked := g.waiting("k")
		g.turn()
		g.within(asked, 61*time.Minute)
		g.later()
		require.Len(t, leads.sent, 1, "it is not time yet")
		g.within(asked, 59*time.Minute)
		g.later()
		g.later()
		require.Len(t, leads.sent, 2)
		first, second := leads.sent[0], leads.sent[1]
		require.Equal(t, []string{ledger.NoticeRequest, ledger.NoticeReminder}, []string{first.Kind, second.Kind})
		require.NotEqual(t, first.ID, second.ID, "a reminder is no repetition of the first message")
		require.NotEqual(t, first.Link, second.Link)
		require.Contains(t, text(&second), "still waiting")
		require.Equal(t, 1, g.Count(`select count(*) from approval_tokens where spent_at is null`), "the new link replaces the old")
		require.Empty(t, operations.sent)
		require.Equal(t, 1, g.Count(`select count(*) from audit_events where move = 'remind'`))
	})

	t.Run("MorePeopleMayDecideLaterAndAreTold", func(t *testing.T) {
		t.Parallel()
		leads, operations := &pigeon{to: []string{"nora@example.test"}}, &pigeon{to: []string{"otto@example.test"}}
		g := wide(t, leads, operations)
		asked := g.waiting("k")
		g.turn()
		g.within(asked, 29*time.Minute)
		g.later()
		g.later()
		require.Len(t, operations.sent, 1)
		require.Equal(t, ledger.NoticeEscalation, operations.sent[0].Kind)
		require.Contains(t, text(&operations.sent[0]), "Nobody has decided yet")
		require.Equal(t, "{support-lead,operator}", g.Text(`select audience::text from approvals`))
		require.Equal(t, `{"roles": ["operator"]}`, g.Text(`select (detail - 'approval_id')::text from audit_events where move = 'escalate'`))
	})

	t.Run("WhatNobodyCouldBeToldOfEscalatesAtOnce", func(t *testing.T) {
		t.Parallel()
		leads, operations := &pigeon{to: []string{"nora@example.test"}, fail: errors.New("no such mailbox")}, &pigeon{to: []string{"otto@example.test"}}
		g := wide(t, leads, operations)
		g.waiting("k")
		g.turn()
		g.later()
		require.Empty(t, operations.sent, "the mail server may come back")
		g.Exec(`update notifications set attempts = $1, next_at = clock_timestamp()`, maxAttempts-1)
		g.turn()
		require.Equal(t, "failed", g.Text(`select state from notifications`))
		g.later()
		require.Len(t, operations.sent, 1)
	})

	t.Run("WhatIsDecidedIsNeitherRemindedOfNorEscalated", func(t *testing.T) {
		t.Parallel()
		leads, operations := &pigeon{to: []string{"nora@example.test"}}, &pigeon{to: []string{"otto@example.test"}}
		g := wide(t, leads, operations)
		asked := g.waiting("k")
		g.turn()
		g.Vote(asked.Vote("nora", ledger.Reject))
		g.within(asked, time.Minute)
		g.later()
		require.Len(t, leads.sent, 1)
		require.Empty(t, operations.sent)
	})
}
