package config_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const (
	demoSecret = "${HOLDPOINT_DEMO_WEBHOOK_SECRET:-whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk=}"
	demoSMTP   = "${HOLDPOINT_SANDBOX_SMTP:-127.0.0.1:7077}"
	demoURL    = "${HOLDPOINT_SANDBOX_URL:-http://127.0.0.1:7080}/hooks"
)

func TestChannelsRefused(t *testing.T) {
	t.Parallel()
	requireRefusals(t, []refusal{
		{"ARepeatedID", "people.yaml", "id: help-desk", "id: support-mail",
			`id "support-mail" is declared already at tenants/demo/people.yaml:49:9`},
		{"AnUnknownKind", "people.yaml", "kind: webhook", "kind: pager", `kind is "pager", allowed: webhook, email`},
		{"AnotherKindsSettings", "people.yaml", "kind: webhook", "kind: email",
			"webhook is for kind webhook; this channel's kind is email"},
		{"AKindWithoutItsSettings", "people.yaml", "kind: email", "kind: webhook", "webhook is missing"},
		{"ARoleThatNobodyCanHold", "people.yaml", "roles: [support-lead]", "roles: [support-leads]",
			`people.yaml:51:12: roles has "support-leads", but nobody can hold the role support-leads`},
		{"NoTime", "people.yaml", "timeout: 10s", "timeout: 0s", "timeout must be a positive duration"},
		{"ALiteralSecret", "people.yaml", demoSecret, "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk=",
			"people.yaml:65:15: secret must be ${NAME} or ${NAME:-default}, which keeps the secret out of this file"},
		{"ASecretThatIsPartlyLiteral", "people.yaml", demoSecret, "whsec_${HOLDPOINT_DEMO_WEBHOOK_SECRET}",
			"secret must be ${NAME} or ${NAME:-default}"},
		{"ASecretThatIsNotSet", "people.yaml", demoSecret, "${WEBHOOK_SECRET}",
			"1 to mend:\ntenants/demo/people.yaml:65:15: secret needs the environment variable WEBHOOK_SECRET"},
		{"ASecretOfNothing", "people.yaml", demoSecret, "${WEBHOOK_SECRET:-}", "secret must be whsec_ and the base64 of"},
		{"ASecretThatIsTooShort", "people.yaml", demoSecret, "${WEBHOOK_SECRET:-whsec_c2VjcmV0}",
			"secret must be whsec_ and the base64 of 24 to 64 random bytes"},
		{"ASecretWithoutItsPrefix", "people.yaml", "-whsec_", "-", "secret must be whsec_ and the base64 of"},
		{"TwoSecrets", "people.yaml", "      secret:", "      secret_file: /run/hook\n      secret:",
			"webhook must have exactly one of secret, secret_env, secret_file; it has 2"},
		{"NoSecret", "people.yaml", "      secret: " + demoSecret + "\n", "",
			"people.yaml:62:7: webhook must have exactly one of secret, secret_env, secret_file; it has 0"},
		{"AURLThatIsNone", "people.yaml", demoURL, "ftp://desk.example.com",
			`url is "ftp://desk.example.com/help-desk", which must be an absolute http or https URL`},
		{"AUserInTheURL", "people.yaml", demoURL, "https://u:p@desk.example.com", "url must have no user or fragment"},
		{"AHostThatIsNotTheURLs", "people.yaml", "      secret:", "      allowed_hosts: [desk.example.com]\n      secret:",
			`allowed_hosts lacks "127.0.0.1:7080", the host of url`},
		{"AServerWithoutPort", "people.yaml", demoSMTP, "127.0.0.1",
			`server is "127.0.0.1", which must be host:port`},
		{"AServerWithPortZero", "people.yaml", demoSMTP, "localhost:0", "which must be host:port"},
		{"MailInTheClearToAnotherMachine", "people.yaml", demoSMTP, "mail.example.com:25",
			"tls is none, which is for a server on this machine; for mail.example.com, allowed: starttls, tls"},
		{"MailWithoutWordOnTLS", "people.yaml", "      tls: none", "      # none",
			"tls is missing, allowed: none, starttls, tls"},
		{"MailToNobody", "people.yaml", "to: [nora@example.test, sam@example.test]", "to: []",
			"to must list at least one mail address"},
		{"MailToNoAddress", "people.yaml", "to: [nora@example.test, ", "to: [nora, ",
			`to has "nora", which must be a mail address`},
		{"MailFromNoAddress", "people.yaml", "from: holdpoint@example.test", "from: holdpoint",
			`from is "holdpoint", which must be a mail address`},
		{"AUserNameWithoutPassword", "people.yaml", "      tls: none", "      username_env: SMTP_USER\n      tls: none",
			"people.yaml:53:7: email must have both username_env and password_env, or neither"},
	})
}

