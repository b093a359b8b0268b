package service

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Loop calls Once again and again: at once while it reports work, else after the pause or when woken. An error is
// logged and waited out; it ends nothing.
type Loop struct {
	Name  string
	Log   *slog.Logger
	Pause time.Duration   // give or take a tenth, so that replicas do not come in step
	Wake  <-chan struct{} // may be nil
	// Gap is the least time from the start of one call to that of the next which a wake-up brings: what comes in quick
	// succession is taken in one batch.
	Gap  time.Duration
	Once func(ctx context.Context) (again bool, err error)
}

// WakeUp has the loop that listens to a channel with room for one come at once, or once more where it is at work. It never waits.
func WakeUp(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default:
	}
}

// errorPause is how long a loop rests after an error, whoever wakes it, so that an outage does not become a storm of
// queries and log lines.
const errorPause = time.Second

// Run loops until the context ends.
func (l Loop) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		again, err := l.Once(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			l.Log.Error("loop failed; trying again", "loop", l.Name, "error", err)
			l.rest(ctx, nil, errorPause)
		case !again:
			l.rest(ctx, l.Wake, l.Pause*9/10+rand.N(l.Pause/5+1))
			l.rest(ctx, nil, l.Gap-time.Since(began))
		}
	}
	return nil
}

// rest waits for d, or until woken, or until the context ends.
func (l Loop) rest(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
