package config_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// TestWebhooksOfProfiles holds the mappings against what the sandbox tells of its writes by itself.
func TestWebhooksOfProfiles(t *testing.T) {
	t.Parallel()
	const secret = "whsec_demoSandboxPaymentsKnownToAll000"
	const refund = `{"target":{"system":"payments","record_id":"pay_1"},"proposed_change":{"payment_id":"pay_1","amount":1,"currency":"EUR"}}`
	secrets := []string{"webhook_secrets: [{value: " + secret + "}]"}
	for _, tc := range []struct {
		name      string
		shipped   shipped
		operation string
		action    string
		class     outcome.Class
	}{
		{"ARefund", shipped{profile: "payments", path: "/payments", system: sandbox.Payments, lines: secrets},
			"create_refund", refund, outcome.Succeeded},
		{"AWorkflowThatWasOnlyStarted", shipped{profile: "n8n_webhook", path: "/n8n/webhook", system: sandbox.N8N, lines: secrets},
			"run_workflow", order, outcome.Accepted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			type told struct {
				header http.Header
				body   []byte
			}
			events := make(chan told, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // half a body has no genuine signature
				events <- told{r.Header, body}
			}))
			t.Cleanup(server.Close)
			p := tc.shipped.provider(t)
			require.NoError(t, p.sandbox.SetWebhook(t.Context(), tc.shipped.system, sandbox.Destination{URL: server.URL, Secret: secret}))
			require.Equal(t, tc.class, p.send(p.operation(tc.operation, step{action: tc.action})).Class)

			event := <-events
			hook := p.declared.Webhook
			verifier, err := signature.New(hook.Signature)
			require.NoError(t, err)
			_, refusal := verifier.Verify(event.header, event.body, time.Now())
			require.Nil(t, refusal)
			body, err := canonical.Parse(event.body)
			require.NoError(t, err)
			at := func(pointer string) string {
				value, found := body.Pointer(pointer)
				require.True(t, found, pointer)
				return value.Text()
			}
			require.Equal(t, "op-1", at(hook.Operation))
			require.Equal(t, p.written(tc.shipped.system)[0].ObjectID, at(hook.ExternalID))
			require.Contains(t, hook.Succeeded, at(hook.Status))
		})
	}
}
