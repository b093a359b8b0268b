package intake_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/intake"
)

// Rules of source drafts, in the versions that these tests go through. Version 1 keys by a header and hashes the whole
// body.
const (
	rules1     = `{version: 1, key: {header: Idempotency-Key}, hash: {exclude: [/delivered_at]}}`
	rules2Hash = rules1 + `, {version: 2, key: {header: Idempotency-Key}, hash: {exclude: [/note]}}`
	rules2Key  = rules1 + `, {version: 2, key: {pointers: [/id]}, hash: {exclude: [/delivered_at]}, overlap_with: 1}`
	rules3Key  = rules2Key + `, {version: 3, key: {pointers: [/id]}, hash: {exclude: [/delivered_at]}}`
)

// reconfigure changes the rules of source drafts for replicas that are started from now on.
func (w *world) reconfigure(rules string) {
	w.t.Helper()
	w.config = configured(w.t, strings.Replace(sources, rules1, rules, 1))
}

// A source's key and hash rules change while its events come again (K15).
func TestRules(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *replica {
		t.Helper()
		t.Parallel()
		return newWorld(t).start()
	}

	t.Run("ADuplicateIsHashedUnderTheRulesOfItsRun", func(t *testing.T) {
		old := setup(t)
		const first, changed = `{"a":1,"note":"x"}`, `{"a":1,"note":"y"}`
		require.Equal(t, contracts.ResultAccepted, old.post("drafts", "k", first).result())
		old.reconfigure(rules2Hash)
		r := old.start()
		require.Equal(t, contracts.ResultDuplicate, r.post("drafts", "k", first).result())
		require.Equal(t, contracts.CodePayloadMismatch, r.post("drafts", "k", changed).result(),
			"version 1 covers the note")
		require.Equal(t, contracts.ResultAccepted, r.post("drafts", "k2", first).result())
		require.Equal(t, contracts.ResultDuplicate, r.post("drafts", "k2", changed).result(), "version 2 does not")
		require.Equal(t, 1, r.count("select rules_version from runs where idempotency_key = 'k'"))
		require.Equal(t, 2, r.count("select rules_version from runs where idempotency_key = 'k2'"))
	})

	t.Run("BothKeysAreLookedUpDuringAnOverlap", func(t *testing.T) {
		old := setup(t)
		const body = `{"id":"x"}`
		first := old.post("drafts", "by-header", body)
		old.reconfigure(rules2Key)
		r := old.start()
		again := r.post("drafts", "by-header", body)
		require.Equal(t, contracts.ResultDuplicate, again.result())
		require.Equal(t, first.runID(), again.runID())
		again = next(r.world, r.publish(message{header: keyed("by-header"), body: `{"id":"x","delivered_at":"now"}`}))
		require.Equal(t, first.runID(), again.runID())
		require.Equal(t, contracts.CodePayloadMismatch, r.post("drafts", "by-header", `{"id":"x","a":1}`).result())

		fresh := r.send(call{path: "/v1/sources/drafts/events", body: `{"id":"y"}`})
		require.Equal(t, contracts.ResultAccepted, fresh.result())
		require.Equal(t, "y", fresh.IdempotencyKey)
		require.Equal(t, fresh.runID(), r.post("drafts", "any", `{"id":"y"}`).runID(), "the new key is enough")
		require.Equal(t, 2, r.count("select count(*) from runs"))

		r.reconfigure(rules3Key)
		r = r.start()
		require.Equal(t, contracts.ResultAccepted, r.post("drafts", "by-header", body).result(), "the overlap is over")
	})

	// A replica that missed the change would claim under keys and hashes that its neighbours no longer use.
	t.Run("AStaleReplicaClaimsNothing", func(t *testing.T) {
		stale := setup(t)
		require.Equal(t, contracts.ResultAccepted, stale.post("drafts", "old", `{}`).result())
		stale.reconfigure(rules2Hash)
		current := stale.start()
		require.Equal(t, contracts.ResultAccepted, current.post("drafts", "new", `{}`).result())

		require.Equal(t, contracts.ResultDuplicate, stale.post("drafts", "old", `{}`).result(),
			"what it knows it may tell")
		for _, key := range []string{"unseen", "new"} {
			a := stale.post("drafts", key, `{}`)
			require.Equal(t, http.StatusServiceUnavailable, a.status, key)
			require.Equal(t, contracts.CodeUnavailable, a.problem.Code, key)
			require.NotEmpty(t, a.header["Retry-After"], key)
		}
		require.Zero(t, stale.count("select count(*) from runs where idempotency_key = 'unseen'"))
		require.Contains(t, stale.logs.text(), "restart it with the current configuration")
	})

	t.Run("AStaleReplicaLeavesEventsInTheStream", func(t *testing.T) {
		stale := setup(t)
		stale.reconfigure(rules2Hash)
		require.NoError(t, stale.start().stop())
		answers := stale.publish(message{header: keyed("k"), body: `{}`})
		require.Eventually(t, func() bool {
			return strings.Contains(stale.logs.text(), "WARN an event could not be stored; it comes again")
		},
			patience, pollEvery)
		require.NoError(t, stale.stop())
		require.Zero(t, stale.count("select count(*) from parked_messages"))
		require.Equal(t, 1, stale.unsettled(demo))
		stale.start()
		require.Equal(t, contracts.ResultAccepted, next(stale.world, answers).result())
	})

	t.Run("AnOlderConfigurationDoesNotStart", func(t *testing.T) {
		w := newWorld(t)
		older := w.config
		w.reconfigure(rules2Hash)
		require.NoError(t, w.start().stop())
		w.config = older
		_, pool, err := w.make(w.db.URL)
		pool.Close()
		require.ErrorContains(t, err, "rules version 1 is configured, but version 2 is active")
	})

	// No statement that saw the older rules active may be running when the newer ones are used.
	t.Run("AStartWaitsLongerThanAnyStatement", func(t *testing.T) {
		require.Greater(t, intake.RulesWait, intake.LongestStatement)
	})
}
