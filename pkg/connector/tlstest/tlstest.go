// Package tlstest makes certificate authorities and certificates for tests, good ones and bad ones.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates.
type Authority struct {
	File string // of its own certificate, in PEM

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority of a test's own.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := certificate("an authority of a test")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	signed := a.sign(template)
	var err error
	a.cert, err = x509.ParseCertificate(signed.Certificate[0])
	require.NoError(t, err)
	a.key = signed.PrivateKey.(*ecdsa.PrivateKey)
	a.File = filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	require.NoError(t, os.WriteFile(a.File, text, 0o600))
	return a
}

// Loopback is a good certificate of 127.0.0.1, unless a change makes it another.
func (a *Authority) Loopback(changes ...func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	template := certificate("a server of a test")
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, change := range changes {
		change(template)
	}
	return a.sign(template)
}

// Expired makes a certificate one of yesterday.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-24 * time.Hour) }

// Elsewhere makes a certificate that of another host.
func Elsewhere(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.example"} }

// SelfSigned is a certificate of 127.0.0.1 that vouches for itself.
func SelfSigned(t testing.TB) tls.Certificate {
	t.Helper()
	return (&Authority{t: t}).Loopback()
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

// sign is by the authority, or where it has no certificate yet by the new key itself.
func (a *Authority) sign(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	text, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}
}
