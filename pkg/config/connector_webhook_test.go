package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// TestConnectorWebhooks is the configuration of R4: what a provider tells by itself.
func TestConnectorWebhooks(t *testing.T) {
	t.Parallel()

	t.Run("OfTheExample", func(t *testing.T) {
		t.Parallel()
		loaded, err := newWorld(t).load()
		require.NoError(t, err)
		require.Nil(t, loaded.Tenants[0].Connectors[0].Webhook)
		require.Equal(t, &config.ProviderWebhook{
			Signature: signature.Config{Format: signature.Format{Scheme: signature.StandardWebhooks, Tolerance: 5 * time.Minute},
				Secrets: []signature.Secret{{Value: "whsec_demoSandboxPaymentsKnownToAll000"}}},
			Operation: "/data/reference", ExternalID: "/data/id", Status: "/data/status",
			Succeeded: []string{"succeeded"}, Failed: []string{"failed", "canceled"},
		}, loaded.Tenants[0].Connectors[1].Webhook)
	})

	const (
		file    = "connectors.yaml"
		scheme  = "scheme: standard_webhooks # which signs the event's id too; the other schemes need event_id"
		status  = "      status: /data/status\n"
		success = "      succeeded: [succeeded]\n"
		failed  = "failed: [failed, canceled]"
		ids     = "      operation: /data/reference # the operation id, which the provider tells back\n      external_id: /data/id\n"
		secrets = "          - {value: whsec_demoSandboxPaymentsKnownToAll000}\n"
	)
	requireRefusals(t, []refusal{
		{"NoSignature", file, "    webhook:\n      signature:", "    webhook:\n      signed:",
			"signature is missing; what is not signed could come from anybody"},
		{"NoSecret", file, secrets, "", "secrets must list at least one of {env: NAME} or {file: PATH}"},
		{"AnUnknownScheme", file, scheme, "scheme: gitlab", `scheme is "gitlab", allowed: standard_webhooks, stripe, github, hmac`},
		{"NoIDThatIsSigned", file, scheme, "scheme: stripe",
			"event_id is missing; only the scheme standard_webhooks signs an id of its own"},
		{"NothingThatItIsAbout", file, ids, "", "webhook must have operation or external_id, or both: what an event is about"},
		{"NoStatus", file, status, "", "status is missing; it must be a JSON pointer"},
		{"AStatusThatIsNoPointer", file, status, "      status: data.status\n", `status is "data.status", which is no JSON pointer`},
		{"NothingThatSucceeds", file, success, "", "succeeded is missing; it must list the values of status that mean that the write took place"},
		{"OneValueOfTwoMeanings", file, failed, "failed: [succeeded]", `failed has "succeeded", which succeeded has too`},
		{"AnUnknownSetting", file, failed, "failure: [failed]", "failure is not a known setting here, allowed: event_id, operation"},
		{"OfAnExecutor", file, "    kind: executor\n", "    kind: executor\n    webhook: {status: /a}\n",
			"webhook is for kind http; this connector's kind is executor"},
	})
}
