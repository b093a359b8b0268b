package intake_test

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/deploy"
)

// exampleStripe and exampleGitHub are signed as their senders do, with the example's literal secrets.
func exampleStripe(body string) http.Header {
	now := time.Now().Unix()
	sum := mac("whsec_demo_stripe_secret_known_to_all", fmt.Sprintf("%d.%s", now, body))
	return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%x", now, sum)}}
}

func exampleGitHub(body string) http.Header {
	return githubSigned("demo_github_secret_known_to_all", body)
}

func exampleN8N(body string) http.Header {
	now := fmt.Sprint(time.Now().Unix())
	sum := hex.EncodeToString(mac("demo_n8n_secret_known_to_all", now+"."+body))
	return http.Header{"X-Timestamp": {now}, "X-Signature": {"sha256=" + sum}}
}

func TestExampleSources(t *testing.T) {
	t.Parallel()
	text, err := fs.ReadFile(deploy.Example(), "tenants/demo/sources.yaml")
	require.NoError(t, err)
	w := newWorld(t)
	w.config = configured(t, string(text))
	shared := w.start()

	const (
		n8n = `{"change_id":"crm-change-1","execution_id":"17","proposal":{"action_type":"crm.contact.update",` +
			`"target":{"system":"crm","record_id":"c-1"},"proposed_change":{"fields":{"city":"Lisbon"}},` +
			`"current_version":"7","workflow_version":"crm-enrichment@3"}}`
		stripe = `{"id":"evt_1","object":"event","type":"charge.dispute.created","pending_webhooks":2,` +
			`"data":{"object":{"id":"dp_1","amount":1000}}}`
		github = `{"action":"opened","issue":{"number":7,"title":"The export is empty","html_url":"https://x/7",` +
			`"updated_at":"2026-11-30T03:23:32Z"},"repository":{"full_name":"o/r"}}`
		lead = `{"form":"demo-request","submission_id":"s-1","email":"lee@example.test","page":"/a"}`
		old  = `{"form":"contact","email":"lee@example.test","page":"/a"}`
		desk = `{"ticket":{"id":"42","revision":1,"subject":"Charged twice","updated_at":"t1","views":1},"sent":1}`
		ce   = `{"specversion":"1.0","type":"x","source":"/shop","id":"1","data":{"order":1}}`
	)
	binary := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"x"}, "Ce-Source": {"/shop"}, "Ce-Id": {"2"}}
	for _, tc := range []struct {
		name, source, body string
		sign               func(string) http.Header // nil posts with an API key
		header             http.Header
		key                string
		old, same, other   string // a part of the body, what may stand there in a redelivery, and what may not
	}{
		{"N8NWhoseWorkflowWasRetried", "n8n", n8n, exampleN8N, nil, "crm-change-1", `"17"`, `"18"`, `"18","at":1`},
		{"AnEventOfStripeOnItsSecondAttempt", "stripe-events", stripe, exampleStripe, nil, "evt_1",
			`"pending_webhooks":2`, `"pending_webhooks":1`, `"livemode":true`},
		{"AnIssueOfGitHubThatIsRedelivered", "github", github, exampleGitHub, nil,
			"github:o/r#7:opened:2026-11-30T03:23:32Z", "{", " {", `{"extra":1,`},
		{"ALabelOfAnIssue", "github", strings.Replace(github, `"opened"`, `"labeled","label":{"name":"bug"}`, 1),
			exampleGitHub, nil, "github:o/r#7:labeled:2026-11-30T03:23:32Z:bug", "{", " {", `{"extra":1,`},
		{"AnotherLabelInTheSameSecond", "github", strings.Replace(github, `"opened"`, `"labeled","label":{"name":"p1"}`, 1),
			exampleGitHub, nil, "github:o/r#7:labeled:2026-11-30T03:23:32Z:p1", "{", " {", `{"extra":1,`},
		{"ALeadSentTwice", "lead-form", lead, nil, nil, "lead:demo-request:s-1", `"/a"`, `"/b"`, `"/b","name":"Lee"`},
		{"ALeadOfAnOlderForm", "lead-form", old, nil, nil, "lead:contact:lee@example.test", `"/a"`, `"/b"`,
			`"/b","name":"Lee"`},
		{"ATicketThatWasLookedAt", "support-tickets", desk, nil, nil, "ticket:42:1", `"updated_at":"t1","views":1},"sent":1`,
			`"updated_at":"t2","views":2},"sent":2`, `"text":"again"}`},
		{"AStructuredCloudEvent", "cloudevents", ce, nil, nil, `["/shop","1"]`, `{"order":1}`, `{"order":1.0}`,
			`{"order":2}`},
		{"ABinaryCloudEvent", "cloudevents", `{"order":1}`, nil, binary, `["/shop","2"]`, "1", "1.0", "2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := shared.as(t)
			send := func(body string) answer {
				if tc.sign != nil {
					return r.hook(tc.source, body, tc.sign(body))
				}
				return r.send(call{path: "/v1/sources/" + tc.source + "/events", header: tc.header, body: body})
			}
			require.Equal(t, 1, strings.Count(tc.body[:strings.Index(tc.body, tc.old)+len(tc.old)], tc.old))
			first := send(tc.body)
			require.Equal(t, contracts.ResultAccepted, first.result(), first.problem)
			require.Equal(t, tc.key, first.IdempotencyKey)
			again := send(strings.Replace(tc.body, tc.old, tc.same, 1))
			require.Equal(t, contracts.ResultDuplicate, again.result(), again.problem)
			require.Equal(t, first.RunID, again.RunID)
			other := send(strings.Replace(tc.body, tc.old, tc.other, 1))
			require.Equal(t, contracts.CodePayloadMismatch, other.result(), other.problem)
		})
	}
}
