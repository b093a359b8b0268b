package intake_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// Secrets of the signed sources.
const (
	oldSecret      = "demo_secret_that_goes_away"
	newSecret      = "demo_secret_that_has_come"
	standardSecret = "whsec_demoSecretKnownToTheWholeWorld00"
)

// signedSources are sources of each kind of signature: with no timestamp, with one, and with an id.
const signedSources = `  - id: github
    mode: worker
    max_bytes: 20000
    signature: {scheme: github, secrets: [{value: ` + newSecret + `}, {value: ` + oldSecret + `}]}
    rules: [{version: 1, key: {pointers: [/id]}}]
  - id: stripe
    mode: worker
    signature: {scheme: stripe, tolerance: 1m, secrets: [{value: ` + newSecret + `}]}
    rules: [{version: 1, key: {pointers: [/id]}}]
  - id: standard
    mode: worker
    signature: {scheme: standard_webhooks, secrets: [{value: ` + standardSecret + `}]}
    rules: [{version: 1, key: {header: webhook-id}}]
`

func mac(key, signed string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(signed))
	return h.Sum(nil)
}

func githubSigned(secret, body string) http.Header {
	return http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac(secret, body))}}
}

func stripeSigned(body string, at time.Time) http.Header {
	sum := mac(newSecret, fmt.Sprintf("%d.%s", at.Unix(), body))
	return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%x", at.Unix(), sum)}}
}

func standardSigned(id, body string) http.Header {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(standardSecret, "whsec_"))
	at := fmt.Sprint(time.Now().Unix())
	sum := base64.StdEncoding.EncodeToString(mac(string(key), id+"."+at+"."+body))
	return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {"v1," + sum}}
}

// hook sends a delivery without an API key.
func (r *replica) hook(source, body string, headers http.Header) answer {
	r.t.Helper()
	sent := headers.Clone()
	if sent == nil {
		sent = http.Header{}
	}
	sent["Authorization"] = nil
	return r.send(call{path: "/v1/hooks/demo/" + source, header: sent, body: body})
}

// oddBody is a signed body that no JSON library writes like this.
func oddBody(id string) string {
	return ` {"id":"` + id + `" ,"a":1.0,  "u":"http:\/\/x","z":"é"}` + "\n"
}

// signed runs an intake with the signed sources.
func signed(t *testing.T) *replica {
	t.Helper()
	w := newWorld(t)
	w.config = configured(t, sources+signedSources)
	return w.start()
}

