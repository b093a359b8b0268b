package sandbox_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

func (w world) chat(channel, reference string) reply {
	w.t.Helper()
	return w.must(http.MethodPost, "/slack/chat.postMessage", `{"channel":"`+channel+`","text":"Hello","metadata":`+
		`{"event_type":"holdpoint_operation","event_payload":{"operation_id":"`+reference+`"}}}`)
}

func (w world) history(query string) []any {
	w.t.Helper()
	got := w.must(http.MethodGet, "/slack/conversations.history?"+query, "")
	require.Equal(w.t, true, got.body["ok"])
	return got.body["messages"].([]any)
}

func TestSlack(t *testing.T) {
	t.Parallel()

	t.Run("EveryPostIsAMessageOfItsOwn", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first, second := w.chat("C0SUPPORT", "op-1"), w.chat("C0SUPPORT", "op-1")
		require.Equal(t, true, first.body["ok"])
		require.NotEqual(t, first.body["ts"], second.body["ts"])
		require.Equal(t, "op-1", w.written(2)[1].Reference)
		summary, err := w.Summary(t.Context())
		require.NoError(t, err)
		require.Equal(t, sandbox.SystemSummary{Writes: 2, DuplicateWrites: 1}, summary.BySystem[sandbox.Slack])

		shown := w.history("channel=C0SUPPORT&include_all_metadata=true")
		require.Len(t, shown, 2)
		newest := shown[0].(map[string]any)
		require.Equal(t, second.body["ts"], newest["ts"])
		require.Equal(t, map[string]any{"operation_id": "op-1"}, newest["metadata"].(map[string]any)["event_payload"])
		limited := w.history("channel=C0SUPPORT&limit=1")
		require.Len(t, limited, 1)
		require.NotContains(t, limited[0], "metadata", "it was not asked for")
		require.Empty(t, w.history("channel=C0OTHERS"))
	})

	t.Run("WhatIsWrongIsSaidInsideOf200", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for body, code := range map[string]string{`{"channel":"general","text":"a"}`: "channel_not_found", `{"channel":"C0SUPPORT"}`: "no_text"} {
			got := w.must(http.MethodPost, "/slack/chat.postMessage", body)
			require.Equal(t, http.StatusOK, got.status)
			require.Equal(t, map[string]any{"ok": false, "error": code}, got.body)
		}
		require.Equal(t, "channel_not_found", w.must(http.MethodGet, "/slack/conversations.history", "").body["error"])
		w.fault(sandbox.Rule{Match: sandbox.Match{System: sandbox.Slack, Operation: sandbox.Create},
			Fault: sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusOK, Code: "fatal_error"}})
		got := w.chat("C0SUPPORT", "op-1")
		require.Equal(t, []any{http.StatusOK, "fatal_error"}, []any{got.status, got.body["error"]})
		w.written(1)
	})

	t.Run("OneMessageAtATimeToAChannel", func(t *testing.T) {
		t.Parallel()
		at := &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
		w := newWorld(t, at.use)
		slow := sandbox.Personality{Interval: sandbox.Duration(1500 * time.Millisecond)}
		require.NoError(t, w.SetPersonality(t.Context(), sandbox.Slack, slow))
		w.chat("C0SUPPORT", "op-1")
		got := w.chat("C0SUPPORT", "op-2")
		require.Equal(t, []any{http.StatusTooManyRequests, "2", "ratelimited"},
			[]any{got.status, got.header.Get("Retry-After"), got.body["error"]})
		require.Equal(t, true, w.chat("C0OTHERS", "op-3").body["ok"])
		at.now = at.now.Add(1500 * time.Millisecond)
		require.Equal(t, true, w.chat("C0SUPPORT", "op-2").body["ok"])
		w.written(3)
	})
}
