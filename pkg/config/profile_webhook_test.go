package config_test

import (
	"net/http"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

const (
	order = `{"target":{"system":"shop","record_id":"orders"},"proposed_change":{"order":7}}`
	fewer = `{"target":{"system":"shop","record_id":"orders"},"proposed_change":{"order":6}}`
)

// TestProfileWebhook holds the profile against receivers that remember webhook-id and those that do not.
func TestProfileWebhook(t *testing.T) {
	t.Parallel()
	webhook := shipped{profile: "webhook", path: "/receiver", system: sandbox.Receiver, lines: []string{"hmac: {secret_env: HOOKS}"}}
	forgets := sandbox.Personality{IgnoreKeys: true}
	once := func(class outcome.Class) []step { return []step{{action: order, class: class}} }
	exchanges := []exchange{
		{name: "ADelivery", steps: once(outcome.Succeeded), looks: []look{{0, connector.Unclear, false}}, writes: 1},
		{name: "AReceiverThatRemembersTakesItOnce", writes: 1,
			steps: []step{{action: order, class: outcome.Succeeded}, {action: order, class: outcome.Succeeded}}},
		{name: "AReceiverThatForgetsTakesItTwice", personality: forgets, writes: 2,
			steps: []step{{action: order, class: outcome.Succeeded}, {action: order, class: outcome.Succeeded}}},
		{name: "TheSameIDWithAnotherBody", writes: 1,
			steps: []step{{action: order, class: outcome.Succeeded}, {action: fewer, class: outcome.Refused}}},
		{name: "ALostAnswer", fault: lostAnswer, steps: once(outcome.Ambiguous), looks: []look{{0, connector.Unclear, false}}, writes: 1},
		{name: "AProxyWithoutReceiver", fault: answers(503, ""), steps: once(outcome.Ambiguous)},
		{name: "WantedNoMore", fault: answers(410, ""), steps: once(outcome.Refused)},
		{name: "Busy", fault: busy, steps: once(outcome.RejectedBusy)},
		{name: "AnotherSecret", fault: answers(401, ""), steps: once(outcome.Unauthorized)},
		{name: "MovedElsewhere", fault: sandbox.Fault{Kind: sandbox.Redirect, Status: 307, Location: "/elsewhere"},
			steps: once(outcome.Ambiguous)},
	}
	for i := range exchanges {
		exchanges[i].operation = "deliver"
	}
	webhook.run(t, exchanges)

	t.Run("ReplaysAreForTheTenantToDeclare", func(t *testing.T) {
		t.Parallel()
		require.False(t, webhook.provider(t).declared.Operations[0].IdempotentCreate())
		remembered := webhook
		remembered.lines = append(remembered.lines, "operations:",
			`  - {name: deliver, kind: send, method: POST, path: "/${target.record_id}", body: {data: "${proposed_change}"},`,
			"     idempotency_header: webhook-id, key_window: 24h, key_margin: 1h, replays: true, success: {statuses: [202]}}")
		p := remembered.provider(t)
		require.True(t, p.declared.Operations[0].IdempotentCreate())
		p.prepare(sandbox.Receiver, exchange{fault: lostAnswer})
		require.Equal(t, outcome.Ambiguous, p.send(p.operation("deliver", step{action: order})).Class)
		require.Equal(t, outcome.Succeeded, p.send(p.operation("deliver", step{action: order})).Class)
		require.Len(t, p.written(sandbox.Receiver), 1)
	})

	t.Run("WhatIsDeliveredIsSignedWithTheOperation'sID", func(t *testing.T) {
		t.Parallel()
		signed := webhook
		signed.path = "/hooks" // which keeps what it got
		p := signed.provider(t)
		require.Equal(t, outcome.Succeeded, p.send(p.operation("deliver", step{action: order})).Class)
		hooks, err := p.sandbox.AwaitHooks(t.Context(), "orders", 1)
		require.NoError(t, err)
		require.Equal(t, "op-1", hooks[0].Header.Get("Webhook-Id"))
		require.JSONEq(t, `{"type":"holdpoint.action","operation_id":"op-1","data":{"order":7}}`, string(hooks[0].Body))
		verifier, err := standardwebhooks.NewWebhook(hookSecret)
		require.NoError(t, err)
		require.NoError(t, verifier.Verify(hooks[0].Body, hooks[0].Header))
	})

	t.Run("UnsignedItCarriesTheIDToo", func(t *testing.T) {
		t.Parallel()
		unsigned := webhook
		unsigned.lines = nil
		p := unsigned.provider(t)
		require.Equal(t, outcome.Succeeded, p.send(p.operation("deliver", step{action: order})).Class)
		require.Equal(t, "op-1", p.written(sandbox.Receiver)[0].IdempotencyKey)
	})
}

// TestProfileN8N holds the profile against workflows that answer at once, and those that answer when they have ended.
func TestProfileN8N(t *testing.T) {
	t.Parallel()
	n8n := shipped{profile: "n8n_webhook", path: "/n8n/webhook", system: sandbox.N8N,
		lines: []string{"api_key: {header: X-Holdpoint-Key, value_env: N8N_KEY}", "webhook_secrets: [{env: N8N_HOOKS}]"}}
	once := func(class outcome.Class) []step { return []step{{action: order, class: class}} }
	finishes := sandbox.Personality{Finishes: true}
	n8n.run(t, []exchange{
		{name: "StartedIsAllThatStartWorkflowWaitsFor", operation: "start_workflow", steps: once(outcome.Succeeded), writes: 1},
		{name: "StartedIsPendingToRunWorkflow", operation: "run_workflow", steps: once(outcome.Accepted), writes: 1},
		{name: "EndedIsWhatRunWorkflowWaitsFor", operation: "run_workflow", personality: finishes,
			steps: once(outcome.Succeeded), writes: 1},
		{name: "AnAnswerOfTheOtherModeIsAmbiguous", operation: "start_workflow", personality: finishes,
			steps: once(outcome.Ambiguous), writes: 1},
		{name: "TheSamePostTwiceRunsItTwice", operation: "start_workflow",
			steps: []step{{action: order, class: outcome.Succeeded}, {action: order, class: outcome.Succeeded}}, writes: 2},
		{name: "ALostAnswerIsForAnOperator", operation: "run_workflow", fault: lostAnswer,
			steps: once(outcome.Ambiguous), looks: []look{{0, connector.Unclear, false}}, writes: 1},
		{name: "NotRegistered", operation: "start_workflow", fault: answers(404, ""), steps: once(outcome.Refused)},
		{name: "WrongHeaderAuth", operation: "start_workflow", fault: answers(403, ""), steps: once(outcome.Unauthorized)},
		{name: "AWorkflowThatBrokeOff", operation: "run_workflow", fault: wrote(500, ""), steps: once(outcome.Ambiguous), writes: 1},
		{name: "AWorkflowThatRefuses", operation: "run_workflow", fault: answers(200, "refused"), steps: once(outcome.Refused)},
		{name: "AWorkflowThatIsBusy", operation: "run_workflow", fault: answers(200, "busy"), steps: once(outcome.RejectedBusy)},
		{name: "AWorkflowThatSaysSomethingElse", operation: "run_workflow", fault: answers(200, "strange"),
			steps: once(outcome.Ambiguous)},
	})

	t.Run("WorkflowsTellHowTheyEnded", func(t *testing.T) {
		t.Parallel()
		p := n8n.provider(t)
		require.Equal(t, []string{"succeeded"}, p.declared.Webhook.Succeeded)
		require.Equal(t, "/data/reference", p.declared.Webhook.Operation)
		require.Equal(t, "api_key:X-Holdpoint-Key@env:N8N_KEY", p.declared.Credential())
		require.Equal(t, http.MethodPost, p.declared.Operations[0].Method)
	})
}
