package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
	"github.com/holdpoint/holdpoint/services/mcp"
)

// Every tool, on both transports, against the real services.
func TestTools(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	called := &paths{seen: map[string]bool{}}
	url := serve(t, w)
	for name, a := range map[string]*agent{"InMemory": inMemory(t, stdio(w, called), nil),
		"OverHTTP": overHTTP(t, url, roster.DemoKey)} {
		t.Run(name, func(t *testing.T) { testTools(t, w, a) })
	}
	t.Run("HTTP", func(t *testing.T) { testHTTP(t, w, url) })
	// Nothing of it can decide (A15), whatever a model asks for.
	require.Equal(t, map[string]bool{"POST /v1/sources": true, "GET /v1/runs": true, "GET /v1/sources": true}, called.seen)
}

func testTools(t *testing.T, w *world.World, a *agent) {
	t.Run("WhatMayBeProposedIsListedWithItsSchemas", func(t *testing.T) {
		a := a.as(t)
		told := a.call("list_sources", `{}`)
		require.False(t, told.failed, told.text)
		var list contracts.SourceList
		require.NoError(t, json.Unmarshal([]byte(told.text), &list))
		event := w.Update()
		at := slices.IndexFunc(list.Sources, func(s contracts.SourceInfo) bool { return s.Source == event.Source })
		require.GreaterOrEqual(t, at, 0, "the source that events of this world go to is not listed")
		require.Equal(t, "inline", list.Sources[at].Mode)
		require.Equal(t, "/proposal", *list.Sources[at].Proposal)
		require.NotEmpty(t, list.Sources[at].Key)
		kind := slices.IndexFunc(list.ActionTypes, func(a contracts.ActionInfo) bool { return a.ActionType == "crm.contact.update" })
		require.Contains(t, string(list.ActionTypes[kind].Schema), `"fields"`)
		require.Contains(t, told.Next, "propose_action")
	})

	t.Run("AProposalIsCarriedOutOnceHoweverOftenItIsProposed", func(t *testing.T) {
		a, event := a.as(t), w.Update()
		first := a.propose(event)
		require.False(t, first.failed, first.text)
		require.Equal(t, contracts.ResultAccepted, first.Result)
		require.False(t, first.Ended)
		require.Contains(t, first.Next, "Do not propose it again")
		done := a.call("wait_for_decision", `{"key":"`+event.Key+`","wait_seconds":50}`)
		require.Equal(t, contracts.OutcomeExecuted, done.Outcome, done.text)
		require.True(t, done.Ended)
		require.Contains(t, done.text, "It was carried out, once.")
		again := a.propose(event)
		require.Equal(t, contracts.ResultDuplicateWithResult, again.Result)
		require.Equal(t, done.Effects, again.Effects)
		status := a.call("get_status", `{"run_id":"`+first.RunID+`"}`)
		require.Equal(t, done.Effects, status.Effects)
		require.Equal(t, done.text, status.text)
		require.Len(t, w.Writes(event), 1)
	})

	// The model rewrote its arguments for the second attempt (INT-07).
	t.Run("ChangedArgumentsUnderTheSameKeyAreRefused", func(t *testing.T) {
		a, event := a.as(t), w.Update()
		first := a.propose(event)
		changed := a.propose(event.Proposing("crm.contact.delete"))
		require.True(t, changed.failed)
		require.Equal(t, contracts.CodePayloadMismatch, changed.Code)
		require.Equal(t, first.RunID, changed.RunID)
		require.Equal(t, "no", changed.Retry)
		require.Contains(t, changed.text, "do not send them under another key")
	})

	t.Run("WithoutAKeyNothingIsProposed", func(t *testing.T) {
		a, event := a.as(t), w.Update()
		before := w.Count("select count(*) from runs")
		event.Key = ""
		refused := a.propose(event)
		require.True(t, refused.failed)
		require.Equal(t, "arguments", refused.Code)
		require.Contains(t, refused.Detail, "never a new id per attempt")
		require.Equal(t, before, w.Count("select count(*) from runs"))
	})

	t.Run("APersonIsWaitedForAndTheWaitIsBounded", func(t *testing.T) {
		a, event := a.as(t), w.Refund("250.00")
		require.False(t, a.propose(event).failed)
		w.Until("the request", func() bool {
			return a.call("get_status", `{"key":"`+event.Key+`"}`).State == contracts.StateAwaitingHuman
		})
		waiting := a.call("wait_for_decision", `{"key":"`+event.Key+`","wait_seconds":0}`)
		require.False(t, waiting.Ended)
		require.Contains(t, waiting.text, "A person has to decide")
		require.Contains(t, waiting.Next, "it may take hours")
		w.SignIn("nora").Decide(event, "approve", "Charged twice.")
		done := a.call("wait_for_decision", `{"key":"`+event.Key+`","wait_seconds":50}`)
		require.Equal(t, contracts.OutcomeExecuted, done.Outcome, done.text)
	})

	// A number that is decoded and encoded on its way may be another one (HASH-02).
	t.Run("NumbersAreStoredAsTheModelWroteThem", func(t *testing.T) {
		a, event := a.as(t), w.Update()
		exact := `{"exact":12345678901234567890.10,"big":9007199254740993,"e":1e0,`
		body := strings.Replace(string(event.Text()), "{", exact, 1)
		arguments := fmt.Sprintf(`{"source":%q,"key":%q,"event":%s}`, event.Source, event.Key, body)
		require.False(t, a.call("propose_action", arguments).failed)
		var stored []byte
		require.NoError(t, w.DB.Pool("").QueryRow(t.Context(), `select payload from run_payloads where run_id = $1`,
			event.RunID()).Scan(&stored))
		require.Equal(t, body, string(stored))
	})

	t.Run("WhatDoesNotFitIsNamed", func(t *testing.T) {
		a, event := a.as(t), w.Update()
		body := strings.Replace(string(event.Text()), `"city"`, `"town"`, 1)
		refused := a.call("propose_action", fmt.Sprintf(`{"source":%q,"key":%q,"event":%s}`, event.Source, event.Key, body))
		require.Equal(t, contracts.CodeSchemaInvalid, refused.Code)
		require.Equal(t, "same_key_corrected", refused.Retry)
		require.Contains(t, refused.text, `At "/proposal/proposed_change/fields/town"`)
		require.False(t, a.propose(event).failed, "put right, under the same key")
	})

	for name, tc := range map[string]struct{ tool, arguments, code, says string }{
		"ASourceThatIsNone":  {"propose_action", anEvent, contracts.CodeUnknownSource, "source's name"},
		"AKeyThatIsNotKnown": {"get_status", `{"key":"never"}`, contracts.CodeNotFound, "propose it again with the same key"},
		"ARunThatIsNone":     {"wait_for_decision", `{"run_id":"me"}`, contracts.CodeNotFound, "UUID"},
		"BothNames":          {"get_status", `{"key":"k","run_id":"r"}`, "arguments", "not by both"},
		"NoName":             {"wait_for_decision", `{}`, "arguments", "by its key"},
		"AnUnknownArgument":  {"get_status", `{"key":"k","approve":true}`, "arguments", `"approve"`},
		"AnEventThatIsText":  {"propose_action", `{"source":"no","key":"k","event":"{}"}`, "arguments", "JSON object"},
		"AWaitWithoutEnd":    {"wait_for_decision", `{"key":"k","wait_seconds":3600}`, "arguments", "0 to 50"},
		"AWaitForAStatus":    {"get_status", `{"key":"k","wait_seconds":1}`, "arguments", "wait_for_decision"},
	} {
		t.Run(name+"IsSaid", func(t *testing.T) {
			refused := a.as(t).call(tc.tool, tc.arguments)
			require.True(t, refused.failed)
			require.Equal(t, tc.code, refused.Code)
			require.Contains(t, refused.text, tc.says)
		})
	}
}

