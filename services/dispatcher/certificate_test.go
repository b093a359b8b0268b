package dispatcher

import (
	"crypto/tls"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector/tlstest"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// encrypted is the sandbox behind TLS; change may edit the settings.
func encrypted(t *testing.T, w *servicetest.World, cert tls.Certificate, change func(*tls.Config)) string {
	t.Helper()
	target, err := url.Parse(w.Sandbox.URL())
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	if change != nil {
		change(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// TestCertificates: a write goes to whom a certificate vouches for, and to nobody else (D12).
func TestCertificates(t *testing.T) {
	t.Parallel()
	world := setup(t)
	ours := tlstest.New(t)
	onlyOld := func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 }
	for _, row := range []struct {
		name   string
		cert   tls.Certificate
		trust  *tlstest.Authority
		change func(*tls.Config)
		detail string // "" where it is sent
	}{
		{"APrivateAuthorityThatIsTrustedIsGood", ours.Loopback(), ours, nil, ""},
		{"AnExpiredCertificateIsRefused", ours.Loopback(tlstest.Expired), ours, nil, "expired"},
		{"TheCertificateOfAnotherHostIsRefused", ours.Loopback(tlstest.Elsewhere), ours, nil, "127.0.0.1"},
		{"AnUnknownAuthorityIsRefused", ours.Loopback(), nil, nil, "unknown authority"},
		{"ACertificateThatVouchesForItselfIsRefused", tlstest.SelfSigned(t), ours, nil, "certificate"},
		{"TLSOfOldIsRefused", ours.Loopback(), ours, onlyOld, "protocol version"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, key := world.forCase(t), row.name
			address := encrypted(t, b.World, row.cert, row.change)
			d := b.with(withoutRead, func(c *config.Tenant) {
				crm := servicetest.Connector(c, servicetest.CRM)
				crm.BaseURL, crm.AllowedHosts = address, nil
				if row.trust != nil {
					crm.CAFile = row.trust.File
				}
			})
			b.Authorize(b.Contact(key))
			d.request(key)
			attempts := b.Attempts(key)
			require.Len(t, attempts, 1)
			if row.detail == "" {
				require.Equal(t, string(outcome.Succeeded), attempts[0].Class, attempts[0].Detail)
				require.Len(t, b.Writes(key), 1)
				return
			}
			require.Equal(t, string(outcome.NotSent), attempts[0].Class, attempts[0].Detail)
			require.True(t, strings.Contains(attempts[0].Detail, row.detail), attempts[0].Detail)
			b.requireNothingSent(key)
			e := b.Look(key)
			require.Equal(t, ledger.EffectPending, e.State)
			require.False(t, e.MaybeSent)
			require.Equal(t, 1, b.Count(`select count(*) from effects where run_id = $1 and next_check_at > updated_at`,
				servicetest.Effect(key).RunID), "its backoff has begun")
		})
	}
}
