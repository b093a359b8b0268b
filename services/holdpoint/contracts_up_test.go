package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// documented calls a running Holdpoint and holds every request and answer against the OpenAPI document.
type documented struct {
	r        ready
	doc      map[string]any
	compiler *jsonschema.Compiler
	reached  map[string]bool // operations that have succeeded
}

// call is one request. path is as the document has it, with the values of its parameters in order.
type call struct {
	method, path string
	values       []string
	query, token string
	header       map[string]string
	body         string
	invalid      bool // the body is one that the document refuses
}

func newDocumented(t *testing.T, r ready) *documented {
	t.Helper()
	printed := run(t, nil, "contracts", contracts.OpenAPI)
	require.Zero(t, printed.wait(t), printed.err)
	text, err := yaml.YAMLToJSON(printed.out.Bytes())
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	d := &documented{r: r, doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), reached: map[string]bool{}}
	d.compiler.AssertFormat()
	require.NoError(t, d.compiler.AddResource("mem:///openapi", doc))
	return d
}

// at goes down from an object with its JSON pointer, following references.
func (d *documented) at(t *testing.T, pointer string, names ...string) (string, map[string]any) {
	t.Helper()
	var here any = d.doc
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if name != "" {
			here = here.(map[string]any)[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		}
	}
	object, ok := here.(map[string]any)
	require.True(t, ok, "the document has no %s", pointer)
	if ref, ok := object["$ref"].(string); ok {
		return d.at(t, strings.TrimPrefix(ref, "#"), names...)
	}
	if len(names) == 0 {
		return pointer, object
	}
	return d.at(t, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(names[0]), names[1:]...)
}

func (d *documented) fits(t *testing.T, media string, text string) error {
	t.Helper()
	pointer := strings.NewReplacer("{", "%7B", "}", "%7D").Replace(media + "/schema")
	schema, err := d.compiler.Compile("mem:///openapi#" + pointer)
	require.NoError(t, err)
	body, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	return schema.Validate(body)
}

// do makes a call, checks it and its answer, and returns the answer's body.
func (d *documented) do(t *testing.T, status int, c call) string {
	t.Helper()
	what := c.method + " " + c.path
	operation, _ := d.at(t, "/paths", c.path, strings.ToLower(c.method))
	if c.body != "" {
		media, _ := d.at(t, operation, "requestBody", "content", "application/json")
		require.Equal(t, c.invalid, d.fits(t, media, c.body) != nil, "%s %s", what, c.body)
	}
	answer, body := d.send(t, c)
	require.Equal(t, status, answer.StatusCode, "%s: %s", what, body)
	response, _ := d.at(t, operation, "responses", strconv.Itoa(status))
	if status != http.StatusNoContent {
		media, _ := d.at(t, response, "content", answer.Header.Get("Content-Type"))
		require.NoError(t, d.fits(t, media, body), "%s: %s", what, body)
	}
	for _, name := range []string{"Location", "Retry-After", "WWW-Authenticate", "Cache-Control"} {
		if answer.Header.Get(name) != "" {
			d.at(t, response, "headers", name)
		}
	}
	if status < 300 {
		d.reached[what] = true
	}
	return body
}

