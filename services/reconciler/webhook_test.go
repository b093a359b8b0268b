package reconciler

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// Where the example's payments provider posts, and with what it signs.
const (
	hookPath    = "/v1/connectors/demo/" + servicetest.Payments + "/webhook"
	hookSecret  = "whsec_demoSandboxPaymentsKnownToAll000"
	otherSecret = "whsec_demoSandboxPaymentsKnownToAll001"
)

// delivery is one post of a provider; what is empty is as it should be.
type delivery struct {
	path, id, body, secret, contentType string
	age                                 time.Duration
	change                              func(*http.Request)
}

// post makes the delivery and returns the answer's status and problem code.
func (b *bench) post(d delivery) (status int, code string) {
	b.t.Helper()
	signer, err := standardwebhooks.NewWebhook(or(d.secret, hookSecret))
	require.NoError(b.t, err)
	at := time.Now().Add(-d.age)
	signature, err := signer.Sign(d.id, at, []byte(d.body))
	require.NoError(b.t, err)
	request := httptest.NewRequestWithContext(b.t.Context(), http.MethodPost, or(d.path, hookPath), strings.NewReader(d.body))
	request.Header.Set("Content-Type", or(d.contentType, "application/json"))
	request.Header.Set("Webhook-Id", d.id)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	request.Header.Set("Webhook-Signature", signature)
	if d.change != nil {
		d.change(request)
	}
	answer := httptest.NewRecorder()
	b.routes().ServeHTTP(answer, request)
	if answer.Code == http.StatusNoContent {
		require.Empty(b.t, answer.Body.String())
		return answer.Code, ""
	}
	require.Equal(b.t, contracts.ProblemContentType, answer.Header().Get("Content-Type"))
	_, code, _ = strings.Cut(answer.Body.String(), `"code":"`)
	code, _, _ = strings.Cut(code, `"`)
	return answer.Code, code
}

func or(given, usual string) string {
	if given == "" {
		return usual
	}
	return given
}

func (b *bench) events() int {
	b.t.Helper()
	return b.Count(`select count(*) from provider_events`)
}

// TestWebhooksRefused: nothing is stored of what is not signed, not of now, or not to be read (R4, REC-04).
func TestWebhooksRefused(t *testing.T) {
	t.Parallel()
	world := setup(t)
	const body = `{"id":"evt_1","data":{"status":"succeeded","id":"re_1"}}`
	for name, c := range map[string]struct {
		delivery
		status int
		code   string
	}{
		"AForgedSignature": {delivery{secret: otherSecret}, 401, contracts.CodeBadSignature},
		"AStaleTimestamp":  {delivery{age: 5*time.Minute + 2*time.Second}, 401, contracts.CodeStaleSignature},
		"ATimestampAhead":  {delivery{age: -6 * time.Minute}, 401, contracts.CodeStaleSignature},
		"AnotherEventsID":  {delivery{change: func(r *http.Request) { r.Header.Set("Webhook-Id", "evt_2") }}, 401, contracts.CodeBadSignature},
		"NoSignature":      {delivery{change: func(r *http.Request) { r.Header.Del("Webhook-Signature") }}, 401, contracts.CodeBadSignature},
		"AByteChanged":     {delivery{change: changed(body)}, 401, contracts.CodeBadSignature},
		"NoJSON":           {delivery{body: `{"id":`}, 400, contracts.CodeMalformed},
		"AMemberTwice":     {delivery{body: `{"id":"a","id":"b"}`}, 400, contracts.CodeMalformed},
		"TooLarge":         {delivery{body: `"` + strings.Repeat("a", maxHookBytes) + `"`}, 413, contracts.CodeTooLarge},
		"AForm":            {delivery{contentType: "application/x-www-form-urlencoded"}, 415, contracts.CodeUnsupportedMediaType},
		"Compressed": {delivery{change: func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }}, 415,
			contracts.CodeUnsupportedMediaType},
		"AnUnknownTenant":   {delivery{path: "/v1/connectors/nobody/sandbox-payments/webhook"}, 404, contracts.CodeUnknownConnector},
		"AConnectorWithout": {delivery{path: "/v1/connectors/demo/sandbox-crm/webhook"}, 404, contracts.CodeUnknownConnector},
		"AnotherPath":       {delivery{path: "/v1/hooks/demo/sandbox-payments"}, 404, contracts.CodeNotFound},
		"AnotherMethod":     {delivery{change: func(r *http.Request) { r.Method = http.MethodGet }}, 405, contracts.CodeMethodNotAllowed},
		"AnIDTooLong":       {delivery{id: strings.Repeat("e", maxHookText+1)}, 422, contracts.CodeSchemaInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			b := world.forCase(t)
			c.body, c.id = or(c.body, body), or(c.id, "evt_1")
			status, code := b.post(c.delivery)
			require.Equal(t, c.status, status)
			require.Equal(t, c.code, code)
			require.Zero(t, b.events())
		})
	}
}

