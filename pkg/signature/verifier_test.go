package signature_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

// Vectors that others have published.
func TestVectors(t *testing.T) {
	t.Parallel()

	t.Run("StandardWebhooks", func(t *testing.T) {
		t.Parallel()
		headers := headersOf("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330",
			"Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		v := verifier(t, signature.Format{Scheme: signature.StandardWebhooks}, whsec)
		id, refusal := v.Verify(headers, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0))
		require.Nil(t, refusal)
		require.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", id)
	})

	t.Run("GitHub", func(t *testing.T) {
		t.Parallel()
		headers := headersOf("X-Hub-Signature-256",
			"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
		v := verifier(t, signature.Format{Scheme: signature.GitHub}, "It's a Secret to Everybody")
		id, refusal := v.Verify(headers, []byte("Hello, World!"), now)
		require.Nil(t, refusal)
		require.Empty(t, id)
	})

	t.Run("Slack", func(t *testing.T) {
		t.Parallel()
		body := "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&" +
			"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&" +
			"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F" +
			"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
		headers := headersOf("X-Slack-Request-Timestamp", "1531420618", "X-Slack-Signature",
			"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")
		v := verifier(t, declared()[0].format, "8f742231b10e8888abcd99yyyzzz85a5")
		_, refusal := v.Verify(headers, []byte(body), time.Unix(1531420618, 0))
		require.Nil(t, refusal)
	})

	t.Run("WhatTheStandardWebhooksLibrarySigns", func(t *testing.T) {
		t.Parallel()
		library, err := standardwebhooks.NewWebhook(whsecOld)
		require.NoError(t, err)
		signed, err := library.Sign("msg.with.dots", now, []byte(odd))
		require.NoError(t, err)
		headers := headersOf("Webhook-Id", "msg.with.dots", "Webhook-Timestamp", "1700000000", "Webhook-Signature", signed)
		id, refusal := verifier(t, signature.Format{Scheme: signature.StandardWebhooks}, whsecOld).
			Verify(headers, []byte(odd), now)
		require.Nil(t, refusal)
		require.Equal(t, "msg.with.dots", id)
	})
}

func TestEverySender(t *testing.T) {
	t.Parallel()
	for _, s := range senders() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			v := verifier(t, s.format, s.secret)
			refused := func(t *testing.T, want signature.Reason, headers http.Header, body string, at time.Time) {
				t.Helper()
				id, refusal := v.Verify(headers, []byte(body), at)
				require.NotNil(t, refusal)
				require.Equal(t, want, refusal.Reason, refusal.Detail)
				require.NotEmpty(t, refusal.Detail)
				require.Empty(t, id)
				require.NotContains(t, refusal.Detail, s.secret)
				stale := want == signature.TooOld || want == signature.FromFuture
				require.Equal(t, stale, refusal.Stale())
			}

			t.Run("TheBytesAreTakenAsTheyCame", func(t *testing.T) {
				id, refusal := v.Verify(s.sign(s.secret, odd, now), []byte(odd), now)
				require.Nil(t, refusal)
				require.Equal(t, s.id, id)
				refused(t, signature.Mismatch, s.sign(s.secret, odd, now), `{"a":1.0,"u":"http://x","z":"é"}`, now)
			})

			t.Run("EveryChangeOfOneByteIsSeen", func(t *testing.T) {
				for i := range odd {
					changed := []byte(odd)
					changed[i] ^= 1
					refused(t, signature.Mismatch, s.sign(s.secret, odd, now), string(changed), now)
				}
				refused(t, signature.Mismatch, s.sign(s.secret, odd, now), odd+" ", now)
				refused(t, signature.Mismatch, s.sign(s.secret, odd, now), odd[1:], now)
			})

			t.Run("AnySecretMayMatchAndNoOther", func(t *testing.T) {
				both := verifier(t, s.format, s.secret, s.old)
				for _, secret := range []string{s.secret, s.old} {
					_, refusal := both.Verify(s.sign(secret, odd, now), []byte(odd), now)
					require.Nil(t, refusal)
				}
				refused(t, signature.Mismatch, s.sign(s.old, odd, now), odd, now)
			})

			t.Run("AClockMayBeOffByTheToleranceInEitherDirection", func(t *testing.T) {
				headers := s.sign(s.secret, odd, now)
				edge := signature.DefaultTolerance
				for _, skew := range []time.Duration{-edge, edge, edge + time.Second - 1} {
					_, refusal := v.Verify(headers, []byte(odd), now.Add(skew))
					require.Nil(t, refusal, skew)
				}
				if !s.stamped {
					_, refusal := v.Verify(headers, []byte(odd), now.Add(1000*time.Hour))
					require.Nil(t, refusal, "nothing says when it was signed")
					return
				}
				refused(t, signature.TooOld, headers, odd, now.Add(edge+time.Second))
				refused(t, signature.FromFuture, headers, odd, now.Add(-edge-time.Second))
				refused(t, signature.Mismatch, headers, odd+" ", now.Add(time.Hour)) // only what is genuine is called stale
				narrow := s.format
				narrow.Tolerance = 2 * time.Second
				_, refusal := verifier(t, narrow, s.secret).Verify(headers, []byte(odd), now.Add(3*time.Second))
				require.Equal(t, signature.TooOld, refusal.Reason)
			})

			t.Run("AHeaderThatIsMissingOrRepeatedIsRefused", func(t *testing.T) {
				for name := range s.sign(s.secret, odd, now) {
					headers := s.sign(s.secret, odd, now)
					headers[name] = append(headers[name], headers[name]...)
					refused(t, signature.Ambiguous, headers, odd, now)
					headers[name] = []string{" "}
					refused(t, signature.Missing, headers, odd, now)
					delete(headers, name)
					refused(t, signature.Missing, headers, odd, now)
				}
			})

			t.Run("ASignatureThatIsNoneIsRefused", func(t *testing.T) {
				headers := s.sign(s.secret, odd, now)
				for _, value := range []string{"x", "=", "v1", "sha256=", "t=1700000000", "v1,", "v1,\xff"} {
					headers[s.header] = []string{value}
					refused(t, signature.Malformed, headers, odd, now)
				}
			})

			t.Run("EveryChangeOfTheSignatureIsSeen", func(t *testing.T) {
				headers := s.sign(s.secret, odd, now)
				value := headers.Get(s.header)
				for i := range value {
					other := "0"
					if value[i] == '0' {
						other = "1"
					}
					headers[s.header] = []string{value[:i] + other + value[i+1:]}
					_, refusal := v.Verify(headers, []byte(odd), now)
					require.NotNil(t, refusal, "byte %d of %s", i, value)
				}
			})
		})
	}
}