func TestHooks(t *testing.T) {
	t.Parallel()
	shared := signed(t)

	// refused asserts that a delivery leaves nothing but a counter.
	refused := func(r *replica, code string, status int, send func() answer) {
		r.t.Helper()
		what := map[string]string{"tenant": demo, "door": "http", "verb": "hook", "result": code}
		before, counted := r.stored(), r.counted("holdpoint_intake_answers_total", what)
		a := send()
		require.Equal(r.t, code, a.result())
		require.Equal(r.t, status, a.status)
		require.Equal(r.t, status, a.problem.Status)
		require.Equal(r.t, before, r.stored(), "nothing is stored")
		require.Equal(r.t, counted+1, r.counted("holdpoint_intake_answers_total", what))
	}

	t.Run("ASignedDeliveryIsTakenWithoutAnAPIKey", func(t *testing.T) {
		r := shared.as(t)
		body := oddBody("first")
		a := r.hook("github", body, githubSigned(newSecret, body))
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, http.StatusAccepted, a.status)
		require.Equal(t, "first", a.IdempotencyKey)
		require.Equal(t, body, string(one[[]byte](r.world, "select payload from run_payloads where run_id = $1", a.RunID)))
		require.Equal(t, "hook:github", one[string](r.world, "select sent_by from runs where run_id = $1", a.RunID))
	})

	t.Run("AChangeOfOneByteIsRefusedAndStoresNothing", func(t *testing.T) {
		r := shared.as(t)
		body := oddBody("changed")
		headers := githubSigned(newSecret, body)
		for _, changed := range []string{strings.Replace(body, "1.0", "1.1", 1), strings.TrimSpace(body), body + " ",
			strings.Replace(body, `\/`, `/`, 1), strings.Replace(body, "é", `\u00e9`, 1)} {
			refused(r, contracts.CodeBadSignature, 401, func() answer { return r.hook("github", changed, headers) })
		}
		require.Equal(t, contracts.ResultAccepted, r.hook("github", body, headers).result())
	})

	t.Run("EitherSecretOfARotationIsGoodAndNoOther", func(t *testing.T) {
		r := shared.as(t)
		for _, secret := range []string{oldSecret, newSecret} {
			body := oddBody(secret)
			require.Equal(t, contracts.ResultAccepted, r.hook("github", body, githubSigned(secret, body)).result())
		}
		body := oddBody("third")
		refused(r, contracts.CodeBadSignature, 401, func() answer {
			return r.hook("github", body, githubSigned("demo_secret_that_never_was", body))
		})
		require.NotContains(t, r.logs.text(), oldSecret)
	})

	t.Run("AClockMayBeOffByTheToleranceAndNoMore", func(t *testing.T) {
		r := shared.as(t)
		body := oddBody("clock")
		for _, skew := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
			refused(r, contracts.CodeStaleSignature, 401, func() answer {
				return r.hook("stripe", body, stripeSigned(body, time.Now().Add(skew)))
			})
		}
		for _, skew := range []time.Duration{-30 * time.Second, 30 * time.Second} {
			require.Equal(t, 202, r.hook("stripe", body, stripeSigned(body, time.Now().Add(skew))).status)
		}
	})

	// There is no table of signatures: the key is signed with the rest, and is kept for good.
	t.Run("ADeliveryThatComesAgainIsADuplicateWhateverIsAddedToIt", func(t *testing.T) {
		r := shared.as(t)
		body := oddBody("again")
		headers := githubSigned(newSecret, body)
		first := r.hook("github", body, headers)
		require.Equal(t, contracts.ResultAccepted, first.result())
		again := r.hook("github", body, headers)
		headers.Set("Idempotency-Key", "another")
		headers.Set("X-GitHub-Delivery", "another")
		for _, a := range []answer{again, r.hook("github", body, headers)} {
			require.Equal(t, contracts.ResultDuplicate, a.result())
			require.Equal(t, first.RunID, a.RunID)
		}

		headers = standardSigned("msg_1", `{}`)
		first = r.hook("standard", `{}`, headers)
		require.Equal(t, contracts.ResultAccepted, first.result())
		require.Equal(t, "msg_1", first.IdempotencyKey)
		require.Equal(t, contracts.ResultDuplicate, r.hook("standard", `{}`, headers).result())
		require.Equal(t, contracts.ResultDuplicate, r.hook("standard", `{}`, standardSigned("msg_1", `{}`)).result(),
			"another attempt is signed anew")
		headers.Set("Webhook-Id", "msg_2")
		refused(r, contracts.CodeBadSignature, 401, func() answer { return r.hook("standard", `{}`, headers) })
		require.Equal(t, contracts.CodePayloadMismatch,
			r.hook("standard", `{"b":1}`, standardSigned("msg_1", `{"b":1}`)).result())
	})

	t.Run("ASignatureThatIsMissingRepeatedOrNoneIsRefused", func(t *testing.T) {
		r := shared.as(t)
		body := oddBody("none")
		good := githubSigned(newSecret, body)["X-Hub-Signature-256"][0]
		for _, values := range [][]string{nil, {""}, {good, good}, {"x", good}, {good + "," + good}, {"sha1=00"},
			{strings.TrimPrefix(good, "sha256=")}} {
			refused(r, contracts.CodeBadSignature, 401, func() answer {
				return r.hook("github", body, http.Header{"X-Hub-Signature-256": values})
			})
		}
	})

	t.Run("SizeAndTypeAreLookedAtBeforeTheSignature", func(t *testing.T) {
		r := shared.as(t)
		body := oddBody("large")
		zipped := githubSigned(newSecret, body)
		zipped.Set("Content-Encoding", "gzip")
		refused(r, contracts.CodeUnsupportedMediaType, 415, func() answer { return r.hook("github", body, zipped) })

		// 10 MB are announced, and the answer comes while hardly any of it was sent.
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		refused(r, contracts.CodeTooLarge, 413, func() answer {
			_, err = fmt.Fprintf(conn, "POST /v1/hooks/demo/github HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=00\r\n"+
				"Content-Length: 10000000\r\n\r\n%s", strings.Repeat("x", 20_001))
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer response.Body.Close()
			a := answer{status: response.StatusCode}
			a.problem.Status, a.problem.Code = response.StatusCode, contracts.CodeTooLarge
			return a
		})
	})

	t.Run("NothingOfABodyIsBelievedBeforeItsSignature", func(t *testing.T) {
		r := shared.as(t)
		for _, body := range []string{"", "hello", `{"a":1,"a":2}`, `{}`} {
			refused(r, contracts.CodeBadSignature, 401, func() answer {
				return r.hook("github", body, githubSigned("demo_secret_that_never_was", body))
			})
		}
		refused(r, contracts.CodeMalformed, 400, func() answer {
			return r.hook("github", "hello", githubSigned(newSecret, "hello"))
		})
	})

	t.Run("AStrangerIsToldTheSameOfWhatThereIsNot", func(t *testing.T) {
		r := shared.as(t)
		before := r.stored()
		problems := map[string]bool{}
		for _, path := range []string{"nobody/github", "demo/nobody", "demo/drafts", "demo/inline", "DEMO/github"} {
			for _, header := range []http.Header{{"Authorization": nil}, githubSigned(newSecret, `{}`), keyed("k")} {
				a := r.send(call{path: "/v1/hooks/" + path, header: header, body: `{}`})
				require.Equal(t, contracts.CodeUnknownSource, a.result(), path)
				require.Equal(t, http.StatusNotFound, a.status)
				problems[asJSON(r.world, a.problem)] = true
			}
		}
		require.Len(t, problems, 1)
		require.Equal(t, before, r.stored())
		require.EqualValues(t, 15, r.counted("holdpoint_intake_answers_total", map[string]string{"tenant": "",
			"verb": "hook", "result": contracts.CodeUnknownSource}), "names that strangers make up are not counted apart")
	})
}

