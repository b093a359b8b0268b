package demoidp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-jose/go-jose/v4"
)

// signingKey is the provider's one key; as op.SigningKey it is private, as op.Key (publicKey) it is what /keys
// publishes.
type signingKey struct {
	private   crypto.Signer
	id        string
	algorithm jose.SignatureAlgorithm
}

func (k *signingKey) Key() any                                    { return k.private }
func (k *signingKey) ID() string                                  { return k.id }
func (k *signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return k.algorithm }

type publicKey struct{ *signingKey }

func (k publicKey) Key() any                           { return k.private.Public() }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return k.algorithm }

func openKey(path string) (*signingKey, error) {
	if path == "" {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generating a signing key: %w", err)
		}
		return newSigningKey(key)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKey(path); err != nil {
			return nil, fmt.Errorf("making the signing key %s: %w", path, err)
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w; remove the file to get a new key", path, err)
	}
	return newSigningKey(key)
}

// createKey writes beside the file and links it into place, so that nobody reads half a key and of two processes that
// start at once the second uses the key of the first.
func createKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// CreateTemp makes files of mode 0600.
	f, err := os.CreateTemp(filepath.Dir(path), ".demoidp-key-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	return key, nil
}

// newSigningKey names the key by its thumbprint (RFC 7638), so that the same key has the same id after a restart.
func newSigningKey(private crypto.Signer) (*signingKey, error) {
	k := &signingKey{private: private}
	switch key := private.(type) {
	case *ecdsa.PrivateKey:
		if key.Curve != elliptic.P256() {
			return nil, fmt.Errorf("signing key: curve %s is not supported, use P-256", key.Curve.Params().Name)
		}
		k.algorithm = jose.ES256
	case *rsa.PrivateKey:
		k.algorithm = jose.RS256
	default:
		return nil, fmt.Errorf("signing key: %T is not supported, use EC on P-256 or RSA", private)
	}
	jwk := jose.JSONWebKey{Key: private.Public()}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	k.id = base64.RawURLEncoding.EncodeToString(sum)
	return k, nil
}