// What senders write besides one signature of today.
func TestHeadersOfSenders(t *testing.T) {
	t.Parallel()
	byName := map[string]sender{}
	for _, s := range senders() {
		byName[s.name] = s
	}
	verify := func(s sender, headers http.Header) *signature.Refusal {
		_, refusal := verifier(t, s.format, s.secret).Verify(headers, []byte(odd), now)
		return refusal
	}

	t.Run("OneOfSeveralSignaturesIsEnough", func(t *testing.T) {
		t.Parallel()
		s := byName["StandardWebhooks"]
		headers := s.sign(s.secret, odd, now)
		good, old := headers.Get("Webhook-Signature"), s.sign(s.old, odd, now).Get("Webhook-Signature")
		for _, value := range []string{old + " " + good, good + " " + old, "v1a,AAAA v1,?? " + good, "  " + good + "  "} {
			headers.Set("Webhook-Signature", value)
			require.Nil(t, verify(s, headers), value)
		}
		headers.Set("Webhook-Signature", old+" v2,"+strings.TrimPrefix(good, "v1,"))
		require.Equal(t, signature.Mismatch, verify(s, headers).Reason, "of another version")

		s = byName["Stripe"]
		good, old = s.sign(s.secret, odd, now).Get("Stripe-Signature"), s.sign(s.old, odd, now).Get("Stripe-Signature")
		_, goodSum, _ := strings.Cut(good, ",v1=")
		_, oldSum, _ := strings.Cut(old, ",v1=")
		for _, value := range []string{good + ",v1=" + oldSum, old + ", v1=" + goodSum, good + ",v0=00,x,y=z"} {
			require.Nil(t, verify(s, headersOf("Stripe-Signature", value)), value)
		}
		require.Equal(t, signature.Mismatch, verify(s, headersOf("Stripe-Signature", old+",v0="+goodSum)).Reason)
		require.Equal(t, signature.Malformed, verify(s, headersOf("Stripe-Signature", good+",t=1700000000")).Reason)
	})

	t.Run("AnotherIdOrTimestampIsNotTheOneThatWasSigned", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct{ sender, header string }{
			{"StandardWebhooks", "Webhook-Id"}, {"StandardWebhooks", "Webhook-Timestamp"},
			{"HMACInHexWithATimestamp", "X-Slack-Request-Timestamp"}, {"HMACSHA512InBase64URLAroundTheBody", "X-When"},
		} {
			s := byName[tc.sender]
			headers := s.sign(s.secret, odd, now)
			require.NotEmpty(t, headers.Get(tc.header))
			headers.Set(tc.header, "1700000001")
			require.Equal(t, signature.Mismatch, verify(s, headers).Reason, tc.header)
		}
	})

	t.Run("ATimestampIsDigits", func(t *testing.T) {
		t.Parallel()
		s := byName["StandardWebhooks"]
		for _, value := range []string{"-1", "+1700000000", "1.7e9", "1700000000.5", "1700000000 1", "1_700_000_000",
			"0x6553f100", "9999999999999", "99999999999999999999", "now", "２"} {
			headers := s.sign(s.secret, odd, now)
			headers.Set("Webhook-Timestamp", value)
			require.Equal(t, signature.Malformed, verify(s, headers).Reason, value)
		}
		headers := s.sign(s.secret, odd, time.Unix(999999999999, 0))
		require.Equal(t, signature.FromFuture, verify(s, headers).Reason, "the longest that is read")
	})

	t.Run("LettersOfHexAndPaddingMayVary", func(t *testing.T) {
		t.Parallel()
		s := byName["GitHub"]
		value := strings.TrimPrefix(s.sign(s.secret, odd, now).Get(s.header), "sha256=")
		require.Nil(t, verify(s, headersOf(s.header, "sha256="+strings.ToUpper(value))))
		s = byName["HMACSHA512InBase64URLAroundTheBody"]
		headers := s.sign(s.secret, odd, now)
		headers.Set(s.header, strings.TrimRight(headers.Get(s.header), "="))
		require.Nil(t, verify(s, headers))
	})
}
