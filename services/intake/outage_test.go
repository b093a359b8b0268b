package intake_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// holdCommits makes every commit of a new run wait until the returned function is called: the rows are written, and
// nobody can know yet whether they stay.
func (w *world) holdCommits() (release func()) {
	w.t.Helper()
	w.exec(`create function hold_commit() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock_shared(4711); return null; end $$`)
	w.exec(`create constraint trigger hold_commit after insert on runs deferrable initially deferred
for each row execute function hold_commit()`)
	conn, err := w.sql.Acquire(w.t.Context())
	require.NoError(w.t, err)
	_, err = conn.Exec(w.t.Context(), "select pg_advisory_lock(4711)")
	require.NoError(w.t, err)
	return func() {
		w.t.Helper()
		_, err := conn.Exec(context.WithoutCancel(w.t.Context()), "select pg_advisory_unlock(4711)")
		require.NoError(w.t, err)
		conn.Release()
	}
}

// awaitHeld waits until n sessions wait for a commit to be released, or for one that does.
func (w *world) awaitHeld(n int) {
	w.t.Helper()
	w.await(`(select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock') >= $1`, n)
}

// outcome is what became of a call in the background.
type outcome struct {
	answer
	err error
}

// later sends a call in the background.
func (r *replica) later(c call) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		a, err := r.try(c)
		done <- outcome{a, err}
	}()
	return done
}

func TestSlowCommits(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *replica {
		t.Helper()
		t.Parallel()
		return newWorld(t).start()
	}
	const path = "/v1/sources/inline/events"

	// A sender gives up and sends again, three times, while the first commit is still on its way (INT-11).
	t.Run("NoDoorAnswersBeforeTheCommit", func(t *testing.T) {
		r := setup(t)
		r.request(demo, "get", nil, `{"key":"k"}`) // its subscription is there
		release := r.holdCommits()
		for range 3 {
			ctx, giveUp := context.WithCancel(t.Context())
			gone := r.later(call{path: path, header: keyed("k"), body: goodEvent, ctx: ctx})
			r.awaitHeld(1)
			giveUp()
			require.ErrorIs(t, (<-gone).err, context.Canceled)
		}
		waiting := r.later(call{path: path, header: keyed("k"), body: goodEvent})
		over := r.publish(message{source: "inline", header: keyed("k"), body: goodEvent})
		claimed := make(chan answer, 1)
		go func() { claimed <- r.request(demo, "claim.drafts", keyed("w"), `{}`) }()
		r.awaitHeld(2)
		require.Zero(t, r.count("select count(*) from runs"), "nothing is committed")
		require.Equal(t, 1, r.unsettled(demo), "nothing is acknowledged")
		require.Empty(t, waiting)
		require.Empty(t, over)
		require.Empty(t, claimed)
		release()
		last := <-waiting
		require.NoError(t, last.err)
		require.Equal(t, contracts.ResultDuplicate, last.result())
		require.Equal(t, last.runID(), next(r.world, over).runID())
		require.Equal(t, contracts.ResultAccepted, next(r.world, claimed).result())
		r.awaitSettled(demo)
		require.Equal(t, 1, r.count("select count(*) from runs where idempotency_key = 'k'"))
		require.Equal(t, 1,
			r.count("select count(*) from event_log where subject = 'holdpoint.internal.intent.submitted'"))
	})

	t.Run("AClientThatGoesAwayMidCommitUndoesNothing", func(t *testing.T) {
		r := setup(t)
		release := r.holdCommits()
		ctx, leave := context.WithCancel(t.Context())
		gone := r.later(call{path: path, header: keyed("k"), body: goodEvent, ctx: ctx})
		r.awaitHeld(1)
		leave()
		require.ErrorIs(t, (<-gone).err, context.Canceled)
		require.Eventually(t, func() bool {
			return r.counted("holdpoint_intake_answers_total", map[string]string{"result": "abandoned"}) == 1
		}, patience, pollEvery)
		release()
		r.await("exists (select from runs where idempotency_key = 'k')")
		require.Equal(t, contracts.ResultDuplicate, r.post("inline", "k", goodEvent).result(),
			"the retry learns that it is stored")
		require.Equal(t, 1, r.count("select count(*) from event_log"))
		require.NotContains(t, r.logs.text(), "ERROR")
	})

	// The link is cut when COMMIT has been done and before its answer is there (STO-04).
	t.Run("ACommitWhoseAnswerIsLostIsReportedAsAccepted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p, url := newProxy(w)
		r := w.startOn(url)
		release := r.holdCommits()
		waiting := r.later(call{path: path, header: keyed("k"), body: goodEvent})
		r.awaitHeld(1)
		p.mute()
		release()
		r.await("exists (select from runs)")
		p.cut(false)
		a := <-waiting
		require.NoError(t, a.err)
		require.Equal(t, http.StatusAccepted, a.status)
		require.Equal(t, contracts.ResultAccepted, a.result(), "it has won, and is told so")
		require.Equal(t, 1, r.count("select count(*) from runs"))
		require.Equal(t, 1, r.count("select count(*) from event_log"))
		require.Equal(t, 1, r.count("select count(*) from audit_events"))
	})

	// SIGTERM in the middle of it all (O6): what was taken is answered, what comes later is not taken.
	t.Run("AStopAnswersWhatWasTaken", func(t *testing.T) {
		r := setup(t)
		r.request(demo, "get", nil, `{"key":"k"}`)
		release := r.holdCommits()
		waiting := r.later(call{path: path, header: keyed("http"), body: goodEvent})
		r.awaitHeld(1)
		over := r.publish(message{source: "inline", header: keyed("nats"), body: goodEvent})
		r.awaitHeld(2)
		claimed := make(chan answer, 1)
		go func() { claimed <- r.request(demo, "claim.drafts", keyed("request"), `{}`) }()
		r.awaitHeld(3)
		stopped := make(chan error, 1)
		go func() { stopped <- r.stop() }()
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err == nil {
				conn.Close()
			}
			return err != nil
		}, patience, pollEvery, "new callers are turned away")
		require.Empty(t, stopped, "it waits for those it has")
		release()
		a := <-waiting
		require.NoError(t, a.err)
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, contracts.ResultAccepted, next(r.world, over).result())
		require.Equal(t, contracts.ResultAccepted, next(r.world, claimed).result())
		require.NoError(t, <-stopped)
		r.awaitSettled(demo)
		require.Equal(t, 3, r.count("select count(*) from runs"))
	})
}

