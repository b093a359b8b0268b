package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

// now is the moment at which these tests verify.
var now = time.Unix(1_700_000_000, 0)

// odd is a body that no JSON library writes like this.
const odd = ` {"a":1.0 ,  "u":"http:\/\/x","z":"é"}` + "\n"

// Secrets of these tests.
const (
	whsec    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	whsecOld = "whsec_b2xkIHNlY3JldCBvZiAyNCBieXRlcyEh"
	text     = "a text of sixteen or more"
	textOld  = "the text that was used before"
)

// mac is made with the standard library alone, apart from the code under test.
func mac(algorithm func() hash.Hash, key, signed string) []byte {
	h := hmac.New(algorithm, []byte(key))
	h.Write([]byte(signed))
	return h.Sum(nil)
}

func hex256(key, signed string) string { return hex.EncodeToString(mac(sha256.New, key, signed)) }

// verifier verifies with literal secrets.
func verifier(t testing.TB, format signature.Format, secrets ...string) *signature.Verifier {
	t.Helper()
	config := signature.Config{Format: format}
	for _, secret := range secrets {
		config.Secrets = append(config.Secrets, signature.Secret{Value: secret})
	}
	v, err := signature.New(config)
	require.NoError(t, err)
	return v
}

// sender is one scheme with what its sender does.
type sender struct {
	name        string
	format      signature.Format
	secret, old string
	stamped     bool
	id          string // what Verify gives back
	header      string // holds the signature
	sign        func(secret, body string, at time.Time) http.Header
}

// headersOf are headers under their names as net/http spells them.
func headersOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// keyOf is the key that a Standard Webhooks secret stands for.
func keyOf(secret string) string {
	key, err := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	if err != nil {
		panic(err)
	}
	return string(key)
}

// declared is a sender of the scheme hmac, without and with a timestamp.
func declared() []sender {
	slack := signature.Format{Scheme: signature.HMAC, Header: "x-slack-signature", Encoding: signature.Hex, Prefix: "v0=",
		TimestampHeader: "x-slack-request-timestamp", Payload: "v0:{timestamp}:{body}"}
	shop := signature.Format{Scheme: signature.HMAC, Header: "X-Shop-Hmac", Encoding: signature.Base64}
	around := signature.Format{Scheme: signature.HMAC, Header: "X-Sum", Encoding: signature.Base64URL,
		Algorithm: signature.SHA512, TimestampHeader: "X-When", Payload: "[{body}@{timestamp}]"}
	return []sender{
		{"HMACInHexWithATimestamp", slack, text, textOld, true, "", "X-Slack-Signature",
			func(secret, body string, at time.Time) http.Header {
				return headersOf("X-Slack-Request-Timestamp", fmt.Sprint(at.Unix()),
					"X-Slack-Signature", "v0="+hex256(secret, fmt.Sprintf("v0:%d:%s", at.Unix(), body)))
			}},
		{"HMACInBase64", shop, text, textOld, false, "", "X-Shop-Hmac",
			func(secret, body string, _ time.Time) http.Header {
				return headersOf("X-Shop-Hmac", base64.StdEncoding.EncodeToString(mac(sha256.New, secret, body)))
			}},
		{"HMACSHA512InBase64URLAroundTheBody", around, text, textOld, true, "", "X-Sum",
			func(secret, body string, at time.Time) http.Header {
				sum := mac(sha512.New, secret, fmt.Sprintf("[%s@%d]", body, at.Unix()))
				return headersOf("X-When", fmt.Sprint(at.Unix()), "X-Sum", base64.URLEncoding.EncodeToString(sum))
			}},
	}
}

// senders are one of each kind.
func senders() []sender {
	return append(declared(),
		sender{"StandardWebhooks", signature.Format{Scheme: signature.StandardWebhooks}, whsec, whsecOld, true, "msg_1",
			"Webhook-Signature", func(secret, body string, at time.Time) http.Header {
				sum := mac(sha256.New, keyOf(secret), fmt.Sprintf("msg_1.%d.%s", at.Unix(), body))
				return headersOf("Webhook-Id", "msg_1", "Webhook-Timestamp", fmt.Sprint(at.Unix()),
					"Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(sum))
			}},
		sender{"Stripe", signature.Format{Scheme: signature.Stripe}, "whsec_stripes_are_text", textOld, true, "",
			"Stripe-Signature", func(secret, body string, at time.Time) http.Header {
				return headersOf("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", at.Unix(),
					hex256(secret, fmt.Sprintf("%d.%s", at.Unix(), body))))
			}},
		sender{"GitHub", signature.Format{Scheme: signature.GitHub}, text, textOld, false, "", "X-Hub-Signature-256",
			func(secret, body string, _ time.Time) http.Header {
				return headersOf("X-Hub-Signature-256", "sha256="+hex256(secret, body))
			}})
}