func (d *documented) send(t *testing.T, c call) (*http.Response, string) {
	t.Helper()
	path := c.path
	for _, value := range c.values {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + value + after
	}
	base := d.r.IntakeURL
	if strings.HasPrefix(path, "/v1/approvals") || strings.HasPrefix(path, "/v1/unattended") || strings.HasPrefix(path, "/v1/desk") ||
		strings.HasPrefix(path, "/v1/tenants") {
		base = d.r.ApprovalURL
	}
	if strings.HasPrefix(path, "/v1/connectors") {
		base = d.r.WebhookURL
	}
	request, err := http.NewRequestWithContext(t.Context(), c.method, base+path+c.query, strings.NewReader(c.body))
	require.NoError(t, err)
	if c.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

// token is a person's own access token.
func (d *documented) token(t *testing.T, login string) string {
	t.Helper()
	tokens, err := demoidp.SignIn(t.Context(), demoidp.SignInConfig{Issuer: d.r.OIDCIssuer, ClientID: "holdpoint-cli",
		RedirectURI: "http://127.0.0.1/callback", Login: login, Password: demoidp.DemoPassword})
	require.NoError(t, err)
	return tokens.AccessToken
}

func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

func marshalled(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

const (
	eventsPath = "/v1/sources/{source}/events"
	claimsPath = "/v1/sources/{source}/claims"
	cardPath   = "/v1/approvals/{approval}"
)

// TestTheOpenAPIDocumentIsTrue goes through every operation of a running Holdpoint.
func TestTheOpenAPIDocumentIsTrue(t *testing.T) {
	t.Parallel()
	_, r := startUp(t, passableDir(t))
	d := newDocumented(t, r)
	t.Run("Events", d.events)
	t.Run("Work", d.work)
	t.Run("ManyAtOnceAndFound", d.manyAndFound)
	t.Run("Signed", d.signed)
	t.Run("DraftedByAModel", d.drafted)
	t.Run("Approvals", d.approvals)
	t.Run("ApprovedAlone", d.alone)
	t.Run("Unattended", d.unattended)
	t.Run("ToldByTheProvider", d.told)
	t.Run("Desk", d.desk)
	t.Run("Switches", d.switches)
	for path, item := range d.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "servers" {
				require.True(t, d.reached[strings.ToUpper(method)+" "+path], "%s %s was not called", method, path)
			}
		}
	}
}

func proposalOf(action, system, record, change string) string {
	return `{"action_type":"` + action + `","target":{"system":"` + system + `","record_id":"` + record +
		`"},"proposed_change":` + change +
		`,"current_version":"1","evidence":[{"source":"` + system + `","version":"1","observed_at":"` +
		time.Now().UTC().Format(time.RFC3339) + `"}],"workflow_version":"crm-enrichment@3"}`
}

func (d *documented) events(t *testing.T) {
	key := map[string]string{"Idempotency-Key": "k-1"}
	proposal := proposalOf("crm.contact.update", "crm", "c-1001", `{"fields":{"city":"Lisbon"}}`)
	event := `{"event_id":"e-1","proposal":` + proposal + `}`
	post := call{method: "POST", path: eventsPath, values: []string{"crm-enrichment"}, token: d.r.APIKey, header: key,
		body: event}
	changed := func(change func(*call)) call {
		c := post
		change(&c)
		return c
	}
	first := decoded[contracts.Answer](t, d.do(t, 202, post))
	find := call{method: "GET", path: "/v1/runs", query: "?key=k-1", token: d.r.APIKey}
	require.Eventually(t, func() bool {
		return decoded[contracts.Answer](t, d.do(t, 200, find)).State == contracts.StateCompleted
	}, patience, 50*time.Millisecond)
	require.Equal(t, contracts.ResultDuplicateWithResult, decoded[contracts.Answer](t, d.do(t, 200, post)).Result)
	d.do(t, 400, changed(func(c *call) { c.header = nil }))
	d.do(t, 401, changed(func(c *call) { c.token = "" }))
	d.do(t, 404, changed(func(c *call) { c.values = []string{"nobody"} }))
	d.do(t, 413, changed(func(c *call) { c.body = `{"x":"` + strings.Repeat("x", 1<<20) + `"}` }))
	d.do(t, 415, changed(func(c *call) { c.header = map[string]string{"Content-Type": "text/plain"} }))
	d.do(t, 422, changed(func(c *call) { c.body = `{}` }))
	d.do(t, 422, changed(func(c *call) { c.body = strings.Replace(event, "Lisbon", "Porto", 1) }))
	d.do(t, 403, changed(func(c *call) { c.path = claimsPath }))
	d.do(t, 200, call{method: "GET", path: "/v1/runs/{run}", values: []string{first.RunID}, token: d.r.APIKey})
	d.do(t, 404, call{method: "GET", path: "/v1/runs/{run}", values: []string{uuid.NewString()}, token: d.r.APIKey})
	d.do(t, 400, call{method: "GET", path: "/v1/runs", token: d.r.APIKey})
}

