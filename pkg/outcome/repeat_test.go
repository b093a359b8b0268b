package outcome_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

func TestSameKeyAllowed(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	declared := config.Operation{
		IdempotencyHeader: "Idempotency-Key", Replays: true, KeyWindow: 24 * time.Hour, KeyMargin: time.Hour,
	}
	without := func(change func(*config.Operation)) config.Operation {
		op := declared
		change(&op)
		return op
	}
	for _, c := range []struct {
		name  string
		op    config.Operation
		first time.Time
		after time.Duration
		want  bool
	}{
		{"JustBeforeTheMargin", declared, first, 23*time.Hour - time.Nanosecond, true},
		{"AtTheMargin", declared, first, 23 * time.Hour, false},
		{"AfterTheWindow", declared, first, 24*time.Hour + time.Minute, false},
		{"NobodyKnowsWhenItWasSent", declared, time.Time{}, time.Minute, false},
		{"TheProviderDoesNotReplay", without(func(op *config.Operation) { op.Replays = false }), first, time.Minute, false},
		{"NoKeyIsSent", without(func(op *config.Operation) { op.IdempotencyHeader = "" }), first, time.Minute, false},
		{"NoWindowIsDeclared", without(func(op *config.Operation) { op.KeyWindow = 0 }), first, -time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, outcome.SameKeyAllowed(&c.op, c.first, first.Add(c.after)))
		})
	}
}