// A stranger's requests count against nobody's rate.
func TestOnlySignedDeliveriesUseUpATenantsRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config = configured(t, sources+signedSources)
	for _, tenant := range w.config.Tenants {
		tenant.RateLimit = &config.RateLimit{PerSecond: 1, Burst: 1}
	}
	r := w.start()
	body := oddBody("rate")
	good := githubSigned(newSecret, body)
	for range 3 {
		require.Equal(t, contracts.CodeBadSignature, r.hook("github", body+" ", good).result())
	}
	require.Equal(t, contracts.ResultAccepted, r.hook("github", body, good).result())
	results := map[string]bool{}
	for range 20 {
		results[r.hook("github", body, good).result()] = true
	}
	require.True(t, results[contracts.CodeTooManyRequests])
}

// An API key says who sends; it does not stand in for the signature.
func TestASignedSourceWantsItsSignatureOnEveryDoor(t *testing.T) {
	t.Parallel()
	r := signed(t)
	body := oddBody("doors")
	good := githubSigned(newSecret, body)
	before := r.stored()

	for _, path := range []string{"/v1/sources/github/events", "/v1/sources/github/claims"} {
		a := r.send(call{path: path, header: keyed("k"), body: body})
		require.Equal(t, contracts.CodeBadSignature, a.result(), path)
		require.Equal(t, http.StatusUnauthorized, a.status)
	}
	require.Equal(t, contracts.CodeBadSignature, r.request(demo, "claim.github", keyed("k"), body).result())
	require.Equal(t, before, r.stored())

	parked := next(r.world, r.publish(message{source: "github", header: keyed("k"), body: body}))
	require.Equal(t, contracts.CodeBadSignature, parked.result())
	require.Regexp(t, `^bad_signature: .*signature_missing`, one[string](r.world, "select reason from parked_messages"))
	told := told[*contracts.RunRefused](r.world, "holdpoint.events.demo.run.refused")
	require.Len(t, told, 1)
	require.Equal(t, contracts.CodeBadSignature, told[0].Reason)
	require.Zero(t, r.count("select count(*) from runs"))

	first := next(r.world, r.publish(message{source: "github", body: body,
		header: map[string][]string{"x-hub-signature-256": good["X-Hub-Signature-256"]}}))
	require.Equal(t, contracts.ResultAccepted, first.result())
	for _, a := range []answer{r.send(call{path: "/v1/sources/github/events", header: good, body: body}),
		r.hook("github", body, good)} {
		require.Equal(t, contracts.ResultDuplicate, a.result())
		require.Equal(t, first.RunID, a.RunID)
	}
	require.NotNil(t, r.request(demo, "claim.github", good, body).Lease)
	r.awaitSettled(demo)
}

func TestIntakeDoesNotStartWithAnEmptySecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config = configured(t, sources+strings.Replace(signedSources, "{value: "+oldSecret+"}",
		"{env: HOLDPOINT_TEST_SECRET_THAT_IS_NOT_SET}", 1))
	_, pool, err := w.make(w.db.URL)
	pool.Close()
	require.ErrorContains(t, err, "source github of tenant")
	require.ErrorContains(t, err, "signature: the signing secret in environment variable "+
		"HOLDPOINT_TEST_SECRET_THAT_IS_NOT_SET: is empty")
}