func (d *documented) work(t *testing.T) {
	claim := func(key string) call {
		return call{method: "POST", path: claimsPath, values: []string{"agent-drafts"}, token: d.r.APIKey,
			header: map[string]string{"Idempotency-Key": key}, body: `{"task_id":"t-1"}`}
	}
	under := func(a contracts.Answer, what string, body any) call {
		return call{method: "POST", path: "/v1/runs/{run}/" + what, values: []string{a.RunID}, token: d.r.APIKey,
			body: marshalled(t, body)}
	}
	mine := decoded[contracts.Answer](t, d.do(t, 202, claim("w-1")))
	require.Nil(t, decoded[contracts.Answer](t, d.do(t, 202, claim("w-1"))).Lease, "another execution has it")
	renewal := contracts.Renewal{Owner: mine.Lease.Owner, Version: mine.Lease.Version}
	renewed := decoded[contracts.Answer](t, d.do(t, 200, under(mine, "renewal", renewal)))
	proposal := proposalOf("crm.contact.update", "crm", "c-1002", `{"fields":{"city":"Faro"}}`)
	submission := contracts.Submission{Owner: mine.Lease.Owner, Version: renewed.Lease.Version,
		Proposal: decoded[contracts.Proposal](t, proposal)}
	d.do(t, 202, under(mine, "proposal", submission))
	d.do(t, 409, under(mine, "renewal", renewal))
	renewal.RunID = mine.RunID
	named := under(mine, "renewal", renewal)
	named.invalid = true
	d.do(t, 422, named)
	malformed := under(mine, "failure", contracts.Failure{Owner: mine.Lease.Owner, Version: 1, Reason: "x"})
	malformed.body, malformed.invalid = strings.Replace(malformed.body, `"version":1`, `"version":"1"`, 1), true
	d.do(t, 422, malformed)

	other := decoded[contracts.Answer](t, d.do(t, 202, claim("w-2")))
	failure := contracts.Failure{Owner: other.Lease.Owner, Version: other.Lease.Version, Retryable: true,
		Reason: "no model"}
	d.do(t, 200, under(other, "failure", failure))
	other.RunID = uuid.NewString()
	d.do(t, 404, under(other, "failure", failure))
}

// waiting is the card of a refund that waits for a person.
func (d *documented) waiting(t *testing.T, key, token string) contracts.ApprovalCard {
	t.Helper()
	proposal := proposalOf("payment.refund", "payments", "p-1", `{"payment_id":"p-1","amount":250.00,"currency":"EUR"}`)
	d.do(t, 202, call{method: "POST", path: eventsPath, values: []string{"support-refunds"}, token: d.r.APIKey,
		header: map[string]string{"Idempotency-Key": key},
		body:   `{"ticket_id":"t-1","requested_by":"rita@example.test","proposal":` + proposal + `}`})
	return d.asked(t, key, token)
}

// asked waits until people are asked about the run of a key.
func (d *documented) asked(t *testing.T, key, token string) contracts.ApprovalCard {
	t.Helper()
	var list contracts.ApprovalList
	require.Eventually(t, func() bool {
		list = decoded[contracts.ApprovalList](t, d.do(t, 200, call{method: "GET", path: "/v1/approvals",
			query: "?state=pending&key=" + key, token: token}))
		return len(list.Approvals) == 1
	}, patience, 50*time.Millisecond)
	return decoded[contracts.ApprovalCard](t, d.do(t, 200, call{method: "GET", path: cardPath,
		values: []string{list.Approvals[0].ApprovalID}, token: token}))
}

