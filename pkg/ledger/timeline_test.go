package ledger_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestTimeline puts what Explain tells into one order, without asking anew (O1).
func TestTimeline(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	claim := ledgertest.Proposal("k1")
	b.Claim(claim, ledgertest.Other(claim, `{"other":1}`))
	b.Decide(config.RouteAuto, claim)
	effect := ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, "k1"), Revision: 1, Ordinal: 1}
	e := b.Lease(time.Minute, effect)[0]
	_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{succeed(e, "ext-1")})
	require.NoError(t, err)
	explained, err := b.Approval.Explain(t.Context(), ledgertest.Tenant, effect.RunID)
	require.NoError(t, err, "the approval service may read all of it")
	steps, err := ledger.Timeline(explained)
	require.NoError(t, err)
	require.Equal(t, []string{"intake claim", "m step_propose", "intake conflict", "policy authorize", "dispatcher step_send",
		"sandbox-crm step_answer", "dispatcher succeed"}, column(steps, func(s ledger.Step) string { return s.Actor + " " + s.What }))
	var answer struct {
		Class   string
		Receipt string `json:"external_id"`
	}
	require.NoError(t, json.Unmarshal(steps[5].Facts, &answer))
	require.Equal(t, []string{"succeeded", "ext-1"}, []string{answer.Class, answer.Receipt})

	t.Run("WhatOneStatementStoresStaysTogether", func(t *testing.T) {
		steps, err := ledger.Timeline(json.RawMessage(`{"history":[
{"at":"2026-01-01T00:00:01Z","actor":"intake","move":"claim"},
{"at":"2026-01-01T00:00:05Z","actor":"reconciler","move":"look"},
{"at":"2026-01-01T00:00:09Z","actor":"reconciler","move":"find","from":"unknown","to":"completed"}],
"intents":[{"revision":1,"at":"2026-01-01T00:00:00.9Z","model":{}}],
"effects":[{"operation_id":"op","lookups":[{"looked_at":"2026-01-01T00:00:05.01Z","verdict":"unclear"},
{"looked_at":"2026-01-01T00:00:09.01Z","verdict":"found"}]}]}`))
		require.NoError(t, err)
		require.Equal(t, []string{"claim", "step_propose", "step_look", "step_look", "find"},
			column(steps, func(s ledger.Step) string { return s.What }))
	})
	t.Run("WhatIsNoRecordIsRefused", func(t *testing.T) {
		_, err := ledger.Timeline(json.RawMessage(`[]`))
		require.ErrorContains(t, err, "read the record of a run")
	})
}
