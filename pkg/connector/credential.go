package connector

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// credential adds to a request's header what the connector proves itself with. It is asked at each call, before the call's own
// time begins. Its errors name where a secret should be, never what was there; nothing is sent after one.
type credential interface {
	authorize(ctx context.Context, r *http.Request, body []byte) error
	// rejected tells that a request's credential was not accepted, and reports whether the next call has another.
	rejected(r *http.Request) bool
}

// constant is a credential that is what its secret is.
type constant func(r *http.Request, body []byte) error

func (c constant) authorize(_ context.Context, r *http.Request, body []byte) error { return c(r, body) }
func (c constant) rejected(*http.Request) bool                                     { return false }

// newCredential checks the declaration. A connector without one has a credential that adds nothing.
func (k *Connector) newCredential() (credential, error) {
	d := k.declared
	if err := singleCredential(d); err != nil {
		return nil, err
	}
	switch {
	case d.BearerEnv != "" || d.BearerFile != "":
		return k.header("Authorization", "Bearer ", "bearer token", config.SecretRef{Env: d.BearerEnv, File: d.BearerFile}), nil
	case d.Basic != nil:
		return k.basic(d.Basic)
	case d.HeaderKey != nil:
		name := d.HeaderKey.Header
		return k.header(http.CanonicalHeaderKey(name), "", "API key", d.HeaderKey.Value), k.checkKeyHeader(name)
	case d.OAuth2 != nil:
		return newOAuth(k)
	case d.Signing.Set():
		return constant(k.sign), k.checkSigned()
	}
	return constant(func(*http.Request, []byte) error { return nil }), nil
}

func singleCredential(d *config.Connector) error {
	if d.BearerEnv != "" && d.BearerFile != "" {
		return errors.New("a bearer token comes from an environment variable or from a file, not both")
	}
	count := 0
	for _, set := range []bool{
		d.BearerEnv != "" || d.BearerFile != "", d.Basic != nil, d.HeaderKey != nil, d.OAuth2 != nil, d.Signing.Set(),
	} {
		if set {
			count++
		}
	}
	if count > 1 {
		return fmt.Errorf("a connector has one credential, and %d are declared", count)
	}
	return nil
}

func (k *Connector) secret(what string, ref config.SecretRef) (string, error) {
	return k.config.secret(what, ref)
}

// secret reads one secret at call time. what names it in errors.
func (c *Config) secret(what string, ref config.SecretRef) (string, error) {
	if ref.File == "" {
		return strings.TrimSpace(c.Env(ref.Env)), nil
	}
	text, err := c.ReadFile(ref.File)
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", what, err)
	}
	return strings.TrimSpace(string(text)), nil
}

func place(ref config.SecretRef) string {
	if ref.File != "" {
		return "file " + ref.File
	}
	return "environment variable " + ref.Env
}

func (k *Connector) header(name, prefix, what string, ref config.SecretRef) credential {
	return constant(func(r *http.Request, _ []byte) error {
		secret, err := k.secret(what, ref)
		if err != nil {
			return err
		}
		if !validHeaderValue(secret) {
			return fmt.Errorf("the %s in %s is missing or not printable ASCII", what, place(ref))
		}
		r.Header[name] = []string{prefix + secret}
		return nil
	})
}

func (k *Connector) basic(b *config.Basic) (credential, error) {
	if b.Username == "" || strings.Contains(b.Username, ":") || hasControls(b.Username) {
		return nil, errors.New("the user name must not be empty and must hold neither a colon nor controls")
	}
	return constant(func(r *http.Request, _ []byte) error {
		password, err := k.secret("password", b.Password)
		if err != nil {
			return err
		}
		if password == "" || hasControls(password) {
			return fmt.Errorf("the password in %s is missing or holds controls", place(b.Password))
		}
		pair := base64.StdEncoding.EncodeToString([]byte(b.Username + ":" + password))
		r.Header["Authorization"] = []string{"Basic " + pair}
		return nil
	}), nil
}

// sent are the secrets that the credential has put into a request's header, in the forms in which a system may repeat them: some say
// "invalid token: …" with all of it, and what they say is kept as an attempt's detail, or an id.
func (k *Connector) sent(r *http.Request) (secrets []string) {
	d := k.declared
	if d.Credential() == "" || d.Signing.Set() { // a signature is no secret
		return nil
	}
	name := "Authorization"
	if d.HeaderKey != nil {
		name = http.CanonicalHeaderKey(d.HeaderKey.Header)
	}
	value := r.Header.Get(name)
	if _, password, basic := r.BasicAuth(); basic && d.Basic != nil {
		secrets = append(secrets, password)
	}
	if d.HeaderKey == nil {
		_, value, _ = strings.Cut(value, " ")
	}
	return append(secrets, value)
}

const (
	shortestHidden = 6 // a shorter secret would be found in anything
	hidden         = "(credential)"
)

// hide takes a secret out of an answer, also where its slashes are escaped.
func (a *answer) hide(secret string) {
	if len(secret) < shortestHidden {
		return
	}
	forms := []string{secret}
	if escaped := strings.ReplaceAll(secret, "/", `\/`); escaped != secret {
		forms = append(forms, escaped)
	}
	for _, form := range forms {
		a.body = bytes.ReplaceAll(a.body, []byte(form), []byte(hidden))
		for name, values := range a.header {
			for i := range values {
				a.header[name][i] = strings.ReplaceAll(values[i], form, hidden)
			}
		}
	}
}

func hasControls(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkKeyHeader keeps a key out of the headers that this package sets itself, but for Authorization.
func (k *Connector) checkKeyHeader(name string) error {
	canonical := http.CanonicalHeaderKey(name)
	if canonical != "Authorization" && !validHeaderName(name) {
		return fmt.Errorf("the API key's header %q is not a header name that can be set", name)
	}
	return k.checkFree(canonical, "Accept", "User-Agent")
}

func (k *Connector) checkSigned() error {
	return errors.Join(k.checkFree(standardwebhooks.HeaderWebhookTimestamp), k.checkFree(standardwebhooks.HeaderWebhookSignature))
}

// checkFree refuses operations that set the credential's own headers: the one would replace the other.
func (k *Connector) checkFree(name string, besides ...string) error {
	taken := besides
	for _, op := range k.declared.Operations {
		taken = append(taken, op.IdempotencyHeader)
		if op.Conditional != nil {
			taken = append(taken, op.Conditional.Header)
		}
	}
	for _, other := range taken {
		if http.CanonicalHeaderKey(other) == http.CanonicalHeaderKey(name) {
			return fmt.Errorf("the header %s is the credential's and cannot be set besides", name)
		}
	}
	return nil
}

// sign signs by Standard Webhooks 1.0. The id was set by whoever made the request: it is the operation id, so that a receiver knows
// a repeated write by it. The time is that of the attempt, because receivers refuse what is old.
func (k *Connector) sign(r *http.Request, body []byte) error {
	secret, err := k.secret("signing secret", k.declared.Signing)
	if err != nil {
		return err
	}
	if err := signature.CheckText(signature.StandardWebhooks, secret); err != nil {
		return fmt.Errorf("the signing secret in %s %w", place(k.declared.Signing), err)
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return errors.New("the request cannot be signed")
	}
	now := k.config.Clock()
	signed, err := signer.Sign(r.Header.Get(standardwebhooks.HeaderWebhookID), now, body)
	if err != nil {
		return errors.New("the request cannot be signed")
	}
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, signed)
	return nil
}