func (d *documented) approvals(t *testing.T) {
	nora, rita, carl := d.token(t, "nora"), d.token(t, "rita"), d.token(t, "carl")
	card := d.waiting(t, "r-1", nora)
	decide := func(token string, body any) call {
		return call{method: "POST", path: cardPath + "/decision", values: []string{card.ApprovalID}, token: token,
			body: marshalled(t, body)}
	}
	good := contracts.DecisionRequest{Decision: contracts.DecisionApprove, Reason: "charged twice",
		IntentHash: card.IntentHash}
	list := call{method: "GET", path: "/v1/approvals"}
	d.do(t, 401, list)
	d.do(t, 401, decide(d.r.APIKey, good))
	d.do(t, 404, decide(carl, good))
	d.do(t, 403, decide(rita, good))
	unknown := decide(nora, good)
	unknown.body, unknown.invalid = strings.Replace(unknown.body, `"reason"`, `"as":"sam","reason"`, 1), true
	d.do(t, 400, unknown)
	shown := good
	shown.IntentHash = "0b5f"
	short := decide(nora, shown)
	short.invalid = true
	d.do(t, 422, short)
	shown.IntentHash = strings.Repeat("0", 64)
	d.do(t, 409, decide(nora, shown))
	form := decide(nora, good)
	form.header = map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	d.do(t, 415, form)
	long := decide(nora, contracts.DecisionRequest{Reason: strings.Repeat("x", 64<<10)})
	long.invalid = true
	d.do(t, 413, long)
	answer := decoded[contracts.DecisionAnswer](t, d.do(t, 200, decide(nora, good)))
	require.Equal(t, "approved", answer.Result)
	d.do(t, 409, decide(nora, good))
	require.Eventually(t, func() bool {
		now := d.do(t, 200, call{method: "GET", path: cardPath, values: []string{card.ApprovalID}, token: nora})
		return decoded[contracts.ApprovalCard](t, now).ExecutionStatus == "executed"
	}, patience, 50*time.Millisecond)

	card = d.waiting(t, "r-3", nora)
	many := call{method: "POST", path: "/v1/approvals/decisions", token: nora, body: marshalled(t, contracts.DecisionBatch{
		Decisions: []contracts.BatchedDecision{
			{ApprovalID: card.ApprovalID, DecisionRequest: contracts.DecisionRequest{Decision: contracts.DecisionReject, Reason: "not ours",
				IntentHash: card.IntentHash}},
			{ApprovalID: uuid.NewString(), DecisionRequest: good}}})}
	results := decoded[contracts.DecisionResults](t, d.do(t, 200, many)).Results
	require.Equal(t, []int{200, 404}, []int{results[0].Status, results[1].Status})
	none := many
	none.body, none.invalid = `{"decisions":[]}`, true
	d.do(t, 422, none)

	card = d.waiting(t, "r-2", nora)
	withdraw := func(token, body string) call {
		return call{method: "POST", path: cardPath + "/withdrawal", values: []string{card.ApprovalID}, token: token,
			body: body}
	}
	d.do(t, 403, withdraw(nora, `{"reason":"not mine to withdraw"}`))
	d.do(t, 200, withdraw(rita, `{"reason":"refunded in the shop"}`))
	d.do(t, 409, withdraw(rita, `{"reason":"once more"}`))
}