// deciding are words of what no tool may offer.
var deciding = regexp.MustCompile(`(?i)approv|reject|decid|decision|\bgrant\b|authori[sz]|withdraw|override|switch`)

func TestNoToolDecides(t *testing.T) {
	t.Parallel()
	a := inMemory(t, mcp.Config{URL: "http://127.0.0.1:1", APIKey: "k"}, nil)
	listed, err := a.session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, listed.Tools, 4)
	for _, tool := range listed.Tools {
		schema, err := json.Marshal([]any{tool.InputSchema, tool.OutputSchema, tool.Title})
		require.NoError(t, err)
		require.NotRegexp(t, deciding, string(schema), tool.Name)
		require.NotRegexp(t, deciding, strings.TrimPrefix(tool.Name, "wait_for_decision"), "it waits for one, and makes none")
		require.Equal(t, tool.Name != "propose_action", tool.Annotations.ReadOnlyHint, tool.Name)
	}
	names := fmt.Sprint(listed.Tools[0].Name, listed.Tools[1].Name, listed.Tools[2].Name, listed.Tools[3].Name)
	require.Equal(t, "get_statuslist_sourcespropose_actionwait_for_decision", names)
	require.Nil(t, listed.Tools[2].InputSchema.(map[string]any)["default"])
	key := listed.Tools[2].InputSchema.(map[string]any)["properties"].(map[string]any)["key"].(map[string]any)
	require.Contains(t, key["description"], "never a new id per attempt")
	require.Contains(t, listed.Tools[2].InputSchema.(map[string]any)["required"], "key")
}

