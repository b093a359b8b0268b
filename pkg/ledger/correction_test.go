package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// correcting is an event that says it corrects another.
func correcting(key, original string) ledger.Claim {
	c := ledgertest.Proposal(key)
	c.Corrects = &ledger.Correction{Key: original, By: "otto", Reason: "wrong city"}
	return c
}

func TestCorrections(t *testing.T) { // K10
	t.Parallel()
	shared := ledgertest.New(t)
	ended := func(t *testing.T, b *ledgertest.Bench, key string) {
		t.Helper()
		s := succeed(b.Lease(time.Minute, b.Approved(key)...)[0], "ext-"+key)
		_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
		require.NoError(t, err)
	}

	t.Run("ACorrectionIsARunOfItsOwnThatLinksWhatTheOriginalDid", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		ended(t, b, "c1")
		before := b.Run("c1").Version
		answer := b.Claim(correcting("c1-fix", "c1"))[0]
		require.Equal(t, contracts.ResultAccepted, answer.Result)
		require.Equal(t, before, b.Run("c1").Version, "the original stays as it is")
		require.Equal(t, "otto wrong city executed ext-c1 completed", b.Text(`select concat_ws(' ', corrected_by, reason, original_outcome,
original_effects->0->>'external_id', original_effects->0->>'state') from corrections where run_id = $1 and original_run = $2`,
			answer.Run.RunID, b.Run("c1").RunID))
		again := b.Claim(correcting("c1-fix", "c1"))[0]
		require.Equal(t, contracts.ResultDuplicate, again.Result)
		require.Equal(t, 1, b.Count(`select count(*) from corrections where original_run = $1`, b.Run("c1").RunID))
	})

	t.Run("ItGoesThroughPolicyLikeAnyEvent", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		ended(t, b, "c2")
		b.Claim(correcting("c2-fix", "c2"))
		require.Equal(t, ledger.RunProcessing, b.Run("c2-fix").State)
		b.Decide(config.RouteHumanReview, correcting("c2-fix", "c2"))
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("c2-fix").State)
	})

	t.Run("WhatHasNotEndedCannotBeCorrected", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		b.Approved("c3")
		answers, err := b.Intake.Claim(t.Context(), []ledger.Claim{correcting("c3-fix", "c3"), correcting("c4-fix", "nobody"),
			ledgertest.Event("c5")})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, ledger.ErrOriginalOpen)
		require.ErrorIs(t, answers[1].Err, ledger.ErrNoOriginal)
		require.Equal(t, contracts.ResultAccepted, answers[2].Result)
		require.Zero(t, b.Count(`select count(*) from runs where idempotency_key in ('c3-fix', 'c4-fix')`))
	})

	t.Run("AnotherTenantsRunCannotBeCorrected", func(t *testing.T) { // B7
		t.Parallel()
		b := shared.For(t)
		ended(t, b, "c6")
		_, err := b.Intake.ActivateRules(t.Context(), "acme", ledgertest.Source, 1)
		require.NoError(t, err)
		foreign := correcting("c6-fix", "c6")
		foreign.TenantID = "acme"
		answers, err := b.Intake.Claim(t.Context(), []ledger.Claim{foreign})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, ledger.ErrNoOriginal)
	})
}
