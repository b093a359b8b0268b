package intake

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
)

// Bounds of waiting for a run's end.
const (
	longestWait = 45 * time.Second // well below what the server gives an answer
	maxWaiters  = 4096             // of one replica; the next one is answered at once
	firstLook   = 20 * time.Millisecond
	rarestLook  = 500 * time.Millisecond
)

// preferredWait is how long the caller prefers to wait for the end of the run (RFC 7240, section 4.3), in whole seconds, or 0.
func preferredWait(h http.Header) time.Duration {
	for _, value := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(value, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, seconds, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(seconds), `"`))
			if err == nil && n > 0 {
				return time.Duration(min(n, int(longestWait/time.Second))) * time.Second // the first one counts (section 2)
			}
		}
	}
	return 0
}

// waited is the handler of answers about one run that are held, where the caller prefers that, until the run has ended.
func (d *httpDoor) waited(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) reply {
		began := time.Now()
		answer := next(w, r, c)
		wait := preferredWait(r.Header)
		told, isAnswer := answer.body.(*contracts.Answer)
		if wait == 0 || !isAnswer || told.Outcome != "" || unread(r) {
			return answer
		}
		select {
		case d.in.waiters <- struct{}{}:
		default:
			return answer
		}
		defer func() { <-d.in.waiters }()
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
		// The server's patience began with the request, and a body may have taken its time.
		ctx, cancel := context.WithDeadline(r.Context(), began.Add(longestWait))
		defer cancel()
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
		return d.in.untilEnded(ctx, c.tenant, answer)
	}
}

// unread is true of a request with a body that no handler has read, such as a GET's. While it lies there, the server cannot
// see that the caller has hung up, and would wait for nobody.
func unread(r *http.Request) bool { return r.Method != http.MethodPost && r.ContentLength != 0 }

// untilEnded is the same answer with the run as it stands at its end, or when the waiting is over. An outage meanwhile says
// nothing about the event, which stays stored, so it ends the waiting and not the answer.
func (in *Intake) untilEnded(ctx context.Context, t *tenant, answer reply) reply {
	told := *answer.body.(*contracts.Answer)
	first := told.Result == contracts.ResultAccepted // whoever made the run is not told that it is a duplicate
	id, err := uuid.Parse(told.RunID)
	for look := firstLook; err == nil && in.pause(ctx, look); look = min(rarestLook, look*3/2) {
		run, err := in.runs.Do(ctx, runName{t.ID, id})
		if err != nil || run == nil {
			break
		}
		result := statusOf(run)
		if first && !run.Unknown() {
			result = contracts.ResultAccepted
		}
		now := in.describe(run, result, uuid.Nil)
		now.Lease = told.Lease
		told, answer.result = *now, result
		if run.Ended() {
			answer.status = http.StatusOK
			break
		}
	}
	answer.body = &told
	return answer
}

// pause is false when the time is over or the replica stops.
func (in *Intake) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-in.stopping:
	}
	return false
}
