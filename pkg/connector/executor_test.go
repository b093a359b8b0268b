package connector

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

func declaredExecutor() *config.Connector {
	return &config.Connector{ID: "warehouse", Kind: config.ConnectorExecutor,
		Operations: []*config.Operation{{Name: "reserve"}, {Name: "release"}}}
}

func TestExecutor(t *testing.T) {
	t.Parallel()
	action, err := canonical.Parse([]byte(`{"target":{"record_id":"sku-1"},"proposed_change":{"quantity":2.50}}`))
	require.NoError(t, err)
	setup := func(t *testing.T) (*Executor, Operation) {
		t.Helper()
		e, err := NewExecutor(declaredExecutor())
		require.NoError(t, err)
		return e, Operation{Name: "reserve", Action: action, OperationID: "op1-x-1-1", IdempotencyKey: "op1-x-1-1",
			TenantID: "demo", CorrelationID: "c-1"}
	}

	t.Run("ACommandHoldsTheActionInItsCanonicalBytes", func(t *testing.T) {
		t.Parallel()
		e, op := setup(t)
		r, err := e.Prepare(t.Context(), op)
		require.NoError(t, err)
		require.Equal(t, `{"proposed_change":{"quantity":2.5},"target":{"record_id":"sku-1"}}`, string(r.Body))
		require.Equal(t, r.Sum(), r.Digest)
	})

	t.Run("TheDigestCoversOperationActionAndOperationIDAndNothingElse", func(t *testing.T) {
		t.Parallel()
		e, op := setup(t)
		digest := func(change func(*Operation)) canonical.Digest {
			op := op
			change(&op)
			r, err := e.Prepare(t.Context(), op)
			require.NoError(t, err)
			return r.Digest
		}
		same := digest(func(*Operation) {})
		require.Equal(t, same, digest(func(op *Operation) { op.CorrelationID = "c-2" }))
		require.NotEqual(t, same, digest(func(op *Operation) { op.Name = "release" }))
		require.NotEqual(t, same, digest(func(op *Operation) { op.OperationID = "op1-x-2-1" }))
		require.NotEqual(t, same, digest(func(op *Operation) { op.Action, _ = canonical.Parse([]byte(`{"target":{}}`)) }))
	})

	t.Run("WhatIsNotDeclaredOrHasNoActionIsNotPrepared", func(t *testing.T) {
		t.Parallel()
		e, op := setup(t)
		op.Name = "ship"
		_, err := e.Prepare(t.Context(), op)
		require.ErrorContains(t, err, `"ship"`)
		op.Name, op.Action = "reserve", canonical.Value{}
		_, err = e.Prepare(t.Context(), op)
		require.ErrorContains(t, err, "no action")
		_, found := e.Declared("ship")
		require.False(t, found)
		declared, found := e.Declared("release")
		require.True(t, found)
		require.Equal(t, "release", declared.Name)
	})

	t.Run("ItCannotBeRead", func(t *testing.T) {
		t.Parallel()
		e, op := setup(t)
		_, _, err := e.ReadTarget(t.Context(), op)
		require.ErrorIs(t, err, ErrNotDeclared)
		require.Equal(t, Unclear, e.Reconcile(t.Context(), op).Verdict)
	})

	t.Run("AllThatIsWrongIsToldAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := NewExecutor(&config.Connector{ID: "warehouse", BaseURL: "https://x.example", Timeout: -1,
			Operations: []*config.Operation{{Name: "reserve", Lookup: &config.Lookup{}}, {Name: "reserve"}}})
		for _, part := range []string{"not executor", "no base URL", "negative", "cannot be read from", "declared twice"} {
			require.ErrorContains(t, err, part)
		}
		_, err = NewExecutor(nil)
		require.Error(t, err)
	})
}

// TestReceipts has a line for every status of a receipt, with leave and without.
func TestReceipts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     outcome.Class
		sent       bool // with leave
		writes     bool // it is believed to have been written, also without leave
		unfinished bool
		waits      bool // it may say when to try again
	}{
		{status: outcome.Succeeded, sent: true, writes: true},
		{status: outcome.Accepted, sent: true, writes: true, unfinished: true},
		{status: outcome.Ambiguous, sent: true, writes: true, unfinished: true},
		{status: outcome.Refused, sent: true},
		{status: outcome.NotSent, waits: true},
		{status: outcome.RejectedBusy, sent: true, waits: true},
		{status: outcome.VersionConflict, sent: true},
		{status: outcome.Unauthorized, sent: true},
		{status: outcome.KeyReused, sent: true},
	} {
		t.Run(string(c.status), func(t *testing.T) {
			t.Parallel()
			require.Contains(t, Receipts, c.status)
			receipt := Receipt{Status: c.status, ExternalID: "a\nb", RecordVersion: "8", Detail: strings.Repeat("x", 1000),
				RetryAfter: time.Minute}
			got := receipt.Result(true)
			require.Equal(t, []any{c.status, c.sent, c.unfinished}, []any{got.Class, got.Sent, got.Unfinished})
			require.Equal(t, []any{"a b", "8"}, []any{got.ExternalID, got.RecordVersion})
			require.LessOrEqual(t, len(got.Detail), 310)
			require.Equal(t, c.waits, got.RetryAfter == time.Minute)
			without := receipt.Result(false)
			require.Equal(t, c.writes, without.Sent)
			require.Equal(t, c.writes, strings.Contains(without.Detail, "without having asked leave"))
		})
	}
	require.Len(t, Receipts, 9)
	require.NotContains(t, Receipts, outcome.InProgress)

	silent := Silent(time.Second)
	require.Equal(t, outcome.Ambiguous, silent.Class)
	require.True(t, silent.Sent && silent.Unfinished)
}
