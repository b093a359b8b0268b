package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// The parts of TestTheOpenAPIDocumentIsTrue that are about programs which hand in much, which sign, and which leave the drafting
// to a model.

func (d *documented) manyAndFound(t *testing.T) {
	d.do(t, 200, call{method: "POST", path: "/v1/sources/{source}/batches", values: []string{"agent-drafts"}, token: d.r.APIKey,
		body: `{"events":[{"headers":{"Idempotency-Key":"m-1"},"body":{"task_id":"case-9"}},{"body":{"task_id":"case-9"}}]}`})
	sources := decoded[contracts.SourceList](t, d.do(t, 200, call{method: "GET", path: "/v1/sources", token: d.r.APIKey}))
	require.NotEmpty(t, sources.Sources)
	require.NotEmpty(t, sources.ActionTypes)
	search := call{method: "GET", path: "/v1/runs/search", query: "?correlation_id=case-9", token: d.r.APIKey}
	list := decoded[contracts.RunList](t, d.do(t, 200, search))
	require.Len(t, list.Runs, 1)
	search.query = "?sort=up"
	d.do(t, 400, search)
	work := call{method: "POST", path: "/v1/sources/{source}/work", values: []string{"agent-drafts"}, token: d.r.APIKey,
		body: `{"max":100}`}
	given := decoded[contracts.Work](t, d.do(t, 200, work))
	require.NotEmpty(t, given.Work)
	work.body, work.invalid = `{"max":0}`, true
	d.do(t, 422, work)
}

const demoGitHubSecret = "demo_github_secret_known_to_all"

func (d *documented) signed(t *testing.T) {
	const body = `{"action":"opened","issue":{"number":7,"title":"It leaks","html_url":"https://github.example/a/b/issues/7",` +
		`"updated_at":"2026-11-30T03:00:00Z"},"repository":{"full_name":"a/b"}}`
	hook := call{method: "POST", path: "/v1/hooks/{tenant}/{source}", values: []string{"demo", "github"}, body: body,
		header: map[string]string{"X-Hub-Signature-256": "sha256=" + signatureOf(demoGitHubSecret, body)}}
	first := decoded[contracts.Answer](t, d.do(t, 202, hook))
	require.Equal(t, contracts.ResultAccepted, first.Result)
	require.Equal(t, contracts.ResultDuplicate, decoded[contracts.Answer](t, d.do(t, 202, hook)).Result)
	hook.header["X-Hub-Signature-256"] = "sha256=" + signatureOf("another secret that is long", body)
	d.do(t, 401, hook)
	hook.values = []string{"demo", "crm-enrichment"}
	d.do(t, 404, hook)
}

// told has a provider tell what became of a write; in up the sandbox does so by itself, of the refund that was approved before.
func (d *documented) told(t *testing.T) {
	const body = `{"data":{"id":"re_1","reference":"of somebody else","status":"processing"}}`
	signer, err := standardwebhooks.NewWebhook("whsec_demoSandboxPaymentsKnownToAll000")
	require.NoError(t, err)
	post := func(id string, at time.Time) call {
		signature, err := signer.Sign(id, at, []byte(body))
		require.NoError(t, err)
		return call{method: "POST", path: "/v1/connectors/{tenant}/{connector}/webhook", values: []string{"demo", "sandbox-payments"},
			body: body, header: map[string]string{"Webhook-Id": id, "Webhook-Timestamp": strconv.FormatInt(at.Unix(), 10),
				"Webhook-Signature": signature}}
	}
	for range 2 {
		d.do(t, 204, post("evt-1", time.Now()))
	}
	d.do(t, 401, post("evt-2", time.Now().Add(-time.Hour)))
	elsewhere := post("evt-2", time.Now())
	elsewhere.values = []string{"demo", "sandbox-crm"}
	d.do(t, 404, elsewhere)
	require.Eventually(t, func() bool {
		explain := run(t, []string{"HOLDPOINT_DATABASE_URL=" + d.r.DatabaseURL}, "explain", "r-1", "--tenant", "demo")
		return explain.wait(t) == 0 && strings.Contains(explain.out.String(), "_succeeded: succeeded   ignored: it is completed already")
	}, patience, 200*time.Millisecond)
}

func signatureOf(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// drafted is M1c, end to end: the event has no proposal, a model drafts it, and policy decides it like anybody's.
func (d *documented) drafted(t *testing.T) {
	note := func(id, text string) contracts.Answer {
		t.Helper()
		return decoded[contracts.Answer](t, d.do(t, 200, call{method: "POST", path: eventsPath, values: []string{"contact-notes"},
			token: d.r.APIKey, header: map[string]string{"Prefer": "wait=40"},
			body: `{"note_id":"` + id + `","note":"` + text + `","contact":{"id":"c-1003","version":"1","read_at":"` +
				time.Now().UTC().Format(time.RFC3339) + `"}}`}))
	}
	done := note("n-1", "She called from +351 21 000 00 00, and has moved to Faro.")
	require.Equal(t, contracts.OutcomeExecuted, done.Outcome)
	require.NotEmpty(t, done.Effects[0].ExternalID)
	nothing := note("n-2", "She liked the cake.")
	require.Equal(t, contracts.OutcomeInvalid, nothing.Outcome, "an answer that fits no schema is repaired once, and ends the run")
}