// alone is a request that one person approves in an emergency, and what another one says of it (A16).
func (d *documented) alone(t *testing.T) {
	otto, dora := d.token(t, "otto"), d.token(t, "dora")
	d.do(t, 202, call{method: "POST", path: eventsPath, values: []string{"crm-enrichment"}, token: d.r.APIKey,
		header: map[string]string{"Idempotency-Key": "b-1"},
		body:   `{"event_id":"b-1","proposal":` + proposalOf("stock.reserve", "warehouse", "sku-1", `{"quantity":50}`) + `}`})
	card := d.asked(t, "b-1", otto)
	post := func(token, verb string, body any) call {
		return call{method: "POST", path: cardPath + verb, values: []string{card.ApprovalID}, token: token, body: marshalled(t, body)}
	}
	right := contracts.GlassJudgementRequest{Verdict: contracts.VerdictRight}
	d.do(t, 403, post(dora, "/judgement", right))
	broken := contracts.DecisionRequest{Decision: contracts.DecisionBreakGlass, Reason: "the line stands still", IntentHash: card.IntentHash}
	d.do(t, 403, post(dora, "/decision", broken))
	d.do(t, 200, post(otto, "/decision", broken))
	d.do(t, 403, post(otto, "/judgement", right))
	require.Equal(t, "dora", decoded[contracts.GlassJudgementAnswer](t, d.do(t, 200, post(dora, "/judgement", right))).ReviewerID)
}

// desk is an effect that its provider refuses our credential for, and what an operator makes of it (R6).
func (d *documented) desk(t *testing.T) {
	otto, carl := d.token(t, "otto"), d.token(t, "carl")
	operation := ledger.OperationID(ledger.RunID("demo", "d-1"), 1, 1)
	_, err := sandbox.NewClient(d.r.SandboxURL).Fault(t.Context(), sandbox.Rule{
		Match: sandbox.Match{Operation: sandbox.Update, Reference: operation}, Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 401}})
	require.NoError(t, err)
	d.do(t, 202, call{method: "POST", path: eventsPath, values: []string{"crm-enrichment"}, token: d.r.APIKey,
		header: map[string]string{"Idempotency-Key": "d-1"},
		body:   `{"event_id":"d-1","proposal":` + proposalOf("crm.contact.update", "crm", "c-1009", `{"fields":{"city":"Faro"}}`) + `}`})
	list := call{method: "GET", path: "/v1/desk", token: otto}
	d.do(t, 401, call{method: "GET", path: "/v1/desk"})
	require.Eventually(t, func() bool {
		items := decoded[contracts.DeskList](t, d.do(t, 200, list)).Items
		return slices.ContainsFunc(items, func(i contracts.DeskItem) bool { return i.OperationID == operation })
	}, patience, 50*time.Millisecond)
	one := call{method: "GET", path: "/v1/desk/{operation}", values: []string{operation}, token: otto}
	found := decoded[contracts.DeskCase](t, d.do(t, 200, one))
	require.Equal(t, "unauthorized", found.HoldReason)
	one.token = carl
	d.do(t, 404, one)
	resolve := func(body contracts.ResolutionRequest) call {
		return call{method: "POST", path: "/v1/desk/{operation}/resolution", values: []string{operation}, token: otto, body: marshalled(t, body)}
	}
	d.do(t, 422, resolve(contracts.ResolutionRequest{Move: contracts.ResolveGiveUp, Seen: found.Seen}))
	answer := d.do(t, 200, resolve(contracts.ResolutionRequest{Move: contracts.ResolveGiveUp, Seen: found.Seen, Reason: "It is wrong anyway."}))
	require.Equal(t, "failed", decoded[contracts.ResolutionAnswer](t, answer).State)
	d.do(t, 409, resolve(contracts.ResolutionRequest{Move: contracts.ResolveDispute, Seen: found.Seen, Reason: "It is not."}))
}

