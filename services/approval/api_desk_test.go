package approval

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func TestDeskAPI(t *testing.T) { // R6, A13, A15
	t.Parallel()
	g := deskGate(t)
	otto, sam, carl := g.token("otto").AccessToken, g.token("sam").AccessToken, g.token("carl").AccessToken
	path := func(e ledger.EffectKey) string { return "/v1/desk/" + e.OperationID() }
	say := func(e ledger.EffectKey, token string, body contracts.ResolutionRequest, changes ...func(*http.Request)) (int,
		contracts.ResolutionAnswer, contracts.Problem) {
		answer := g.call(t, http.MethodPost, path(e)+"/resolution", token, body, changes...)
		var said contracts.ResolutionAnswer
		var problem contracts.Problem
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &said))
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &problem))
		return answer.Status, said, problem
	}

	t.Run("TheQueueAndTheCaseAreRead", func(t *testing.T) {
		e := g.lost("read")
		var list contracts.DeskList
		answer := g.call(t, http.MethodGet, "/v1/desk?kind=unknown", otto, nil)
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &list))
		require.Equal(t, []any{1, "250", "EUR", "support-lead"}, []any{list.Sums[0].Count, list.Sums[0].Amount,
			list.Sums[0].Currency, list.Sums[0].Owner})
		require.Equal(t, []any{e.OperationID(), "unknown.1", "ambiguous"}, []any{list.Items[0].OperationID, list.Items[0].Seen,
			list.Items[0].LastClass})
		var c contracts.DeskCase
		answer = g.call(t, http.MethodGet, path(e), otto, nil)
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &c))
		require.Equal(t, []any{true, "HTTP 500 from the search", "the answer was lost"}, []any{c.SecondPerson,
			c.LookupsMade[0].Evidence, c.AttemptsMade[0].Detail})
		require.Equal(t, http.StatusBadRequest, g.call(t, http.MethodGet, "/v1/desk?after=x", otto, nil).Status)
	})

	t.Run("WhatTheProviderToldIsRead", func(t *testing.T) { // R4
		e := g.lost("told")
		g.Exec(`insert into provider_events (tenant_id, connector, provider_event_id, body, body_digest, status_text, verdict, state, run_id,
  revision, ordinal) values ('demo', 'sandbox-payments', 'evt-1', '{}', sha256('{}'), 'paid', 'succeeded', 'ignored', $1, 1, 1)`, e.RunID)
		var c contracts.DeskCase
		require.NoError(t, json.Unmarshal([]byte(g.call(t, http.MethodGet, path(e), otto, nil).Text), &c))
		require.Len(t, c.ProviderEvents, 1)
		require.Equal(t, []string{"evt-1", "paid", "succeeded", "ignored"}, []string{c.ProviderEvents[0].EventID, c.ProviderEvents[0].Status,
			c.ProviderEvents[0].Verdict, c.ProviderEvents[0].State})
	})

	t.Run("WhoMaySettleNothingSeesNothing", func(t *testing.T) {
		e := g.lost("hidden")
		require.Equal(t, http.StatusForbidden, g.call(t, http.MethodGet, "/v1/desk", carl, nil).Status)
		require.Equal(t, http.StatusNotFound, g.call(t, http.MethodGet, path(e), carl, nil).Status)
		require.Equal(t, http.StatusUnauthorized, g.call(t, http.MethodGet, path(e), "", nil).Status)
		status, _, _ := say(e, carl, contracts.ResolutionRequest{Move: "give_up", Reason: "x", Seen: "unknown.1"})
		require.Equal(t, http.StatusNotFound, status)
		agent := clientcredentials.Config{ClientID: "demo-agent", ClientSecret: "demo-agent-secret", TokenURL: endpoint(t,
			g.idp.Issuer(), "token_endpoint")}
		token, err := agent.Token(t.Context())
		require.NoError(t, err)
		for _, call := range [][]string{{http.MethodGet, "/v1/desk"}, {http.MethodGet, path(e)}, {http.MethodPost, path(e) + "/resolution"}} {
			answer := g.call(t, call[0], call[1], token.AccessToken, contracts.ResolutionRequest{Move: "give_up", Reason: "x", Seen: "unknown.1"})
			require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, answer.Status, call)
		}
		require.Equal(t, "unknown", g.effect(e))
	})

	t.Run("ARepeatedCallIsOneResolution", func(t *testing.T) {
		e := g.lost("repeated")
		named := func(r *http.Request) { r.Header.Set("Idempotency-Key", "call-1") }
		done := contracts.ResolutionRequest{Move: "confirm_done", Reason: "seen there", Seen: "unknown.1", ExternalID: "re_1"}
		for range 2 {
			status, said, _ := say(e, otto, done, named)
			require.Equal(t, []any{http.StatusOK, "made", "completed", "otto"}, []any{status, said.Resolution, said.State, said.Stands.By})
		}
		status, said, problem := say(e, sam, contracts.ResolutionRequest{Move: "give_up", Reason: "x", Seen: "unknown.1"})
		require.Equal(t, []any{http.StatusConflict, "settled", "completed", contracts.CodeNotDecided}, []any{status, said.Resolution,
			said.State, problem.Code})
		require.Contains(t, problem.Detail, "confirm done by otto")
	})

	t.Run("ABadOneIsRefused", func(t *testing.T) {
		e := g.lost("bad")
		for _, body := range []contracts.ResolutionRequest{{Move: "invent", Reason: "x", Seen: "unknown.1"}, {Move: "give_up", Seen: "unknown.1"},
			{Move: "confirm_done", Reason: "x", Seen: "unknown.1"}, {Move: "give_up", Reason: "x"}, {Move: "withdraw",
				Seen: "unknown.1", ProposalID: "x"}} {
			status, _, _ := say(e, otto, body)
			require.Equal(t, http.StatusUnprocessableEntity, status, body.Move)
		}
		status, said, _ := say(e, otto, contracts.ResolutionRequest{Move: "give_up", Reason: "x", Seen: "unknown.0"})
		require.Equal(t, []any{http.StatusConflict, "changed"}, []any{status, said.Resolution})
	})

	t.Run("TwoPeopleHaveItSentAgain", func(t *testing.T) {
		e := g.lost("two")
		again := contracts.ResolutionRequest{Move: "confirm_not_done", Reason: "not there", Seen: "unknown.1"}
		status, said, _ := say(e, otto, again)
		require.Equal(t, []any{http.StatusOK, "proposed", "unknown"}, []any{status, said.Resolution, said.State})
		again.ProposalID = said.Stands.ResolutionID
		status, _, _ = say(e, otto, again)
		require.Equal(t, http.StatusForbidden, status)
		status, said, _ = say(e, sam, again)
		require.Equal(t, []any{http.StatusOK, "made", "pending", "sam"}, []any{status, said.Resolution, said.State, said.Stands.SecondPerson})
	})
}
