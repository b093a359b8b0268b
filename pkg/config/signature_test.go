package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// What the cases change of the example's signed sources.
const (
	demoGitHub     = "{value: demo_github_secret_known_to_all}"
	githubKey      = `"github:" + body.repository.full_name`
	stripeSecret   = "whsec_demo_stripe_secret_known_to_all"
	n8nKey         = "key: {pointers: [/change_id]}"
	githubScheme   = "scheme: github"
	standardSecret = "whsec_demoSecretKnownToTheWholeWorld00"
)

func TestSignaturesRefused(t *testing.T) {
	t.Parallel()
	requireRefusals(t, []refusal{
		{"AnUnknownScheme", "sources.yaml", githubScheme, "scheme: gitlab",
			`sources.yaml:94:15: scheme is "gitlab", allowed: standard_webhooks, stripe, github, hmac`},
		{"NoScheme", "sources.yaml", "      " + githubScheme + "\n", "",
			"scheme is missing, allowed: standard_webhooks, stripe, github, hmac"},
		{"AnUnknownSetting", "sources.yaml", githubScheme, githubScheme + "\n      secret: x",
			"secret is not a known setting here, allowed: scheme, secrets, header"},
		{"NoSecrets", "sources.yaml", "      secrets:\n        - " + demoGitHub + "\n", "",
			"secrets must list at least one of {env: NAME} or {file: PATH}"},
		{"AnEmptyListOfSecrets", "sources.yaml", "secrets:\n        - " + demoGitHub, "secrets: []",
			"secrets must list at least one of {env: NAME} or {file: PATH}"},
		{"ASecretThatIsNoPlace", "sources.yaml", demoGitHub, "hush", "secrets[0] must be {env: NAME} or {file: PATH}"},
		{"ASecretOfTwoPlaces", "sources.yaml", demoGitHub, "{env: NAME, file: /run/secret}",
			"a secret must have exactly one of env, file; it has 2"},
		{"ASecretOfNoPlace", "sources.yaml", demoGitHub, "{}", "a secret must have exactly one of env, file; it has 0"},
		{"ASecretOfAnUnknownKind", "sources.yaml", demoGitHub, "{vault: a/b}",
			"vault is not a known setting here, allowed: env, file, value"},
		{"AnEmptySecret", "sources.yaml", demoGitHub, `{value: " "}`, "value must be a text in quotes"},
		{"AVariableThatCannotBe", "sources.yaml", demoGitHub, "{env: A-B}",
			"env must be the name of an environment variable"},
		{"ALiteralSecret", "sources.yaml", demoGitHub, "{value: f00f00f00f00f00f00f0}",
			"value is for demonstrations, and must begin with demo_ or whsec_demo; keep a secret out of this file with env " +
				"or file"},
		{"ALiteralSecretOfStripe", "sources.yaml", stripeSecret, "whsec_f00f00f00f00f00f00f0",
			"value is for demonstrations"},
		{"ASecretThatIsTooShort", "sources.yaml", demoGitHub, "{value: demo_short}",
			"value is too short; it must have at least 16 bytes"},
		{"ASecretThatTheSchemeCannotUse", "sources.yaml", githubScheme, "scheme: standard_webhooks",
			"value must be whsec_ and the base64 of 24 to 64 random bytes"},
		{"ToleranceWithoutATimestamp", "sources.yaml", githubScheme, githubScheme + "\n      tolerance: 5m",
			"tolerance is for signatures with a timestamp; this one has none"},
		{"NoTolerance", "sources.yaml", "tolerance: 5m", "tolerance: 0s", "tolerance must be a positive duration"},
		{"WhatIsForAnotherScheme", "sources.yaml", githubScheme, githubScheme + "\n      header: X-Sum",
			"header is for scheme hmac; the other schemes have their own"},
		{"NoHeader", "sources.yaml", "      header: X-Signature\n", "", "header is missing; it must be a text"},
		{"AHeaderThatCannotBe", "sources.yaml", "header: X-Signature", `header: "X Signature"`,
			`header is "X Signature", allowed: letters, digits and -`},
		{"AnUnknownEncoding", "sources.yaml", "encoding: hex", "encoding: base32",
			`encoding is "base32", allowed: hex, base64, base64url`},
		{"AnUnknownAlgorithm", "sources.yaml", "encoding: hex", "encoding: hex\n      algorithm: sha1",
			`algorithm is "sha1", allowed: sha256, sha512`},
		{"ATextWithoutTheBody", "sources.yaml", `"{timestamp}.{body}"`, `"{timestamp}"`, "which must have {body} in it once"},
		{"ATimestampThatIsNotSigned", "sources.yaml", `"{timestamp}.{body}"`, `"{body}"`,
			"payload is \"{body}\", which must have {timestamp} in it"},

		// A key that the signature does not cover would let one delivery run under many keys.
		{"AKeyInAHeader", "sources.yaml", n8nKey, "key: {header: Idempotency-Key}",
			"the key of version 1 reads the header Idempotency-Key, which the signature does not cover: a delivery " +
				"that was seen could be sent again under another key. Take the key from the body, by pointers or cel"},
		{"AKeyOfCloudEvents", "sources.yaml", n8nKey, "key: {cloud_event: true}",
			"the key of version 1 reads headers in CloudEvents' binary mode, which the signature does not cover"},
		{"AnExpressionOverHeaders", "sources.yaml", githubKey, `headers["x-github-delivery"]`,
			"the key of version 1 reads headers, which the signature does not cover"},
	})
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	source := func(t *testing.T, w *world, id string) *config.Source {
		t.Helper()
		loaded, err := w.load()
		require.NoError(t, err)
		for _, s := range loaded.Tenants[0].Sources {
			if s.ID == id {
				return s
			}
		}
		require.Fail(t, "no source "+id)
		return nil
	}

	t.Run("OfTheExample", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.Nil(t, source(t, w, "crm-enrichment").Signature)
		require.Equal(t, &signature.Config{
			Format: signature.Format{Scheme: signature.HMAC, Tolerance: 5 * time.Minute, Header: "X-Signature",
				Encoding: signature.Hex, Prefix: "sha256=", TimestampHeader: "X-Timestamp", Payload: "{timestamp}.{body}"},
			Secrets: []signature.Secret{{Value: "demo_n8n_secret_known_to_all"}},
		}, source(t, w, "n8n").Signature)
		for _, id := range []string{"n8n", "stripe-events", "github"} {
			_, err := signature.New(*source(t, w, id).Signature)
			require.NoError(t, err, id)
		}
	})

	t.Run("SecretsAreNamedAndReadByWhoeverVerifies", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("sources.yaml", demoGitHub, "{env: NEW_SECRET}\n        - {file: /run/secrets/old}")
		require.Equal(t, []signature.Secret{{Env: "NEW_SECRET"}, {File: "/run/secrets/old"}},
			source(t, w, "github").Signature.Secrets)
	})

	t.Run("TheIdThatIsSignedMayBeTheKey", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("sources.yaml", "scheme: stripe", "scheme: standard_webhooks")
		w.replace("sources.yaml", stripeSecret, standardSecret)
		w.replace("sources.yaml", "key: {pointers: [/id]}", "key: {header: webhook-id}")
		require.Equal(t, "webhook-id", source(t, w, "stripe-events").ActiveRules().Key.Header)
		w.replace("sources.yaml", "key: {header: webhook-id}", "key: {header: X-Id}")
		_, err := w.load()
		require.ErrorContains(t, err, "Take the key from the header Webhook-Id, or the body, by pointers or cel")
	})

	t.Run("OnlyTheActiveRulesHaveToBeSigned", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("sources.yaml", "      - version: 1\n        key: {pointers: [/id]}",
			"      - version: 1\n        key: {header: X-Id}\n      - version: 2\n        key: {pointers: [/id]}")
		require.Len(t, source(t, w, "stripe-events").Rules, 2)
	})

	// Whatever is written where a place belongs may be the secret itself.
	t.Run("ASecretInTheWrongPlaceIsNotRepeated", func(t *testing.T) {
		t.Parallel()
		const hush = "1234567890987654321"
		for _, wrong := range []string{hush, "{value: " + hush + "}", `{value: "` + hush + `"}`, `{env: "` + hush + `"}`,
			"{env: " + hush + "}", "[" + hush + "]", "{file: " + hush + "}"} {
			w := newWorld(t)
			w.replace("sources.yaml", demoGitHub, wrong)
			_, err := w.load()
			require.Error(t, err, wrong)
			require.NotContains(t, err.Error(), hush, wrong)
		}
		w := newWorld(t)
		w.replace("sources.yaml", "secrets:\n        - "+demoGitHub, "secrets: "+hush)
		_, err := w.load()
		require.ErrorContains(t, err, "secrets must list at least one of")
		require.False(t, strings.Contains(err.Error(), hush))
	})
}
