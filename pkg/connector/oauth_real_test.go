package connector

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// TestOAuth2OfARealServer gets tokens from the server of zitadel's library, and has the provider verify them by its published keys.
func TestOAuth2OfARealServer(t *testing.T) {
	t.Parallel()
	server, err := demoidp.New(demoidp.Config{Addr: "127.0.0.1:0", People: demoidp.DemoPeople(), Clients: demoidp.DemoClients(),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	known, err := oidc.NewProvider(t.Context(), server.Issuer())
	require.NoError(t, err)
	verifier := known.Verifier(&oidc.Config{ClientID: "holdpoint"})
	g := newGuarded(t, func(token string) bool {
		verified, err := verifier.Verify(t.Context(), token)
		return err == nil && verified.Subject == "demo-agent"
	})
	by := func(t *testing.T, secret string) *Connector {
		return connect(t, g.url, func(c *Config) {
			c.Connector.OAuth2 = &config.OAuth2{TokenURL: known.Endpoint().TokenURL, ClientID: "demo-agent",
				ClientSecret: config.SecretRef{Env: "CLIENT"}, Grant: config.GrantClient}
			secrets(map[string]string{"CLIENT": secret})(c)
		})
	}

	t.Run("TheTokenIsTheClientsOwn", func(t *testing.T) {
		result := pay(t, by(t, "demo-agent-secret"))
		require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
		require.Equal(t, http.StatusOK, result.HTTPStatus)
		require.EqualValues(t, 1, g.accepted.Load())
	})

	t.Run("WithAWrongSecretNothingIsSent", func(t *testing.T) {
		result := pay(t, by(t, "another"))
		require.Equal(t, outcome.NotSent, result.Class, result.Detail)
		require.False(t, result.Sent)
		require.NotContains(t, result.Detail, "another")
		require.EqualValues(t, 1, g.accepted.Load())
		require.Zero(t, g.refused.Load())
	})
}
