package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const letters = `connectors:
  - id: letters
    kind: smtp
    server: mail.example.com:587
    tls: starttls
    from: support@example.com
    username_env: MAIL_USER
    password_file: /run/secrets/mail
    ca_file: /etc/ssl/private.pem
    operations:
      - {name: write, kind: send, to: "${proposed_change.payment_id}", subject: Hello, text: Good day}
`

func TestMailSettings(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("connectors.yaml", "connectors:\n", letters)
		return w
	}

	t.Run("TheServerIsAnAddressAndAHostThatMayBeDialled", func(t *testing.T) {
		t.Parallel()
		loaded, err := setup(t).load()
		require.NoError(t, err)
		c := loaded.Tenants[0].Connectors[0]
		require.True(t, c.Mailer())
		require.False(t, c.Lookups())
		require.True(t, loaded.Tenants[0].Connectors[1].Lookups())
		require.Equal(t, []any{"smtp://mail.example.com:587", []string{"mail.example.com:587"}, time.Minute, "/etc/ssl/private.pem"},
			[]any{c.BaseURL, c.AllowedHosts, c.Timeout, c.CAFile})
		require.Equal(t, "login:env:MAIL_USER@file:/run/secrets/mail", c.Credential(), "an intent is authorized for it")
		require.Equal(t, config.Mail{To: []string{"${proposed_change.payment_id}"}, Subject: "Hello", Text: "Good day"}, *c.Operations[0].Mail)
		require.False(t, c.Operations[0].IdempotentCreate())
	})

	t.Run("NoPaymentAndNothingIrreversibleIsTriedUnattended", func(t *testing.T) { // P6
		t.Parallel()
		w := setup(t)
		w.replace("actions.yaml", "connector: sandbox-payments\n    operation: create_refund", "connector: letters\n    operation: write")
		_, err := w.load()
		require.NoError(t, err, "people may decide about it")
		w.replace("policy.yaml", "rules:\n", "rules:\n  - {id: any, action: payment.refund, when: \"true\", route: auto, reason: Fast.}\n")
		_, err = w.load()
		require.ErrorContains(t, err, "whose operation write of letters offers neither lookup nor idempotent create")
	})

	for _, c := range []struct{ name, old, new, says string }{
		{"ClearTextToAnotherMachine", "tls: starttls", "tls: none", "tls is none, which is for a server on this machine"},
		{"NoWordOnTLS", "    tls: starttls\n", "", "tls is missing, allowed: none, starttls, tls"},
		{"AServerWithoutAPort", "mail.example.com:587", "mail.example.com", "server is"},
		{"HalfALogin", "    username_env: MAIL_USER\n", "", "a login must have both"},
		{"ASenderWithAName", "from: support@example.com", "from: Us <support@example.com>", "from is"},
		{"AnAddressOfTheWeb", "kind: smtp\n", "kind: smtp\n    base_url: https://x.example\n", "base_url is not for kind smtp"},
		{"AHostElsewhere", "kind: smtp\n", "kind: smtp\n    allowed_hosts: [other.example.com]\n", "allowed_hosts lacks"},
		{"AnUpdate", "kind: send, to", "kind: update, to", `kind is "update", and mail can only be sent, allowed: send`},
		{"ALookup", "text: Good day", "text: Good day, lookup: {path: /a, external_id: /id}", "lookup is not for kind smtp"},
		{"ReplayOfAKey", "text: Good day", "text: Good day, replays: true, key_window: 24h", "replays is not for kind smtp"}, // D13
		{"NobodyToWriteTo", `to: "${proposed_change.payment_id}", `, "", "to is missing"},
		{"AnEmptyList", `to: "${proposed_change.payment_id}"`, "to: []", "to must list at least one template"},
		{"NoText", ", text: Good day", "", "text is missing"},
		{"AnUnknownRoot", "${proposed_change.payment_id}", "${secrets.all}", "names nothing of an intent"},
	} {
		t.Run(c.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.replace("connectors.yaml", c.old, c.new)
			_, err := w.load()
			require.ErrorContains(t, err, c.says)
		})
	}

	t.Run("WhatIsOfMailIsRefusedElsewhere", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "timeout: 10s", "timeout: 10s\n    from: support@example.com")
		_, err := w.load()
		require.ErrorContains(t, err, "from is for kind smtp; this connector's kind is http")
	})
}
