package ledger_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestExplain asks in one query: was the event processed, what did the model draft, who or what authorized it, was anything sent,
// and what did the provider say.
func TestExplain(t *testing.T) { // O1
	t.Parallel()
	b := ledgertest.New(t)
	claim := ledgertest.Proposal("k1")
	b.Claim(claim, ledgertest.Other(claim, `{"other":1}`))
	b.Decide(config.RouteAuto, claim)
	effect := ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, "k1"), Revision: 1, Ordinal: 1}
	e := b.Lease(time.Minute, effect)[0]
	lose := succeed(e, "")
	lose.Move, lose.Outcome.Class, lose.Outcome.HTTPStatus, lose.Outcome.Detail = "lose", "ambiguous", 502, "bad gateway"
	_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{lose})
	require.NoError(t, err)
	_, err = b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: effect, Move: "find", ExternalID: "ext-1",
		RunKey: "k1", CorrelationID: "corr-k1", Looked: &ledger.Looked{Verdict: "found", Conclusive: true, ExternalID: "ext-1", Evidence: "one hit"}}})
	require.NoError(t, err)

	raw, err := b.Operator.Explain(t.Context(), ledgertest.Tenant, effect.RunID)
	require.NoError(t, err)
	var all struct {
		Run struct {
			State, Outcome string
			PayloadHash    string `json:"payload_hash"`
			CorrelationID  string `json:"correlation_id"`
		}
		Intents []struct {
			Intent struct{ Key string }
			Model  struct{ Name string }
		}
		Decisions []struct {
			Route         string
			PolicyVersion string `json:"policy_version"`
		}
		Authorizations []struct {
			DecisionID string `json:"decision_id"`
		}
		Effects []struct {
			State      string
			ExternalID string `json:"external_id"`
			Attempts   []struct {
				Class, Detail string
				HTTPStatus    int `json:"http_status"`
			}
			Lookups []struct{ Verdict, Evidence string }
		}
		Conflicts []struct {
			PayloadHash string `json:"payload_hash"`
		}
		History []struct{ Actor, Move, From, To string }
	}
	require.NoError(t, json.Unmarshal(raw, &all))
	require.Equal(t, []string{ledger.RunCompleted, ledger.OutcomeExecuted, claim.PayloadHash.String(), "corr-k1"},
		[]string{all.Run.State, all.Run.Outcome, all.Run.PayloadHash, all.Run.CorrelationID})
	require.Equal(t, "k1", all.Intents[0].Intent.Key)
	require.Equal(t, "m", all.Intents[0].Model.Name)
	require.Equal(t, []string{config.RouteAuto, ledgertest.PolicyVersion}, []string{all.Decisions[0].Route, all.Decisions[0].PolicyVersion})
	require.NotEmpty(t, all.Authorizations[0].DecisionID)
	require.Equal(t, []string{ledger.EffectCompleted, "ext-1"}, []string{all.Effects[0].State, all.Effects[0].ExternalID})
	require.Equal(t, "ambiguous", all.Effects[0].Attempts[0].Class)
	require.Equal(t, 502, all.Effects[0].Attempts[0].HTTPStatus)
	require.Equal(t, "one hit", all.Effects[0].Lookups[0].Evidence)
	require.Len(t, all.Conflicts, 1)
	moves := column(all.History, func(h struct{ Actor, Move, From, To string }) string { return h.Actor + " " + h.Move })
	require.Equal(t, []string{"intake claim", "intake conflict", "policy authorize", "dispatcher lease", "dispatcher lose", "reconciler find"}, moves)

	_, err = b.Operator.Explain(t.Context(), ledgertest.Tenant, uuid.New())
	require.ErrorIs(t, err, ledger.ErrNoSuchRun)
	_, err = b.Operator.Explain(t.Context(), "other", effect.RunID)
	require.ErrorIs(t, err, ledger.ErrNoSuchRun)
}
