package signature_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

func TestNewReadsSecretsWhereTheyAreKept(t *testing.T) {
	github := sender{}
	for _, s := range senders() {
		if s.name == "GitHub" {
			github = s
		}
	}
	t.Setenv("HOOK_SECRET", " "+text+"\n")
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(textOld+"\n"), 0o600))
	for secret, of := range map[signature.Secret]string{{Env: "HOOK_SECRET"}: text, {File: file}: textOld,
		{Value: text}: text} {
		v, err := signature.New(signature.Config{Format: github.format, Secrets: []signature.Secret{secret}})
		require.NoError(t, err)
		_, refusal := v.Verify(github.sign(of, odd, now), []byte(odd), now)
		require.Nil(t, refusal, secret)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	hmac := func(change func(*signature.Format)) signature.Format {
		f := signature.Format{Scheme: signature.HMAC, Header: "X-Sum", Encoding: signature.Hex}
		change(&f)
		return f
	}
	github := signature.Format{Scheme: signature.GitHub}
	standard := signature.Format{Scheme: signature.StandardWebhooks}
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte(" \n"), 0o600))
	long := "whsec_" + fmt.Sprintf("%088d", 0) // 66 bytes
	for _, tc := range []struct {
		name   string
		format signature.Format
		secret signature.Secret
		says   string
	}{
		{"AnEmptyVariable", github, signature.Secret{Env: "HOLDPOINT_TEST_NOT_SET"},
			"the signing secret in environment variable HOLDPOINT_TEST_NOT_SET: is empty"},
		{"AnEmptyFile", github, signature.Secret{File: empty}, "the signing secret in file " + empty + ": is empty"},
		{"AFileThatThereIsNot", github, signature.Secret{File: "/nowhere/secret"}, "no such file"},
		{"AnEmptyValue", github, signature.Secret{}, "literal value: is empty"},
		{"AShortText", github, signature.Secret{Value: "hush hush hush!"}, "must have at least 16 bytes"},
		{"AShortKey", standard, signature.Secret{Value: "whsec_aHVzaA=="}, "must be whsec_ and the base64 of 24 to 64"},
		{"ALongKey", standard, signature.Secret{Value: long}, "must be whsec_ and the base64 of 24 to 64"},
		{"AKeyWithoutItsPrefix", standard, signature.Secret{Value: whsec[6:]}, "must be whsec_"},
		{"AnUnknownScheme", signature.Format{Scheme: "md5"}, signature.Secret{Value: text},
			`scheme is "md5", allowed: standard_webhooks, stripe, github, hmac`},
		{"ANegativeTolerance", signature.Format{Scheme: signature.GitHub, Tolerance: -1}, signature.Secret{Value: text},
			"tolerance is -1ns, which must not be negative"},
		{"NoHeader", hmac(func(f *signature.Format) { f.Header = "" }), signature.Secret{Value: text}, "header is missing"},
		{"AnUnknownEncoding", hmac(func(f *signature.Format) { f.Encoding = "b64" }), signature.Secret{Value: text},
			`encoding is "b64", allowed: hex, base64, base64url`},
		{"AnUnknownAlgorithm", hmac(func(f *signature.Format) { f.Algorithm = "sha1" }), signature.Secret{Value: text},
			`algorithm is "sha1", allowed: , sha256, sha512`},
		{"NoBody", hmac(func(f *signature.Format) { f.Payload = "x" }), signature.Secret{Value: text},
			`payload is "x", which must have {body} in it once`},
		{"TwoBodies", hmac(func(f *signature.Format) { f.Payload = "{body}{body}" }), signature.Secret{Value: text},
			"which must have {body} in it once"},
		{"AnUnknownPlace", hmac(func(f *signature.Format) { f.Payload = "{id}.{body}" }), signature.Secret{Value: text},
			"in which only {body} and {timestamp} may stand in braces"},
		{"ATimestampThatIsNotSigned", hmac(func(f *signature.Format) { f.TimestampHeader = "X-When" }),
			signature.Secret{Value: text}, "a timestamp that is not signed proves nothing"},
		{"ATimestampFromNowhere", hmac(func(f *signature.Format) { f.Payload = "{timestamp}.{body}" }),
			signature.Secret{Value: text}, "there is no timestamp_header to take {timestamp} from"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := signature.New(signature.Config{Format: tc.format, Secrets: []signature.Secret{tc.secret}})
			require.ErrorContains(t, err, tc.says)
			if tc.secret.Value != "" {
				require.NotContains(t, err.Error(), tc.secret.Value)
			}
		})
	}

	t.Run("NoSecretAtAll", func(t *testing.T) {
		t.Parallel()
		_, err := signature.New(signature.Config{Format: github})
		require.ErrorContains(t, err, "there is no secret to verify with")
	})
}

func TestASecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	for _, s := range []signature.Secret{{Value: text}, {Env: "NAME"}, {File: "/a"}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			require.Equal(t, s.String(), fmt.Sprintf(verb, s))
		}
	}
	require.NotContains(t, fmt.Sprint(signature.Config{Secrets: []signature.Secret{{Value: text}}}), text)
	require.ErrorContains(t, signature.CheckText(signature.Stripe, "hush"), "too short")
	require.NoError(t, signature.CheckText(signature.StandardWebhooks, whsec))
}

func TestWhatASchemeSignsBesidesTheBody(t *testing.T) {
	t.Parallel()
	for _, s := range senders() {
		require.Equal(t, s.stamped, s.format.Stamped(), s.name)
		require.Equal(t, s.id != "", s.format.IDHeader() != "", s.name)
		if s.id != "" {
			require.Equal(t, s.id, s.sign(s.secret, odd, now).Get(s.format.IDHeader()))
		}
	}
}
