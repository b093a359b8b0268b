package sandbox_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	t.Run("SameKeyAndBodyReplaysTheFirstResult", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first, again := w.refund("Idempotency-Key", "k"), w.refund("Idempotency-Key", "k")
		require.Empty(t, first.header.Get("Idempotent-Replayed"))
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.Equal(t, first.status, again.status)
		require.Equal(t, first.body, again.body)
		w.written(1)
	})

	t.Run("UpdateReplaysAfterTheVersionHasMovedOn", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first := w.patch("c-1", "1", "op-1", "Idempotency-Key", "k")
		w.patch("c-1", "2", "op-2")
		again := w.patch("c-1", "1", "op-1", "Idempotency-Key", "k")
		require.Equal(t, first.body, again.body)
		w.written(2)
	})

	t.Run("SameKeyWithAnotherRequestIsRefused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.patch("c-1", "1", "op-1", "Idempotency-Key", "k")
		for name, got := range map[string]reply{
			"another body":      w.patch("c-1", "2", "op-2", "Idempotency-Key", "k"),
			"another contact":   w.patch("c-2", "1", "op-1", "Idempotency-Key", "k"),
			"another operation": w.must(http.MethodPost, "/crm/contacts", `{}`, "Idempotency-Key", "k"),
		} {
			require.Equal(t, http.StatusUnprocessableEntity, got.status, name)
			require.Equal(t, "idempotency_key_reused", got.code(), name)
		}
		require.Equal(t, http.StatusCreated, w.refund("Idempotency-Key", "k").status, "keys belong to one system")
		w.written(2)
	})

	t.Run("HundredConcurrentRequestsWithOneKeyWriteOnce", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var fresh, other atomic.Int32
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				got, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody, "Idempotency-Key", "k")
				switch {
				case err != nil:
				case got.status == http.StatusCreated && got.header.Get("Idempotent-Replayed") == "":
					fresh.Add(1)
				case got.status == http.StatusCreated || got.code() == "idempotency_key_in_progress":
					other.Add(1)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, fresh.Load())
		require.EqualValues(t, 99, other.Load())
		w.written(1)
	})

	t.Run("KeyIsForgottenAtTheEndOfItsWindow", func(t *testing.T) {
		t.Parallel()
		c := &clock{now: start}
		w := newWorld(t, c.use, func(cfg *sandbox.Config) { cfg.Payments.KeyWindow = sandbox.Duration(time.Hour) })
		w.refund("Idempotency-Key", "k")
		c.now = start.Add(time.Hour - time.Nanosecond)
		require.Equal(t, "true", w.refund("Idempotency-Key", "k").header.Get("Idempotent-Replayed"))
		c.now = start.Add(time.Hour)
		require.Empty(t, w.refund("Idempotency-Key", "k").header.Get("Idempotent-Replayed"))
		w.written(2)
	})

	t.Run("ProviderWithoutKeysWritesAgain", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(cfg *sandbox.Config) { cfg.Payments.IgnoreKeys = true })
		w.refund("Idempotency-Key", "k")
		w.refund("Idempotency-Key", "k")
		require.Equal(t, "k", w.written(2)[1].IdempotencyKey)
		summary, err := w.Summary(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, summary.DuplicateWrites)
	})

	t.Run("IgnoreFaultWritesAgainForOneRequest", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(sandbox.Rule{
			Match: sandbox.Match{Nth: 2}, Fault: sandbox.Fault{Kind: sandbox.IgnoreIdempotencyKey},
		})
		send := func() reply { return w.refund("Idempotency-Key", "k") }
		first, second, third := send(), send(), send()
		require.NotEqual(t, first.body["id"], second.body["id"])
		require.Equal(t, first.body["id"], third.body["id"])
		w.written(2)
	})
}
