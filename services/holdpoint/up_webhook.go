package main

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// tellOfPayments has the sandbox tell of its payments by itself, where the configuration is the example's: its secret stands in the
// file, and is known to all.
func tellOfPayments(ctx context.Context, cfg *config.Config, sandboxURL, reconciler string) error {
	const connector = "sandbox-payments"
	for _, t := range cfg.Tenants {
		for _, c := range t.Connectors {
			if c.ID != connector || c.Webhook == nil || c.Webhook.Signature.Secrets[0].Value == "" {
				continue
			}
			to := sandbox.Destination{URL: fmt.Sprintf("http://%s/v1/connectors/%s/%s/webhook", reconciler, t.ID, c.ID),
				Secret: c.Webhook.Signature.Secrets[0].Value}
			return sandbox.NewClient(sandboxURL).SetWebhook(ctx, sandbox.Payments, to)
		}
	}
	return nil
}