// One store or the other is away (O7).
func TestOutages(t *testing.T) {
	t.Parallel()

	t.Run("WithoutPostgresHTTPSaysSoAndTheBusGetsNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p, url := newProxy(w)
		r := w.startOn(url)
		lease := r.claim("leased", `{}`)
		p.cut(true)
		for _, c := range []call{
			{path: "/v1/sources/inline/events", header: keyed("k"), body: goodEvent},
			{path: "/v1/sources/drafts/claims", header: keyed("k"), body: `{}`},
			{path: "/v1/runs/" + lease.runID() + "/failure", body: `{"owner":"` + lease.Lease.Owner +
				`","version":1,"retryable":true,"reason":"x"}`},
			{path: "/v1/runs/" + lease.runID(), method: http.MethodGet},
		} {
			a := r.send(c)
			require.Equal(t, http.StatusServiceUnavailable, a.status, c.path)
			require.Equal(t, contracts.CodeUnavailable, a.problem.Code, c.path)
			require.Equal(t, []string{"1"}, a.header["Retry-After"], c.path)
		}
		require.Equal(t, contracts.CodeUnavailable, r.request(demo, "claim.drafts", keyed("k"), `{}`).result())
		for name := range r.js.StreamNames(t.Context()).Name() {
			stream, err := r.js.Stream(t.Context(), name)
			require.NoError(t, err)
			require.Zero(t, stream.CachedInfo().State.LastSeq, "intake queues nothing on %s", name)
		}

		answers := r.publish(message{header: keyed("nats"), body: `{}`}, message{header: keyed(""), body: `{}`})
		require.Eventually(t, func() bool { return strings.Contains(r.logs.text(), "they stay in the stream") },
			patience, pollEvery)
		require.Equal(t, 2, r.unsettled(demo), "an outage acknowledges and parks nothing")
		p.restore()
		results := []string{next(r.world, answers).result(), next(r.world, answers).result()}
		require.ElementsMatch(t, []string{contracts.ResultAccepted, contracts.CodeKeyMissing}, results,
			"all resumes by itself")
		require.Equal(t, contracts.ResultAccepted, r.post("inline", "k", goodEvent).result())
		r.awaitSettled(demo)
	})

	t.Run("WithoutTheBrokerHTTPWorks", func(t *testing.T) {
		t.Parallel()
		r := newWorld(t).start()
		r.bus.Server.Close()
		require.Equal(t, contracts.ResultAccepted, r.post("inline", "k", goodEvent).result())
		require.Equal(t, contracts.ResultAccepted, r.claim("w", `{}`).result())
		require.Equal(t, 2, r.count("select count(*) from pending"), "the relay will publish it")
	})

	t.Run("AStartWithoutTheBrokerWorks", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.bus.Server.Close()
		r := w.start()
		require.Equal(t, contracts.ResultAccepted, r.post("inline", "k", goodEvent).result())
		require.NoError(t, r.stop())
		_, err := r.try(call{path: "/v1/sources/inline/events", header: keyed("k"), body: goodEvent})
		require.Error(t, err)
		require.False(t, errors.Is(err, context.DeadlineExceeded))
	})
}
