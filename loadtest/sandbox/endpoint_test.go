package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
	const body = `{"operation_id":"op-1","data":{}}`

	t.Run("AWorkflowIsStartedForEveryCall", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for range 2 {
			got := w.must(http.MethodPost, "/n8n/webhook/orders", body, "Idempotency-Key", "k-1")
			require.Equal(t, map[string]any{"message": "Workflow was started"}, got.body)
		}
		started := w.written(2)
		require.Equal(t, []string{"op-1", "orders", ""}, []string{started[1].Reference, started[1].Place, started[1].IdempotencyKey})

		require.NoError(t, w.SetPersonality(t.Context(), sandbox.N8N, sandbox.Personality{Finishes: true}))
		require.Equal(t, true, w.must(http.MethodPost, "/n8n/webhook/orders", body).body["ok"])
	})

	t.Run("AReceiverRemembersIDsAlsoAfterARestart", func(t *testing.T) {
		t.Parallel()
		cfg := sandbox.Config{DataDir: t.TempDir()}
		client, stop := sandboxtest.Start(t, cfg)
		w := world{Client: client, t: t, http: caller()}
		first := w.must(http.MethodPost, "/receiver/orders", body, "Webhook-Id", "op-2")
		require.Equal(t, http.StatusAccepted, first.status)
		require.Equal(t, "op-2", w.written(1)[0].Reference, "not what the body says")
		stop()

		client, stop = sandboxtest.Start(t, cfg)
		defer stop()
		w.Client = client
		again := w.must(http.MethodPost, "/receiver/orders", body, "Webhook-Id", "op-2")
		require.Equal(t, []any{first.status, first.body}, []any{again.status, again.body})
		other := w.must(http.MethodPost, "/receiver/orders", `{"data":1}`, "Webhook-Id", "op-2")
		require.Equal(t, "idempotency_key_reused", other.code())
		w.written(1)
	})

	t.Run("NamesAreBounded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, path := range []string{"/n8n/webhook/", "/receiver/"} {
			got := w.must(http.MethodPost, path+strings.Repeat("a", 101), body)
			require.Equal(t, http.StatusBadRequest, got.status)
		}
		w.written(0)
	})

	t.Run("FaultsApply", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, system := range []string{sandbox.N8N, sandbox.Receiver} {
			w.fault(sandbox.Rule{Match: sandbox.Match{System: system, Operation: sandbox.Create, Reference: "op-1"},
				Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusForbidden, Message: "Authorization data is wrong!"}})
		}
		refused := w.must(http.MethodPost, "/n8n/webhook/orders", body)
		require.Equal(t, []any{float64(403), "Authorization data is wrong!"}, []any{refused.body["code"], refused.body["message"]})
		require.Equal(t, http.StatusForbidden, w.must(http.MethodPost, "/receiver/orders", body).status)
		w.written(0)
	})
}

func TestPersonalitiesOfOtherSystemsAreChecked(t *testing.T) {
	t.Parallel()
	for name, personality := range map[string]sandbox.Personality{sandbox.CRM: {}, sandbox.Mailbox: {}, sandbox.Slack: {Interval: -1}} {
		_, err := sandbox.New(sandbox.Config{DataDir: t.TempDir(), Others: map[string]sandbox.Personality{name: personality}})
		require.ErrorContains(t, err, name)
	}
}

func TestRecordsAndChannelsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	cfg := sandbox.Config{DataDir: t.TempDir()}
	client, stop := sandboxtest.Start(t, cfg)
	w := world{Client: client, t: t, http: caller()}
	made := w.upsert("op-1", `{"email":"a@example.test"}`).result(t)
	w.chat("C0SUPPORT", "op-2")
	stop()

	client, stop = sandboxtest.Start(t, cfg)
	defer stop()
	w.Client = client
	again := w.upsert("op-1", `{"email":"a@example.test"}`).result(t)
	require.Equal(t, made["id"], again["id"])
	require.Len(t, w.history("channel=C0SUPPORT"), 1)
	w.written(2)
}
