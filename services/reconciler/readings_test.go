package reconciler

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// asks has the changes of contacts wait for a person, and returns their requests.
func (b *bench) asks(keys ...string) []ledgertest.Asked {
	b.t.Helper()
	claims := make([]ledger.Claim, len(keys))
	for i, key := range keys {
		claims[i] = b.Contact(key)
	}
	b.Claim(claims...)
	b.Decide(config.RouteHumanReview, claims...)
	asked := make([]ledgertest.Asked, len(keys))
	for i, key := range keys {
		asked[i] = b.Pending(key)
	}
	return asked
}

// readAll takes up what is due to be read.
func (b *bench) readAll() {
	b.t.Helper()
	_, err := b.readTargets(b.t.Context())
	require.NoError(b.t, err)
	b.working.Wait()
}

func (b *bench) reading(a ledgertest.Asked) *ledger.Reading {
	b.t.Helper()
	card, err := b.Approval.Card(b.t.Context(), a.ApprovalID)
	require.NoError(b.t, err)
	return card.Readings.Of(1)
}

// TestTargetsAreReadForReviewers is the half of A10 that the gate may not do itself.
func TestTargetsAreReadForReviewers(t *testing.T) {
	t.Parallel()
	reads := func(key string) sandbox.Match {
		return sandbox.Match{Operation: sandbox.Read, PathPrefix: "/crm/contacts/c-" + key}
	}

	t.Run("OnlyByAGetAndOnlyOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("writer", func(p *servicetest.Proposal) { p.Target["record_id"] = "c-k" }))
		b.write(b.lease("writer"))
		asked := b.asks("k")[0]
		_, err := b.Operator.SetSwitch(t.Context(), ledger.Switch{Scope: ledger.ScopeTenant, Key: "demo", Closed: true, ChangedBy: "a", Reason: "b"})
		require.NoError(t, err)
		b.readAll()
		got := b.reading(asked)
		require.True(t, got.Found, "a closed kill switch stops no read: %+v", got)
		require.Equal(t, "2", got.Version)
		require.JSONEq(t, `{"/fields/city":"Lisbon"}`, string(got.Held))
		other := another(t, b.World)
		_, err = other.readTargets(t.Context())
		require.NoError(t, err)
		other.working.Wait()
		require.Equal(t, got.ReadAt, b.reading(asked).ReadAt, "it is not due")
		writes, err := b.Sandbox.Writes(t.Context(), sandbox.Filter{})
		require.NoError(t, err)
		require.Len(t, writes, 1, "nothing was written by it")
		require.Equal(t, 1, b.Count(`select count(*) from approvals where approval_id = $1
  and next_read_at between clock_timestamp() + interval '4 minutes' and clock_timestamp() + interval '5 minutes'`, asked.ApprovalID))
	})

	t.Run("AFailureIsToldAndTriedAgainLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := b.asks("k")[0]
		b.Fault(reads("k"), sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.readAll()
		got := b.reading(asked)
		require.False(t, got.Answered())
		require.Contains(t, got.Error, "HTTP 500")
		require.Equal(t, 1, b.Count(`select count(*) from approvals where next_read_at between clock_timestamp() + interval '10 seconds'
  and clock_timestamp() + interval '15 seconds'`))
		b.Heal()
		b.Exec(`update approvals set next_read_at = clock_timestamp()`)
		b.readAll()
		require.True(t, b.reading(asked).Answered())
		require.Empty(t, b.reading(asked).Error)
	})

	t.Run("AConnectorThatHangsHoldsUpNoLookup", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("sent"))
		b.lost("sent", true)
		b.asks("k")
		hanging := b.Fault(reads("k"), sandbox.Fault{Kind: sandbox.HangBeforeAccept})
		stop := b.Start(b.Reconciler)
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), hanging, 1))
		b.DueNow()
		b.Eventually(func() bool { return b.Look("sent").State == ledger.EffectCompleted }, "the lookup was made")
		require.NoError(t, stop())
		require.Zero(t, b.Count(`select count(*) from readings`), "what the stop cut off says nothing")
	})

	t.Run("WhatTheTargetHoldsIsReadWhileItWaitsAndNotAfter", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := b.asks("k")[0]
		b.Vote(asked.Vote("nora", ledger.Reject))
		b.readAll()
		require.Nil(t, b.reading(asked))
	})

	t.Run("ALargeQueueIsReadInBatches", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		keys := make([]string, readBatch+3)
		for i := range keys {
			keys[i] = uuid.NewString()
		}
		b.asks(keys...)
		b.readAll()
		require.Equal(t, readBatch, b.Count(`select count(*) from readings`))
		require.Len(t, b.wakeReadings, 1, "more may be due")
		b.readAll()
		require.Equal(t, len(keys), b.Count(`select count(*) from readings`))
	})

	t.Run("WhatIsNotConfiguredAnyMoreSaysSo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := b.asks("k")[0]
		b.renameCRM()
		b.readAll()
		require.Equal(t, "connector sandbox-crm is not configured any more", b.reading(asked).Error)
	})

	t.Run("AnOperationWithoutReadIsNeverTaken", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *config.Tenant) { servicetest.Operation(c, servicetest.CRM).Read = nil })
		b.asks("k")
		require.Empty(t, b.readable)
		b.readAll()
		require.Zero(t, b.Count(`select count(*) from readings`))
	})

	require.Equal(t, longestError+1, len([]rune(short(strings.Repeat("ö", 1000)))))
}

