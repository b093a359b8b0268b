package ledger_test

import (
	"crypto/sha256"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// reconciled makes a move of the reconciler's.
func reconciled(t *testing.T, b *ledgertest.Bench, s ledger.Settlement) {
	t.Helper()
	moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{s})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, moved)
}

// decidedOn makes a run by a decision of route auto that change has its way with.
func decidedOn(t *testing.T, b *ledgertest.Bench, claim ledger.Claim, change func(*ledger.Decision)) {
	t.Helper()
	b.Claim(claim)
	waiting := waitingIntents(t, b.Policy, []ledger.Claim{claim})
	d := ledgertest.Decision(&waiting[0], uuid.Must(uuid.NewV7()), config.RouteAuto)
	d.PolicyVersion = b.PolicyVersion
	change(&d)
	require.Equal(t, 1, decide(t, b.Policy, d))
}

func TestEveryRunWithEffectsEnds(t *testing.T) { // D10, B4
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("WhatMayHaveBeenSentIsNotCancelledAndGoesToAnOperator", func(t *testing.T) { // D6, R6
		t.Parallel()
		b := shared.For(t)
		for _, key := range []string{"maybe-rejected", "maybe-expired"} {
			effect := b.Approved(key)[0]
			settled(t, b, returning(b, b.Lease(time.Minute, effect)[0]))
			b.Exec(`update effects set maybe_sent = true, first_sent_at = clock_timestamp() where run_id = $1`, effect.RunID) // as a former owner reports it
			asked := b.Pending(key)
			if key == "maybe-rejected" {
				require.Equal(t, ledger.VoteRejected, b.Vote(asked.Vote("nora", ledger.Reject))[0].Result)
			} else {
				b.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, asked.ApprovalID)
				_, err := b.Approval.ExpireApprovals(t.Context(), 100)
				require.NoError(t, err)
			}
			require.Equal(t, "held incident", b.Text(`select state || ' ' || hold_reason from effects where run_id = $1 and open`, effect.RunID))
			require.Equal(t, ledger.RunApproved, b.Run(key).State)
			require.Equal(t, ledger.ResolvedMade, resolve(b, t, resolution(effect, "give_up")).Result)
			require.Equal(t, []string{"ended failed"}, ends(t, b, key))
		}
	})

	t.Run("WhatIsRecalledGoesWithTheRejectionOfWhatIsBeforeIt", func(t *testing.T) { // D16
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.ApprovedStages("recalled", 1, 2)
		settled(t, b, returning(b, b.Lease(time.Minute, effects...)[0]))
		recall := recallOf(func(r *ledger.Recall) { r.PolicyVersion = b.PolicyVersion })
		require.NoError(t, b.Operator.StartRecall(t.Context(), recall))
		n, err := b.Operator.HoldRecalled(t.Context(), recall.TenantID, recall.ID, 100)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, ledger.VoteRejected, b.Vote(b.Pending("recalled").Vote("nora", ledger.Reject))[0].Result)
		require.Equal(t, "cancelled cancelled", states(b, "recalled"))
		require.Equal(t, []string{"ended rejected"}, ends(t, b, "recalled"))
	})

	t.Run("WhatIsRecalledStaysHeldWhenTheRestIsApprovedAgain", func(t *testing.T) { // D16
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("held-back", 1, 2)
		b.Exec(`update effects set state = 'held', hold_reason = 'recalled' where run_id = $1 and ordinal = 2`, effects[0].RunID)
		v := func() ledger.Vote {
			v := b.Pending("held-back").Vote("nora", ledger.Approve)
			v.Effects = ledgertest.EffectsOf("held-back", 1, 2)
			return v
		}
		settled(t, b, returning(b, b.Lease(time.Minute, effects...)[0]))
		require.Equal(t, ledger.VoteApproved, b.Vote(v())[0].Result)
		require.Equal(t, "pending held", states(b, "held-back"))
	})

	t.Run("WhatWasNotDoneAndWhoseStageNeverComesIsCancelled", func(t *testing.T) { // R6
		t.Parallel()
		b := shared.For(t)
		suspected := func(key string, stages ...int) []ledger.EffectKey {
			effects := b.ApprovedStages(key, stages...)
			reconciled(t, b, ledger.Settlement{EffectKey: effects[len(effects)-1], Move: "suspect", HoldReason: ledger.HoldIncident,
				NextCheck: ledger.Never})
			return effects
		}
		effects := suspected("stranded", 1, 2)
		settled(t, b, failing(b.Lease(time.Minute, effects...)[0]))
		require.Equal(t, "failed held", states(b, "stranded"))
		require.Equal(t, ledger.ResolvedMade, resolve(b, t, resolution(effects[1], "confirm_not_done")).Result)
		require.Equal(t, "failed cancelled", states(b, "stranded"))
		require.Equal(t, []string{"ended failed"}, ends(t, b, "stranded"))

		effects = suspected("stranded-partly", 1, 1, 2)
		leased := b.Lease(time.Minute, effects...)
		settled(t, b, succeed(leased[0], "x-1"))
		settled(t, b, failing(leased[1]))
		require.Equal(t, ledger.ResolvedMade, resolve(b, t, resolution(effects[2], "confirm_not_done")).Result)
		require.Equal(t, "completed failed cancelled", states(b, "stranded-partly"))
		require.Equal(t, []string{"completed partial x-1"}, ends(t, b, "stranded-partly"))

		effects = suspected("stage-comes", 1, 2)
		require.Equal(t, ledger.ResolvedMade, resolve(b, t, resolution(effects[1], "confirm_not_done")).Result)
		require.Equal(t, "pending pending", states(b, "stage-comes"), "what is before it may still be done")
	})

	t.Run("WhereAllIsDoneMeanwhileTheRunIsExecuted", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effect := b.Approved("meanwhile")[0]
		settled(t, b, returning(b, b.Lease(time.Minute, effect)[0]))
		reconciled(t, b, ledger.Settlement{EffectKey: effect, Move: "late_success", MaybeSent: true, ExternalID: "x-1",
			NextCheck: ledger.Never, RunKey: "meanwhile", CorrelationID: "c"})
		require.Equal(t, ledger.VoteRejected, b.Vote(b.Pending("meanwhile").Vote("nora", ledger.Reject))[0].Result)
		require.Equal(t, []string{"completed executed x-1"}, ends(t, b, "meanwhile"))
	})
}

