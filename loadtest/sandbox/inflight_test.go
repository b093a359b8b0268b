package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The key is held by hand here, because over HTTP alone nobody can tell when a slow request has taken it.
func TestKeyInFlight(t *testing.T) {
	t.Parallel()
	const body = `{"amount":"1","currency":"EUR","payment_id":"p"}`

	setup := func(t *testing.T) (*Server, func() *httptest.ResponseRecorder) {
		t.Helper()
		s, err := New(Config{DataDir: t.TempDir()})
		require.NoError(t, err)
		t.Cleanup(func() {
			stopped, cancel := context.WithCancel(context.Background())
			cancel()
			require.NoError(t, s.Run(stopped))
		})
		return s, func() *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/payments/refunds", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", "k")
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			return w
		}
	}
	sum := sha256.Sum256([]byte(body))
	same := asked{Create, "", hex.EncodeToString(sum[:])}

	t.Run("SameRequestIsToldInProgressUntilTheFirstEnds", func(t *testing.T) {
		t.Parallel()
		s, send := setup(t)
		held, refused := s.ledger.claim(keyID{Payments, "k"}, same, time.Now(), time.Hour)
		require.Nil(t, held)
		require.Nil(t, refused)
		got := send()
		require.Equal(t, http.StatusConflict, got.Code)
		require.Contains(t, got.Body.String(), `"idempotency_key_in_progress"`)
		s.ledger.release(keyID{Payments, "k"})
		require.Equal(t, http.StatusCreated, send().Code)
	})

	t.Run("KeyStaysInProgressPastItsWindow", func(t *testing.T) {
		t.Parallel()
		s, send := setup(t)
		s.ledger.claim(keyID{Payments, "k"}, same, time.Now().Add(-100*time.Hour), time.Hour)
		require.Equal(t, http.StatusConflict, send().Code)
	})

	t.Run("OtherRequestIsToldReusedAtOnce", func(t *testing.T) {
		t.Parallel()
		s, send := setup(t)
		s.ledger.claim(keyID{Payments, "k"}, asked{Create, "", "another body"}, time.Now(), time.Hour)
		got := send()
		require.Equal(t, http.StatusUnprocessableEntity, got.Code)
		require.Contains(t, got.Body.String(), `"idempotency_key_reused"`)
	})
}
