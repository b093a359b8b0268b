package world

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

const payments = "sandbox-payments"

// TellOfPayments has the sandbox tell the reconciler that runs of its payments by itself, signed as the example expects it.
func (w *World) TellOfPayments() {
	w.t.Helper()
	cfg, err := w.load()
	require.NoError(w.t, err)
	to := sandbox.Destination{}
	for _, c := range cfg.Tenants[0].Connectors {
		if c.ID == payments {
			to.Secret = c.Webhook.Signature.Secrets[0].Value
		}
	}
	w.mu.Lock()
	for _, r := range w.running {
		if r.name == ledger.Reconciler {
			to.URL = fmt.Sprintf("http://%s/v1/connectors/%s/%s/webhook", r.ready.Addr, Tenant, payments)
		}
	}
	w.mu.Unlock()
	require.NotEmpty(w.t, to.URL, "no reconciler runs")
	require.NoError(w.t, w.Sandbox.SetWebhook(context.Background(), sandbox.Payments, to))
}

// TellAgain has the sandbox tell once more of the event's write, and returns what the reconciler answered.
func (w *World) TellAgain(e Event, faults ...sandbox.Fault) []int {
	w.t.Helper()
	statuses, err := w.Sandbox.TellAgain(context.Background(), e.OperationID(), faults...)
	require.NoError(w.t, err)
	return statuses
}
