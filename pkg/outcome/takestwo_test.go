package outcome_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

func TestTakesTwo(t *testing.T) { // R6
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	two, one := &config.Action{Resolve: config.Resolve{SecondPerson: true}}, &config.Action{}
	replays := &config.Operation{IdempotencyHeader: "Idempotency-Key", Replays: true, KeyWindow: 24 * time.Hour, KeyMargin: time.Hour}
	for name, c := range map[string]struct {
		action    *config.Action
		op        *config.Operation
		maybeSent bool
		firstSent time.Time
		want      bool
	}{
		"MaybeSentAndNotReplayed":    {two, &config.Operation{}, true, now.Add(-time.Minute), true},
		"CertainlyNotSent":           {two, &config.Operation{}, false, time.Time{}, false},
		"ReplayedWithinItsWindow":    {two, replays, true, now.Add(-22 * time.Hour), false},
		"PastItsWindow":              {two, replays, true, now.Add(-23 * time.Hour), true},
		"NobodyKnowsSinceWhen":       {two, replays, true, time.Time{}, true},
		"TheActionAsksForOne":        {one, &config.Operation{}, true, now.Add(-time.Minute), false},
		"AnActionThatIsThereNoMore":  {nil, &config.Operation{}, true, now.Add(-time.Minute), true},
		"AnOperationThatIsThereNone": {two, nil, true, now.Add(-time.Minute), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, outcome.TakesTwo(c.action, c.op, c.maybeSent, c.firstSent, now))
		})
	}
}
