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
// others. More at once than the whole burst counts as the burst.
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
	r := refuse(newProblemf(contracts.CodeTooManyRequests, "At most %g requests a second are taken, and %d at once.",
		float64(t.rate.Limit()), t.rate.Burst()))
	r.retryAfter = strconv.Itoa(int(math.Ceil(wait.Seconds())))
	return r, true
}