func changed(body string) func(*http.Request) {
	return func(r *http.Request) {
		*r = *httptest.NewRequest(http.MethodPost, hookPath, strings.NewReader(strings.Replace(body, "re_1", "re_2", 1))).WithContext(r.Context())
		r.Header.Set("Content-Type", "application/json")
	}
}

// TestWebhooksTaken: an event is stored once under its id, as it was signed.
func TestWebhooksTaken(t *testing.T) {
	t.Parallel()

	t.Run("OnceUnderItsIDHoweverOften", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		// Spacing and escapes that no encoder would write again: the signature is over the bytes (REC-04).
		body := "{ \"data\" : {\"status\":\"succeeded\",\n\"id\":\"re\\u005f1\", \"n\":1.0}}"
		for range 3 {
			status, _ := b.post(delivery{id: "evt_1", body: body})
			require.Equal(t, http.StatusNoContent, status)
		}
		require.Equal(t, 1, b.events())
		require.Equal(t, body+" re_1 succeeded succeeded waiting", b.Text(`
select concat_ws(' ', convert_from(body, 'UTF8'), external_id, status_text, verdict, state) from provider_events`))
	})

	t.Run("AnotherBodyUnderItsIDChangesNothingAndIsTold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.post(delivery{id: "evt_1", body: `{"data":{"status":"succeeded"}}`})
		status, _ := b.post(delivery{id: "evt_1", body: `{"data":{"status":"failed"}}`})
		require.Equal(t, http.StatusNoContent, status)
		require.Equal(t, "succeeded", b.Text(`select verdict from provider_events`))
		require.Len(t, b.Logs.Errors(), 1)
		require.Contains(t, b.Logs.Errors()[0], "came again with another body")
	})

	t.Run("FiftyAtOnceAreOne", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		statuses := make(chan int, 50)
		for range cap(statuses) {
			go func() {
				status, _ := b.post(delivery{id: "evt_1", body: `{"data":{"status":"succeeded"}}`})
				statuses <- status
			}()
		}
		for range cap(statuses) {
			require.Equal(t, http.StatusNoContent, <-statuses)
		}
		require.Equal(t, 1, b.events())
	})

	t.Run("EitherOfTwoSecretsWhileTheyAreChanged", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *config.Tenant) {
			s := &servicetest.Connector(c, servicetest.Payments).Webhook.Signature
			s.Secrets = append([]signature.Secret{{Value: otherSecret}}, s.Secrets...)
		})
		for i, secret := range []string{hookSecret, otherSecret} {
			status, _ := b.post(delivery{id: "evt_" + strconv.Itoa(i), body: `{}`, secret: secret})
			require.Equal(t, http.StatusNoContent, status)
		}
	})

	t.Run("AnIDInTheBodyWhereTheSchemeSignsNone", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *config.Tenant) {
			servicetest.Connector(c, servicetest.Payments).Webhook.EventID = "/id"
		})
		status, _ := b.post(delivery{id: "of the header", body: `{"id":7}`})
		require.Equal(t, http.StatusNoContent, status)
		require.Equal(t, "7 pending", b.Text(`select provider_event_id || ' ' || verdict from provider_events`))
		status, code := b.post(delivery{id: "of the header", body: `{"id":{}}`})
		require.Equal(t, []any{http.StatusUnprocessableEntity, contracts.CodeSchemaInvalid}, []any{status, code})
	})

	t.Run("WithoutPostgresTheProviderIsToldToComeBack", func(t *testing.T) { // REC-07
		t.Parallel()
		b := setup(t)
		b.env.Pool.Close()
		status, _ := b.post(delivery{id: "evt_1", body: `{}`})
		require.GreaterOrEqual(t, status, http.StatusInternalServerError)
		require.Zero(t, b.events())
	})
}
