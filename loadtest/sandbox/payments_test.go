package sandbox_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

func TestPayments(t *testing.T) {
	t.Parallel()

	t.Run("AcceptedRefundIsRecordedAndCanBeReadAndFound", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := w.refund("Idempotency-Key", "k-1")
		require.Equal(t, http.StatusCreated, got.status)
		require.Equal(t, "12.50", got.body["amount"])

		write := w.written(1)[0]
		sum := sha256.Sum256([]byte(refundBody))
		require.Equal(t, uint64(1), write.Seq)
		require.Equal(t, []string{"payments", "create", "op-1", "k-1"},
			[]string{write.System, write.Operation, write.Reference, write.IdempotencyKey})
		require.Equal(t, got.body["id"], write.ObjectID)
		require.Equal(t, hex.EncodeToString(sum[:]), write.BodySHA256)
		require.Equal(t, got.header.Get("X-Request-Id"), write.RequestID)
		require.False(t, write.Time.IsZero())

		require.Equal(t, got.body, w.must(http.MethodGet, "/payments/refunds/"+write.ObjectID, "").body)
		require.Equal(t, []any{got.body}, w.must(http.MethodGet, "/payments/refunds?reference=op-1", "").items())
		require.Empty(t, w.must(http.MethodGet, "/payments/refunds?reference=op-2", "").items())
		require.Equal(t, http.StatusNotFound, w.must(http.MethodGet, "/payments/refunds/re_9", "").status)
	})

	t.Run("ReferenceMayComeInTheHeader", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		const body = `{"amount":3,"currency":"EUR","payment_id":"p"}`
		w.must(http.MethodPost, "/payments/refunds", body, "X-Operation-Id", "op-9")
		require.Equal(t, "op-9", w.written(1)[0].Reference)
	})

	t.Run("AmountKeepsItsExactDigits", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, amount := range []string{`"0.10"`, `0.10`, `9007199254740.9931`} {
			body := `{"amount":` + amount + `,"currency":"EUR","payment_id":"p"}`
			require.Equal(t, http.StatusCreated, w.must(http.MethodPost, "/payments/refunds", body).status)
		}
		var kept []string
		for _, write := range w.written(3) {
			kept = append(kept, write.Refund.Amount)
		}
		require.Equal(t, []string{"0.10", "0.10", "9007199254740.9931"}, kept)
	})

	t.Run("WhatIsNotAPlainPositiveAmountIsRefused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, amount := range []string{
			`null`, `0`, `"0.00"`, `-1`, `"1e2"`, `1e2`, `"1,5"`, `"007"`, `""`, `{}`, `"1.00001"`,
		} {
			body := `{"amount":` + amount + `,"currency":"EUR","payment_id":"p"}`
			got := w.must(http.MethodPost, "/payments/refunds", body)
			require.Equal(t, http.StatusUnprocessableEntity, got.status, amount)
			require.Equal(t, "invalid_amount", got.code(), amount)
		}
		w.written(0)
	})

	t.Run("BadRequestsAreToldApart", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(cfg *sandbox.Config) { cfg.MaxBody = 100 })
		long := `{"amount":"1","currency":"EUR","payment_id":"` + string(make([]byte, 100)) + `"}`
		for body, want := range map[string]struct {
			status int
			code   string
		}{
			`not json`: {400, "bad_request"},
			`{"amount":"1","currency":"eur","payment_id":"p"}`: {422, "invalid_currency"},
			`{"amount":"1","currency":"EUR"}`:                  {422, "invalid_payment"},
			long:                                               {413, "too_large"},
		} {
			got := w.must(http.MethodPost, "/payments/refunds", body)
			require.Equal(t, want.status, got.status, body)
			require.Equal(t, want.code, got.code(), body)
		}
		require.Equal(t, http.StatusBadRequest, w.must(http.MethodGet, "/payments/refunds", "").status)
		require.Equal(t, http.StatusNotFound, w.must(http.MethodGet, "/nowhere", "").status)
		w.written(0)
	})
}
