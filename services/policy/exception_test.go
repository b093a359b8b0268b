package policy

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func TestUnattended(t *testing.T) { // P4
	t.Parallel()
	world := setup(t, servicetest.WithConfig(func(tenant *config.Tenant) {
		tenant.Rules = append(tenant.Rules, &config.Rule{ID: "watched", Action: "crm.contact.update", When: "true", Route: config.RouteAuto,
			Reason: "Nearly always right.", Window: 10 * time.Minute, Exception: &config.Exception{Evaluation: "e-1", Threshold: "0.99",
				OneIn: 1, ReviewWithin: time.Hour, Until: time.Now().Add(24 * time.Hour)}})
	}))

	t.Run("WhatARuleLetsActIsHeldAndSampledAndAWrongOneSendsTheRestToPeople", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Contact("u1"))
		run := b.World.Run("u1").RunID
		require.Equal(t, 1, b.Count(`select count(*) from effects where run_id = $1 and cancel_until > clock_timestamp() + interval '9 minutes'`,
			run))
		require.Equal(t, "{sales-operations}", b.Text(`select audience::text from exception_uses where run_id = $1`, run))

		sample := uuid.MustParse(b.Text(`select sample_id::text from exception_uses where run_id = $1`, run))
		judged, err := b.Env(ledger.Approval).Ledger.JudgeSample(t.Context(), ledger.Judgement{CommandID: uuid.New(), TenantID: "demo",
			RunID: run, SampleID: sample, Verdict: ledger.VerdictWrong, Reason: "the wrong contact", Channel: "web",
			Reviewer: ledger.Reviewer{Issuer: "i", Subject: "s", ID: "nora"}})
		require.NoError(t, err)
		require.True(t, judged.Stopped)

		b.decided(b.Contact("u2"))
		require.Equal(t, ledger.RunAwaitingHuman, b.World.Run("u2").State)
		reasons := b.decision("u2").Reasons
		last := reasons[len(reasons)-1]
		require.Equal(t, []string{engine.CodeExceptionStopped, "watched"}, []string{last.Code, last.RuleID})
		require.Contains(t, last.Message, "nora stopped it")
		require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, b.World.Run("u2").RunID))
	})

	t.Run("AnOverdueSampleIsNamed", func(t *testing.T) {
		t.Parallel()
		reason := stoppedReason(&ledger.Stopped{Class: ledger.Class{Rule: "watched", ReviewWithin: time.Hour}, Overdue: 2})
		require.Equal(t, engine.CodeSamplesOverdue, reason.Code)
		require.Contains(t, reason.Message, "2 of its samples")
	})
}
