package signature_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

// fuzz looks for a header that is taken though it does not hold the one good signature, and for one that fails in any
// other way than by a reason of the list.
func fuzz(f *testing.F, s sender, decode func(string) ([]byte, error)) {
	good := s.sign(s.secret, odd, now)
	f.Add(good.Get(s.header))
	f.Add(s.sign(s.old, odd, now).Get(s.header) + " " + good.Get(s.header))
	for _, seed := range []string{"", "v1,", "t=1,v1=", "v1=00,t=,t=", "sha256=zz", "sha256=sha256=", ",,,", "v1,v1,v1"} {
		f.Add(seed)
	}
	v := verifier(f, s.format, s.secret)
	words := func(r rune) bool { return strings.ContainsRune(" ,\t\n\v\f\r", r) }
	want, err := decode(lastPart(good.Get(s.header)))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, value string) {
		headers := good.Clone()
		headers[s.header] = []string{value}
		_, refusal := v.Verify(headers, []byte(odd), now)
		if refusal != nil {
			require.Contains(t, []signature.Reason{signature.Missing, signature.Malformed, signature.Mismatch,
				signature.TooOld, signature.FromFuture}, refusal.Reason)
			return
		}
		holds := false
		for _, word := range strings.FieldsFunc(value, words) {
			sum, err := decode(lastPart(word))
			holds = holds || err == nil && string(sum) == string(want)
		}
		require.True(t, holds, "taken without its signature: %q", value)
	})
}

// lastPart is what follows the last mark of a name or version, padding apart.
func lastPart(word string) string {
	padding := len(word) - len(strings.TrimRight(word, "="))
	body := word[:len(word)-padding]
	return body[strings.LastIndexAny(body, "=,")+1:] + strings.Repeat("=", padding)
}

func senderOf(name string) sender {
	for _, s := range senders() {
		if s.name == name {
			return s
		}
	}
	panic(fmt.Sprintf("no sender %s", name))
}

func FuzzStandardWebhooksHeader(f *testing.F) {
	fuzz(f, senderOf("StandardWebhooks"), base64.StdEncoding.DecodeString)
}

func FuzzStripeHeader(f *testing.F) { fuzz(f, senderOf("Stripe"), hex.DecodeString) }

func FuzzGitHubHeader(f *testing.F) { fuzz(f, senderOf("GitHub"), hex.DecodeString) }

// FuzzTimestamp looks for a timestamp that is taken though it is not the one that was signed.
func FuzzTimestamp(f *testing.F) {
	s := senderOf("HMACInHexWithATimestamp")
	v := verifier(f, s.format, s.secret)
	good := s.sign(s.secret, odd, now)
	for _, seed := range []string{"1700000000", "", "0", "-1", "01700000000", "999999999999", "1e9", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		headers := good.Clone()
		headers["X-Slack-Request-Timestamp"] = []string{value}
		if _, refusal := v.Verify(headers, []byte(odd), now); refusal == nil {
			require.Equal(t, "1700000000", strings.Trim(value, " \t"))
		}
	})
}