func TestFurtherActionsAreFoundWhoeverDecided(t *testing.T) { // K13
	t.Parallel()
	b := ledgertest.New(t)
	near := sha256.Sum256([]byte("further"))
	review := func(d ledger.Decision) ledger.Decision {
		d.Route, d.Near, d.Limits, d.Reasons = config.RouteHumanReview, nil, nil, json.RawMessage(`[]`)
		return d
	}
	looks := func(d *ledger.Decision) {
		alone := *d
		d.Near = &ledger.NearCheck{Others: []ledger.NearWish{{Hash: near[:], Within: time.Hour}},
			Review: func(*ledger.Twin) ledger.Decision { return review(alone) }}
	}
	decidedOn(t, b, ledgertest.Proposal("limited"), func(d *ledger.Decision) {
		d.Effects = ledgertest.EffectsOf("limited", 1, 2)
		alone := *d
		draw := ledger.Draw{Ordinal: 1, Limit: "crm.contact.update/daily", Window: time.Hour, Count: 1, Max: "0", Amount: "1"}
		d.Limits = &ledger.LimitCheck{Draws: []ledger.Draw{draw}, Review: func(*ledger.Exceeded) ledger.Decision { return review(alone) }}
		looks(d)
	})
	require.Equal(t, ledger.RunAwaitingHuman, b.Run("limited").State)
	decidedOn(t, b, ledgertest.Proposal("twin"), func(d *ledger.Decision) {
		d.Effects = ledgertest.EffectsOf("twin", 1, 2)
		looks(d)
	})
	require.Equal(t, ledger.RunAwaitingHuman, b.Run("twin").State, "it wants what a person is asked about because of a limit")
	b.Exec(`update near_effects set created_at = created_at - interval '2 hours' where run_id = $1`, ledger.RunID(ledgertest.Tenant, "limited"))
	decidedOn(t, b, ledgertest.Proposal("third"), func(d *ledger.Decision) {
		d.Effects = ledgertest.EffectsOf("third", 1, 2)
		looks(d)
	})
	require.Equal(t, ledger.RunAwaitingHuman, b.Run("third").State, "it wants what a person is asked about because of a twin")
}

func TestEachEffectHasItsOwnAmountAtRisk(t *testing.T) { // R9
	t.Parallel()
	b := ledgertest.New(t)
	claim := ledgertest.Proposal("amounts")
	text, err := canonical.Canonical([]byte(`{"actions":[{"proposed_change":{"amount":"1.50","currency":"EUR"}},
{"proposed_change":{"amount":"250.00","currency":"USD"}}]}`))
	require.NoError(t, err)
	value, err := canonical.Parse(text)
	require.NoError(t, err)
	claim.Intent.Canonical, claim.Intent.Hash = text, canonical.Hash(value)
	decidedOn(t, b, claim, func(d *ledger.Decision) { d.Effects = ledgertest.EffectsOf("amounts", 1, 1) })
	run := ledger.RunID(ledgertest.Tenant, "amounts")
	for _, e := range b.Lease(time.Minute, ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: run, Revision: 1, Ordinal: 1},
		ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: run, Revision: 1, Ordinal: 2}) {
		settled(t, b, losing(e))
	}
	require.Equal(t, "1.50 EUR, 250.00 USD", b.Text(`select string_agg(risk_amount || ' ' || risk_currency, ', ' order by ordinal)
from effects where run_id = $1`, run))
}
