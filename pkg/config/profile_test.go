package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// declare adds a connector to the example's; the lines are those after its id, and each may hold several.
func (w *world) declare(id string, lines ...string) {
	w.t.Helper()
	entry := "\n  - id: " + id + "\n"
	for line := range strings.SplitSeq(strings.Join(lines, "\n"), "\n") {
		entry += "    " + line + "\n"
	}
	w.fs[demo+"connectors.yaml"].Data = append(w.fs[demo+"connectors.yaml"].Data, entry...)
}

func (w *world) connector(id string) *config.Connector {
	w.t.Helper()
	loaded, err := w.load()
	require.NoError(w.t, err)
	for _, c := range loaded.Tenants[0].Connectors {
		if c.ID == id {
			return c
		}
	}
	require.FailNow(w.t, "there is no such connector", id)
	return nil
}

func operationNames(c *config.Connector) []string {
	var names []string
	for _, op := range c.Operations {
		names = append(names, op.Name)
	}
	return names
}

const shippedURL = "base_url: https://provider.example.com/api"

func TestProfilesThatAreShipped(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"crm", "hubspot_like", "n8n_webhook", "payments", "slack_like", "webhook"}, config.Profiles())
	_, found := config.ProfileText("../profile")
	require.False(t, found)

	for _, name := range config.Profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, found := config.ProfileText(name)
			require.True(t, found)
			require.True(t, strings.HasPrefix(text, "# "+name+": "), "it says what it is for")
			require.Contains(t, text, "\n# Yours to declare: base_url", "and what it leaves open")
			require.NotRegexp(t, `(?m)^(id|kind|profile|base_url|allowed_hosts|bearer_env|bearer_file|basic|api_key|oauth2|hmac):`, text)

			w := newWorld(t)
			w.declare("shipped", "profile: "+name, shippedURL)
			c := w.connector("shipped")
			require.Equal(t, name, c.Profile)
			require.Nil(t, c.Webhook, "what is not signed is not believed")
			require.Empty(t, c.Credential())
			require.NotEmpty(t, c.Operations)
			for _, op := range c.Operations {
				require.True(t, op.Lookup == nil || op.Lookup.IndexLag < time.Hour)
				require.True(t, op.IdempotentCreate() || !op.Replays)
			}
		})
	}
}

func TestConnectorProfiles(t *testing.T) {
	t.Parallel()

	t.Run("WhatTheTenantDeclaresWins", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.declare("shipped", "profile: payments", shippedURL, "timeout: 5s", "rate: {per_second: 1}", "breaker: {failures: 2}")
		c := w.connector("shipped")
		require.Equal(t, 5*time.Second, c.Timeout)
		require.Equal(t, &config.RateLimit{PerSecond: 1, Burst: 1}, c.Rate, "as a whole: the profile's burst is gone")
		require.Equal(t, config.Breaker{Failures: 2, OpenFor: 30 * time.Second}, c.Breaker)
		require.Equal(t, 2*time.Second, c.Backoff.Base, "and the rest is the profile's")
	})

	t.Run("AnOperationReplacesItsNamesakeAsAWhole", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.declare("shipped", "profile: crm", shippedURL, "operations:",
			"  - {name: update_contact, kind: update, method: PUT, path: /people}", "  - {name: merge, kind: update, method: POST, path: /merges}")
		c := w.connector("shipped")
		require.Equal(t, []string{"update_contact", "merge", "create_contact"}, operationNames(c))
		c.Operations[0].Standing = nil // which is about what counts of it
		require.Equal(t, &config.Operation{Name: "update_contact", Kind: config.OperationUpdate, Method: "PUT", Path: "/people"}, c.Operations[0])
		require.NotNil(t, c.Operations[2].Lookup)
	})

	t.Run("NothingAfterTheColonIsLeftOut", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.declare("shipped", "profile: crm", shippedURL, "timeout:", "operations:")
		c := w.connector("shipped")
		require.Equal(t, 15*time.Second, c.Timeout)
		require.Equal(t, []string{"create_contact", "update_contact"}, operationNames(c))
	})

	t.Run("TheExample'sCommentLoads", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, commented, found := strings.Cut(string(w.fs[demo+"connectors.yaml"].Data), "#   - id: team-chat\n#     ")
		require.True(t, found)
		commented, _, _ = strings.Cut(commented, "\n# The connectors below")
		w.declare("team-chat", strings.ReplaceAll(commented, "\n#     ", "\n"))
		c := w.connector("team-chat")
		require.Equal(t, []any{"slack_like", "env:SLACK_TOKEN", 2.0}, []any{c.Profile, c.Credential(), c.Rate.PerSecond})
	})

	t.Run("SecretsBringTheWebhook", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.declare("shipped", "profile: payments", shippedURL, "webhook_secrets: [{env: HOOKS}, {file: /run/secrets/hooks}]")
		require.Equal(t, &config.ProviderWebhook{
			Signature: signature.Config{Format: signature.Format{Scheme: signature.StandardWebhooks, Tolerance: 5 * time.Minute},
				Secrets: []signature.Secret{{Env: "HOOKS"}, {File: "/run/secrets/hooks"}}},
			Operation: "/data/reference", ExternalID: "/data/id", Status: "/data/status",
			Succeeded: []string{"succeeded"}, Failed: []string{"failed", "canceled"},
		}, w.connector("shipped").Webhook)
	})

	t.Run("AWebhookOfTheTenant'sReplacesTheProfile's", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.declare("shipped", "profile: payments", shippedURL,
			"webhook: {signature: {scheme: standard_webhooks, secrets: [{env: HOOKS}]}, operation: /ref, status: /state, succeeded: [paid]}")
		hook := w.connector("shipped").Webhook
		require.Equal(t, []any{"/ref", "", "/state", []string{"paid"}}, []any{hook.Operation, hook.ExternalID, hook.Status, hook.Succeeded})
	})
}