// switches are closed and opened by people of the tenant (D9).
func (d *documented) switches(t *testing.T) {
	nora, carl := d.token(t, "nora"), d.token(t, "carl")
	const all, crm = "/v1/tenants/{tenant}/switches", "connector:sandbox-crm"
	list := call{method: "GET", path: all, values: []string{"demo"}, token: nora}
	require.Equal(t, []string{"operator", "support-lead"}, decoded[contracts.SwitchList](t, d.do(t, 200, list)).Roles)
	list.token = ""
	d.do(t, 401, list)
	list.token = carl
	d.do(t, 404, list)
	to := func(method, verb string, body any) call {
		c := call{method: method, path: all + "/{switch}" + verb, values: []string{"demo", crm}, token: nora}
		if body != nil {
			c.body = marshalled(t, body)
		}
		return c
	}
	d.do(t, 422, to("POST", "/closing", contracts.SwitchClosing{}))
	closed := decoded[contracts.SwitchCase](t, d.do(t, 200, to("POST", "/closing", contracts.SwitchClosing{Reason: "It loses updates."})))
	require.Equal(t, ledger.SwitchClosed, closed.State)
	require.Equal(t, closed, decoded[contracts.SwitchCase](t, d.do(t, 200, to("GET", "", nil))))
	open := contracts.SwitchOpening{Reason: "It is mended.", Seen: closed.Epoch + 1}
	d.do(t, 409, to("POST", "/opening", open))
	open.Seen, open.OverSeconds = closed.Epoch, 1<<20
	long := to("POST", "/opening", open)
	long.invalid = true
	d.do(t, 422, long)
	open.OverSeconds = 0
	require.Equal(t, ledger.SwitchOpen, decoded[contracts.SwitchCase](t, d.do(t, 200, to("POST", "/opening", open))).State)
	nowhere := to("GET", "", nil)
	nowhere.values = []string{"demo", "global"}
	d.do(t, 404, nowhere)
}

// unattended is a case that a rule lets act: it is held, taken back, and looked at.
func (d *documented) unattended(t *testing.T) {
	dora, carl := d.token(t, "dora"), d.token(t, "carl")
	proposal := proposalOf("crm.contact.update", "crm", "c-1003", `{"fields":{"company":"Lovelace Ltd"}}`)
	d.do(t, 202, call{method: "POST", path: eventsPath, values: []string{"crm-enrichment"}, token: d.r.APIKey,
		header: map[string]string{"Idempotency-Key": "u-1"}, body: `{"event_id":"u-1","proposal":` + proposal + `}`})
	list := call{method: "GET", path: "/v1/unattended", token: dora}
	var all contracts.UnattendedList
	require.Eventually(t, func() bool {
		all = decoded[contracts.UnattendedList](t, d.do(t, 200, list))
		return len(all.HeldBack) == 1 && len(all.Samples) == 1
	}, patience, 50*time.Millisecond)
	held := all.HeldBack[0]
	require.Equal(t, "u-1", held.IdempotencyKey)
	require.NotNil(t, held.CancelUntil)
	list.token = ""
	d.do(t, 401, list)

	to := func(token, what, body string) call {
		return call{method: "POST", path: "/v1/unattended/{run}/" + what, values: []string{held.RunID}, token: token, body: body}
	}
	d.do(t, 404, to(carl, "withdrawal", `{"reason":"not for me to see"}`))
	takeBack := to(dora, "withdrawal", `{"reason":"the contact asked us not to"}`)
	require.True(t, decoded[contracts.TakeBackAnswer](t, d.do(t, 200, takeBack)).TakenBack)
	d.do(t, 200, takeBack)
	d.do(t, 409, to(dora, "withdrawal", `{"reason":"for another reason"}`))
	judge := func(verdict string) call {
		return to(dora, "judgement", marshalled(t, contracts.JudgementRequest{SampleID: held.Samples[0].SampleID, Verdict: verdict}))
	}
	d.do(t, 422, judge(contracts.VerdictWrong))
	answer := decoded[contracts.JudgementAnswer](t, d.do(t, 200, judge(contracts.VerdictRight)))
	require.Equal(t, []any{contracts.VerdictRight, false}, []any{answer.Verdict, answer.Stopped})
	d.do(t, 409, judge(contracts.VerdictRight))
}