// asksTogether has several actions wait for one decision.
func (b *bench) asksTogether(key string, parts ...servicetest.Proposal) ledgertest.Asked {
	b.t.Helper()
	claim := b.Plan(key, parts...)
	b.Claim(claim)
	b.Decide(config.RouteHumanReview, claim)
	return b.Pending(key)
}

func (b *bench) readings(a ledgertest.Asked) ledger.Readings {
	b.t.Helper()
	card, err := b.Approval.Card(b.t.Context(), a.ApprovalID)
	require.NoError(b.t, err)
	return card.Readings
}

// readAllOfSeveral plans what is new, and takes up what is due to be read.
func (b *bench) readAllOfSeveral() {
	b.t.Helper()
	b.readAll()
	b.readAll()
}

// TestEachTargetOfSeveralIsRead is A10 of a request with several actions (D10).
func TestEachTargetOfSeveralIsRead(t *testing.T) {
	t.Parallel()
	// Payments have a target of their own that can be read, by another connector than contacts.
	payments := func(c *config.Tenant) {
		servicetest.Operation(c, servicetest.Payments).Read = &config.Read{Path: "/crm/contacts/${target.record_id}", Version: "/version",
			Fields: map[string]string{"/payment_id": "/id"}}
	}
	target := func(record string) sandbox.Match {
		return sandbox.Match{Operation: sandbox.Read, PathPrefix: "/crm/contacts/" + record}
	}

	t.Run("EachByItsOwnConnector", func(t *testing.T) {
		t.Parallel()
		b := setup(t, payments)
		asked := b.asksTogether("k", servicetest.RefundProposal("k"), servicetest.ContactProposal("k"), servicetest.RefundProposal("l"))
		b.readAllOfSeveral()
		got := b.readings(asked)
		require.Len(t, got, 3)
		require.JSONEq(t, `{"/payment_id":"p-k"}`, string(got.Of(1).Held))
		require.Equal(t, "1", got.Of(2).Version)
		require.JSONEq(t, `{"/payment_id":"p-l"}`, string(got.Of(3).Held))
		require.Equal(t, 3, b.Count(`select count(*) from action_readings
  where next_read_at between clock_timestamp() + interval '4 minutes' and clock_timestamp() + interval '5 minutes'`))
		b.readAll()
		require.Equal(t, got, b.readings(asked), "nothing is due")
	})

	t.Run("TheFirstNeedNotBeReadable", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := b.asksTogether("k", servicetest.RefundProposal("k"), servicetest.ContactProposal("k"))
		b.readAllOfSeveral()
		got := b.readings(asked)
		require.Nil(t, got.Of(1))
		require.True(t, got.Of(2).Answered())
		require.Equal(t, 1, b.Count(`select count(*) from action_readings`), "what cannot be read is never due")
	})

	t.Run("AFailureIsOfOneAndOnlyThatIsTriedAgainSoon", func(t *testing.T) {
		t.Parallel()
		b := setup(t, payments)
		asked := b.asksTogether("k", servicetest.ContactProposal("k"), servicetest.RefundProposal("k"), servicetest.ContactProposal("l"))
		b.Fault(target("c-l"), sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.readAllOfSeveral()
		got := b.readings(asked)
		require.True(t, got.Of(1).Answered())
		require.True(t, got.Of(2).Answered())
		require.Contains(t, got.Of(3).Error, "HTTP 500")
		require.Equal(t, "3", b.Text(`select string_agg(ordinal::text, ' ') from action_readings
  where next_read_at between clock_timestamp() + interval '10 seconds' and clock_timestamp() + interval '15 seconds'`))
		b.Heal()
		b.Exec(`update action_readings set next_read_at = clock_timestamp() where ordinal = 3`)
		b.readAll()
		healed := b.readings(asked)
		require.True(t, healed.Of(3).Answered())
		require.Empty(t, healed.Of(3).Error)
		require.Equal(t, got[:2], healed[:2], "the others were not due")
	})

	t.Run("ATargetThatHangsKeepsNoOtherFromBeingShown", func(t *testing.T) {
		t.Parallel()
		b := setup(t, payments, func(c *config.Tenant) { servicetest.Connector(c, servicetest.CRM).Timeout = longestRead })
		asked := b.asksTogether("k", servicetest.ContactProposal("k"), servicetest.ContactProposal("l"), servicetest.RefundProposal("k"))
		hanging := b.Fault(target("c-k"), sandbox.Fault{Kind: sandbox.HangBeforeAccept})
		stop := b.Start(b.Reconciler)
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), hanging, 1))
		shown := func() bool { got := b.readings(asked); return got.Of(2).Answered() && got.Of(3).Answered() }
		b.Eventually(shown, "the other of the same connector, and that of the other one")
		require.Nil(t, b.readings(asked).Of(1), "it still hangs")

		// A request that comes while the connector hangs is read as far as others can.
		late := b.asksTogether("late", servicetest.ContactProposal("m"), servicetest.RefundProposal("m"))
		b.Eventually(func() bool { return b.readings(late).Of(2).Answered() }, "the other connector is free")
		require.Nil(t, b.readings(late).Of(1))
		require.NoError(t, stop())
	})

	t.Run("OneThatIsNotConfiguredAnyMoreSaysSo", func(t *testing.T) {
		t.Parallel()
		b := setup(t, payments)
		asked := b.asksTogether("k", servicetest.ContactProposal("k"), servicetest.RefundProposal("k"))
		b.renameCRM()
		b.readAllOfSeveral()
		require.Equal(t, "connector sandbox-crm is not configured any more", b.readings(asked).Of(1).Error)
		require.True(t, b.readings(asked).Of(2).Answered())
	})
}

// renameCRM gives the connector of the contacts another id, which what was proposed before does not name.
func (b *bench) renameCRM() {
	tenant := b.Config.Tenants[0]
	moved := *servicetest.Connector(tenant, servicetest.CRM)
	moved.ID = "renamed"
	tenant.Connectors = append(tenant.Connectors[1:], &moved)
	servicetest.Action(tenant, "crm.contact.update").Connector = moved.ID
	b.Reconciler = another(b.t, b.World)
}
