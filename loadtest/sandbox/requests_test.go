package sandbox_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// TestRequests: what came is told in its order, also what was refused and what only repeated.
func TestRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Fault(t.Context(), sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Create, Nth: 1},
		Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusInternalServerError}})
	require.NoError(t, err)
	const body = `{"amount":"1.00","currency":"EUR","payment_id":"p-1","reference":"op-1"}`
	for range 3 {
		w.must(http.MethodPost, "/payments/refunds", body, "Idempotency-Key", "k-1")
		w.must(http.MethodGet, "/payments/refunds?reference=op-1", "")
	}
	w.patch("c-1", "1", "op-2")

	came, err := w.Requests(t.Context(), sandbox.Filter{Reference: "op-1"})
	require.NoError(t, err)
	var order []string
	digests := map[string]bool{}
	for i, r := range came {
		require.EqualValues(t, i+1, r.Seq)
		order = append(order, r.Operation)
		if r.Writes() {
			digests[r.BodySHA256] = true
			require.Equal(t, "k-1", r.IdempotencyKey)
		}
	}
	require.Equal(t, []string{"create", "lookup", "create", "lookup", "create", "lookup"}, order)
	require.Len(t, digests, 1)
	writes := w.written(2)
	require.Equal(t, came[2].RequestID, writes[0].RequestID, "the first was refused, and the third is answered as the second was")
	crm, err := w.Requests(t.Context(), sandbox.Filter{System: sandbox.CRM})
	require.NoError(t, err)
	require.Len(t, crm, 1)
	require.Equal(t, "op-2", crm[0].Reference)
}
