package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	const after = "concurrency: 256"
	oauth := func(more string) string {
		return "oauth2: {token_url: 'https://login.example.com/token', client_id: c, " + more + "}\n    "
	}

	for _, c := range []struct{ name, setting, credential string }{
		{"None", "", ""},
		{"BearerKeepsItsName", "bearer_env: A\n    ", "env:A"},
		{"Basic", "basic: {username: '${WHO:-nora}', password_file: /p}\n    ", "basic:nora@file:/p"},
		{"Key", "api_key: {header: X-Key, value_env: K}\n    ", "api_key:X-Key@env:K"},
		{"Client", oauth("client_secret_env: S"), "oauth2:c@https://login.example.com/token@env:S"},
		{"Refresh", oauth("grant: refresh_token, refresh_token_file: /r"), "oauth2:c@https://login.example.com/token@file:/r"},
		{"Signing", "hmac: {secret_env: W}\n    ", "hmac:env:W"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.replace("connectors.yaml", after, c.setting+after)
			loaded, err := w.load()
			require.NoError(t, err)
			require.Equal(t, c.credential, loaded.Tenants[0].Connectors[0].Credential())
		})
	}

	t.Run("TheTokenServerIsTheOneHostUnlessOthersAreNamed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", after, oauth("client_secret_env: S, scopes: [a]")+after)
		loaded, err := w.load()
		require.NoError(t, err)
		require.Equal(t, &config.OAuth2{TokenURL: "https://login.example.com/token", AllowedHosts: []string{"login.example.com"},
			ClientID: "c", ClientSecret: config.SecretRef{Env: "S"}, Scopes: []string{"a"}, Grant: config.GrantClient,
			AuthStyle: config.AuthInHeader}, loaded.Tenants[0].Connectors[0].OAuth2)
	})

	for _, c := range []struct{ name, setting, says string }{
		{"Two", "bearer_env: A\n    hmac: {secret_env: B}\n    ", "hmac and the bearer token are both set; a connector has one credential"},
		{"TwoOthers", "basic: {username: a, password_env: B}\n    api_key: {header: X, value_env: B}\n    ", "api_key and basic are both set"},
		{"NoPassword", "basic: {username: a}\n    ", "password must have exactly one of password_env, password_file; it has 0"},
		{"TwoPasswords", "basic: {username: a, password_env: B, password_file: /c}\n    ", "it has 2"},
		{"AColon", "basic: {username: 'a:b', password_env: B}\n    ", "must not have a colon"},
		{"ASecretInTheFile", "basic: {username: a, password: hush}\n    ", "password is not a known setting here"},
		{"NoSecret", oauth("grant: client_credentials"), "client_secret must have exactly one"},
		{"NoRefreshToken", oauth("grant: refresh_token"), "refresh_token must have exactly one"},
		{"ARefreshTokenForNothing", oauth("client_secret_env: S, refresh_token_env: R"), "is for grant refresh_token"},
		{"ScopesForNothing", oauth("grant: refresh_token, refresh_token_env: R, scopes: [a]"), "is for grant client_credentials"},
		{"AnotherHost", oauth("client_secret_env: S, allowed_hosts: [a.example.com]"), `lacks "login.example.com", the host of token_url`},
		{"AnUnknownGrant", oauth("client_secret_env: S, grant: password"), "allowed: client_credentials, refresh_token"},
	} {
		t.Run(c.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.replace("connectors.yaml", after, c.setting+after)
			_, err := w.load()
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, setting, says string }{
		{"CodesFromNowhere", "refused_codes: [b]", "refused_codes needs error_code, where they are looked for"},
		{"PendingWithoutSuccess", "success: {pending_where: {pointer: /a, equals: b}}", "pending_where needs where"},
		{"AListToEqual", "success: {where: {pointer: /a, equals: [b]}}", "equals must be a text, a number, true or false"},
		{"AVersionThatIsNotInTheBody", "conditional: {body: true}", "must have ${current_version} in it"},
		{"AVersionInTwoPlaces", "conditional: {body: true, header: If-Match}", "is for a version in a header"},
		{"AVersionInHalfAPlace", "conditional: {header: If-Match}", "must have header and value together"},
		{"AVersionNowhere", "conditional: {}", "must have header and value, or body: true"},
	} {
		t.Run(c.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.replace("connectors.yaml", "connectors:\n", "connectors:\n  - id: x\n    base_url: https://x.example\n    operations:\n"+
				"      - {name: a, kind: send, method: POST, path: /a, "+c.setting+"}\n")
			_, err := w.load()
			require.ErrorContains(t, err, c.says)
		})
	}
}
