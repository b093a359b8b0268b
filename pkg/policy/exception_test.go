package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestExceptions: what a rule asks for when it lets an intent act comes with the decision, and an evaluation that has run out lets
// nothing act (P4).
func TestExceptions(t *testing.T) {
	t.Parallel()
	exception := func() *config.Exception { return &config.Exception{Evaluation: "e", Until: noon.Add(time.Hour)} }

	t.Run("EveryRuleThatMatchedCounts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true").Window = time.Minute
		w.rule(config.RouteAuto, "true").Window = 10 * time.Minute
		w.rule(config.RouteAuto, "false").Window = time.Hour
		w.rule(config.RouteAuto, "true").Exception = exception()
		d := w.requireRoute(config.RouteAuto, CodeRuleMatched)
		require.Equal(t, 10*time.Minute, d.Window())
		require.NotNil(t, d.Rules[len(d.Rules)-1].Exception)
	})

	t.Run("AnEvaluationIsGoodUntilItsLastMoment", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true").Exception = exception()
		w.input.Now = noon.Add(time.Hour - time.Microsecond)
		w.requireRoute(config.RouteAuto, CodeRuleMatched)
		w.input.Now = noon.Add(time.Hour)
		d := w.requireRoute(config.RouteHumanReview, CodeRuleMatched, CodeEvaluationExpired)
		require.Empty(t, d.Rules)
		require.Contains(t, d.Reasons[len(d.Reasons)-1].Message, "relies on evaluation e, which was good until 2026-12-01T13:00:00Z")
	})

	t.Run("WhatAPersonDecidesIsHeldByNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true").Window = time.Minute
		w.rule(config.RouteHumanReview, "true")
		require.Empty(t, w.requireRoute(config.RouteHumanReview, CodeRuleMatched).Rules)
	})

	t.Run("CheckNamesAnEvaluationThatHasRunOut", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true").Exception = &config.Exception{Evaluation: "e", Until: time.Now().Add(-time.Hour)}
		found, err := Check(w.tenant)
		require.NoError(t, err)
		var codes []string
		for _, f := range found {
			codes = append(codes, f.Code)
		}
		require.Contains(t, codes, FindingExpired)
	})
}
