package intake

import (
	"math"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

func newLimiter(declared *config.RateLimit) *rate.Limiter {
	if declared == nil {
		return nil
	}
	return rate.NewLimiter(rate.Limit(declared.PerSecond), declared.Burst)
}

// overRate takes n requests out of what the tenant may ask, or says when to come back: one loud tenant does not starve the
// others.
func (t *tenant) overRate(n int) (reply, bool) {
	if t.rate == nil || n < 1 {
		return reply{}, false
	}
	now := time.Now()
	taken := t.rate.ReserveN(now, min(n, t.rate.Burst()))
	wait := taken.DelayFrom(now)
	if wait == 0 {
		return reply{}, false
	}
	taken.CancelAt(now)
	return t.tooMany(wait), true
}

// overRateBatch is overRate for the n events of a batch, whose request was counted as one already. A batch is taken when as
// much of it as the burst allows is free, for otherwise a batch above the burst could never be; what it has besides is owed,
// so that batches are no way around the rate.
func (t *tenant) overRateBatch(n int) (reply, bool) {
	if t.rate == nil {
		return reply{}, false
	}
	burst := t.rate.Burst()
	free := min(n-1, burst-1)
	if answer, over := t.overRate(free); over {
		return answer, true
	}
	for owed := n - 1 - free; owed > 0; owed -= burst {
		t.rate.ReserveN(time.Now(), min(owed, burst))
	}
	return reply{}, false
}

func (t *tenant) tooMany(wait time.Duration) reply {
	r := refuse(newProblemf(contracts.CodeTooManyRequests, "At most %g requests a second are taken, and %d at once.",
		float64(t.rate.Limit()), t.rate.Burst()))
	r.retryAfter = strconv.Itoa(int(math.Ceil(wait.Seconds())))
	return r
}