// TestMistakesBesideAProfile holds that they are told of in the tenant's file, where the profile is named or what is wrong is written.
func TestMistakesBesideAProfile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		lines []string
		line  int    // from that of the id
		says  string // after the line
	}{
		{"AnUnknownProfile", []string{"profile: stripe", shippedURL}, 1,
			`14: profile is "stripe", allowed: crm, hubspot_like, n8n_webhook, payments, slack_like, webhook`},
		{"NoAddress", []string{"profile: crm"}, 0, "5: base_url is missing"},
		{"AnExecutor", []string{"profile: crm", "kind: executor", "operations: [{name: a, kind: send}]"}, 1,
			"14: profile is for kind http; this connector's kind is executor"},
		{"SecretsWithoutAProfile", []string{"webhook_secrets: [{env: A}]", shippedURL,
			"operations: [{name: a, kind: send, method: POST, path: /a}]"}, 1,
			"22: webhook_secrets is for a connector with a profile"},
		{"SecretsOfAProfileWithoutWebhook", []string{"profile: crm", shippedURL, "webhook_secrets: [{env: A}]"}, 3,
			"22: webhook_secrets is for a profile with a webhook, and crm has none"},
		{"SecretsBesideAWebhook", []string{"profile: payments", shippedURL, "webhook_secrets: [{env: A}]",
			"webhook: {signature: {scheme: standard_webhooks, secrets: [{env: A}]}, operation: /a, status: /b, succeeded: [c]}"}, 3,
			"22: webhook_secrets is for the profile's webhook; the one that is declared here has signature.secrets"},
		{"NoSecret", []string{"profile: payments", shippedURL, "webhook_secrets: []"}, 3, "22: secrets must list at least one of"},
		{"ASecretInPlainText", []string{"profile: payments", shippedURL, "webhook_secrets: [{value: hunter2}]"}, 3,
			"31: value is for demonstrations, and must begin with demo_"},
		{"AnOperationThatIsWrong", []string{"profile: crm", shippedURL, "operations:", "  - {name: merge, kind: update, method: POST}"}, 4,
			"9: path is missing"},
		{"TwoOperationsOfOneName", []string{"profile: crm", shippedURL, "operations:",
			"  - {name: update_contact, kind: update, method: PUT, path: /a}",
			"  - {name: update_contact, kind: update, method: PUT, path: /a}"}, 5, `16: name "update_contact" is declared already at`},
		{"NoOperationInAList", []string{"profile: crm", shippedURL, "operations: []"}, 3,
			"17: operations is missing; it must list at least one"},
		{"OperationsThatAreNoList", []string{"profile: crm", shippedURL, "operations: {a: b}"}, 3,
			"17: operations must be a list, found a mapping"},
		{"AnUnknownSetting", []string{"profile: crm", shippedURL, "timeouts: 1s"}, 3, "5: timeouts is not a known setting here, allowed: profile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := strings.Count(string(w.fs[demo+"connectors.yaml"].Data), "\n") + 2
			w.declare("shipped", tc.lines...)
			_, err := w.load()
			require.ErrorContains(t, err, fmt.Sprintf("tenants/demo/connectors.yaml:%d:%s", id+tc.line, tc.says))
		})
	}
}