// testHTTP is what the HTTP transport refuses.
func testHTTP(t *testing.T, w *world.World, url string) {
	// post sends a message past the SDK's client.
	post := func(t *testing.T, change func(*http.Request)) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+roster.DemoKey)
		change(r)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		if response.StatusCode == http.StatusUnauthorized {
			require.Equal(t, "Bearer", response.Header.Get("WWW-Authenticate"))
		}
		return response.StatusCode
	}

	t.Run("WithoutAKeyNothingIsServed", func(t *testing.T) {
		require.Equal(t, http.StatusOK, post(t, func(*http.Request) {}))
		require.Equal(t, http.StatusUnauthorized, post(t, func(r *http.Request) { r.Header.Del("Authorization") }))
		require.Equal(t, http.StatusUnauthorized, post(t, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }))
	})

	t.Run("ANameThatWasReboundToThisMachineIsRefused", func(t *testing.T) {
		require.Equal(t, http.StatusForbidden, post(t, func(r *http.Request) { r.Host = "evil.example" }))
	})

	t.Run("ABrowserThatActsForAnotherSiteIsRefused", func(t *testing.T) {
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			require.Equal(t, http.StatusForbidden, post(t, func(r *http.Request) { r.Header.Set(name, value) }), name)
		}
	})

	t.Run("EveryCallerHasTheRightsOfItsOwnKeyAlone", func(t *testing.T) {
		event := w.Update()
		good := overHTTP(t, url, roster.DemoKey)
		require.False(t, good.propose(event).failed)
		for _, key := range []string{"somebody", "a\tkey"} {
			bad := overHTTP(t, url, key)
			for _, refused := range []result{bad.propose(event), bad.call("get_status", `{"key":"`+event.Key+`"}`)} {
				require.True(t, refused.failed)
				require.Equal(t, contracts.CodeUnauthenticated, refused.Code)
				require.Equal(t, "no", refused.Retry)
				require.NotContains(t, refused.text, key)
			}
		}
		require.False(t, good.propose(event).failed, "a session of another did not change it")
	})

	t.Run("OnlyTheLoopbackInterfaceIsListenedOn", func(t *testing.T) {
		for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "7078"} {
			_, err := mcp.Listen(t.Context(), addr)
			require.Error(t, err, addr)
		}
		listener, err := mcp.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := mcp.New(mcp.Config{URL: "holdpoint", APIKey: "k"})
	require.ErrorContains(t, err, "BaseURL must be")
	s, err := mcp.New(mcp.Config{URL: "http://127.0.0.1:1"})
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(t.Context(), nil), "HOLDPOINT_API_KEY")
}