func TestChannels(t *testing.T) {
	t.Parallel()

	channels := func(t *testing.T, w *world) []*config.Channel {
		t.Helper()
		loaded, err := w.load()
		require.NoError(t, err)
		return loaded.Tenants[0].Channels
	}

	t.Run("PlacesAndTheSecretComeFromTheEnvironment", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 64))
		w.env["HOLDPOINT_DEMO_WEBHOOK_SECRET"] = secret
		w.env["HOLDPOINT_SANDBOX_URL"] = "https://desk.example.com:8443"
		w.env["HOLDPOINT_SANDBOX_SMTP"] = "[::1]:25"
		all := channels(t, w)
		require.Equal(t, "[::1]:25", all[0].Email.Server)
		require.Equal(t, &config.Webhook{URL: "https://desk.example.com:8443/hooks/help-desk", Secret: secret,
			AllowedHosts: []string{"desk.example.com:8443"}}, all[1].Webhook)
	})

	t.Run("ASecretNeverStandsInAComplaint", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["HOLDPOINT_DEMO_WEBHOOK_SECRET"] = "hush"
		_, err := w.load()
		require.ErrorContains(t, err, "secret must be whsec_")
		require.NotContains(t, err.Error(), "hush")

		w.replace("people.yaml", demoSecret, "hush")
		_, err = w.load()
		require.ErrorContains(t, err, "secret must be ${NAME}")
		require.NotContains(t, err.Error(), "hush")
	})

	t.Run("ASecretMayBeNamedInstead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("people.yaml", "secret: "+demoSecret, "secret_env: DESK_SECRET")
		require.Equal(t, "DESK_SECRET", channels(t, w)[1].Webhook.SecretEnv)
		w.replace("people.yaml", "secret_env: DESK_SECRET", "secret_file: /run/secrets/desk")
		hook := channels(t, w)[1].Webhook
		require.Equal(t, "/run/secrets/desk", hook.SecretFile)
		require.Empty(t, hook.Secret)
	})

	t.Run("AWebhookMayHaveAQuery", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("people.yaml", demoURL+"/help-desk", "https://desk.example.com/h?sig=1")
		require.Equal(t, "https://desk.example.com/h?sig=1", channels(t, w)[1].Webhook.URL)
	})

	t.Run("MailLeavesTheMachineEncryptedAndMayTakeALogin", func(t *testing.T) {
		t.Parallel()
		for _, tls := range []string{config.TLSStart, config.TLSImplicit} {
			w := newWorld(t)
			w.env["HOLDPOINT_SANDBOX_SMTP"] = "mail.example.com:587"
			w.replace("people.yaml", "tls: none", "username_env: SMTP_USER\n      password_env: SMTP_PASSWORD\n      tls: "+tls)
			mail := channels(t, w)[0].Email
			require.Equal(t, tls, mail.TLS)
			require.Equal(t, []string{"SMTP_USER", "SMTP_PASSWORD"}, []string{mail.UsernameEnv, mail.PasswordEnv})
		}
	})

	t.Run("ADeliveryMayTakeLess", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("people.yaml", "timeout: 10s", "timeout: 2500ms")
		require.Equal(t, 2500*time.Millisecond, channels(t, w)[1].Timeout)
	})
}
