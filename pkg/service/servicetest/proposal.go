package servicetest

import (
	"encoding/json"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// Proposal is what an event proposes.
type Proposal struct {
	ActionType      string            `json:"action_type"`
	Target          map[string]string `json:"target"`
	ProposedChange  any               `json:"proposed_change"`
	CurrentVersion  string            `json:"current_version,omitempty"`
	Evidence        []Evidence        `json:"evidence"`
	Uncertainty     string            `json:"uncertainty,omitempty"`
	WorkflowVersion string            `json:"workflow_version"`
}

// Evidence is what a proposal was made from.
type Evidence struct {
	Source     string    `json:"source"`
	Version    string    `json:"version"`
	ObservedAt time.Time `json:"observed_at"`
}

// Contact is an event with a harmless change of a contact of its own, "c-" and the key, which the example's rules let
// pass.
func (w *World) Contact(key string, changes ...func(*Proposal)) ledger.Claim {
	return w.claim(key, ContactProposal(key), changes)
}

// ContactProposal is what Contact proposes.
func ContactProposal(key string) Proposal {
	return Proposal{
		ActionType: "crm.contact.update", Target: map[string]string{"system": "crm", "record_id": "c-" + key},
		ProposedChange: map[string]any{"fields": map[string]string{"city": "Lisbon"}}, CurrentVersion: "1",
		Evidence:        []Evidence{{"crm", "1", time.Now().Add(-time.Minute).UTC().Truncate(time.Second)}},
		WorkflowVersion: "crm-enrichment@3",
	}
}

// Refund is an event with a small refund of a payment of its own, "p-" and the key.
func (w *World) Refund(key string, changes ...func(*Proposal)) ledger.Claim {
	return w.claim(key, RefundProposal(key), changes)
}

// RefundProposal is what Refund proposes.
func RefundProposal(key string) Proposal {
	return Proposal{
		ActionType: "payment.refund", Target: map[string]string{"system": "payments", "record_id": "p-" + key},
		ProposedChange:  map[string]any{"payment_id": "p-" + key, "amount": json.Number("12.50"), "currency": "EUR"},
		Evidence:        []Evidence{{"payments", "1", time.Now().Add(-time.Minute).UTC().Truncate(time.Second)}},
		WorkflowVersion: "support-refunds@2",
	}
}

// Plan is an event that proposes all of this together, one after the other (D10).
func (w *World) Plan(key string, parts ...Proposal) ledger.Claim {
	w.t.Helper()
	whole := map[string]any{"workflow_version": parts[0].WorkflowVersion}
	var actions []map[string]any
	var evidence []Evidence
	for _, p := range parts {
		action := map[string]any{"action_type": p.ActionType, "target": p.Target, "proposed_change": p.ProposedChange}
		if p.CurrentVersion != "" {
			action["current_version"] = p.CurrentVersion
		}
		actions, evidence = append(actions, action), append(evidence, p.Evidence...)
	}
	whole["actions"], whole["evidence"] = actions, evidence
	return w.claimOf(key, whole)
}

// claim is the delivery as intake would claim it.
func (w *World) claim(key string, p Proposal, changes []func(*Proposal)) ledger.Claim {
	w.t.Helper()
	for _, change := range changes {
		change(&p)
	}
	return w.claimOf(key, p)
}

func (w *World) claimOf(key string, proposed any) ledger.Claim {
	w.t.Helper()
	text, err := json.Marshal(proposed)
	require.NoError(w.t, err)
	proposal, err := canonical.Parse(text)
	require.NoError(w.t, err)
	tenant := w.Config.Tenants[0]
	origin := intent.Origin{
		TenantID: tenant.ID, Key: key, Source: ledgertest.Source, Revision: 1, PolicyVersion: tenant.PolicyVersion,
		Registered: func(kind string) (*config.Action, *config.Connector) { return tenant.Action(kind), nil },
	}
	built, err := intent.Build(proposal, origin)
	require.NoError(w.t, err)
	claim := ledgertest.Event(key)
	claim.Intent = built
	return claim
}

// Authorize claims the events and stores decisions of route auto, so that their effects wait to be sent. It returns the
// effects.
func (w *World) Authorize(claims ...ledger.Claim) []ledger.EffectKey {
	w.t.Helper()
	w.Claim(claims...)
	refs := make([]ledger.IntentRef, len(claims))
	effects := make([]ledger.EffectKey, len(claims))
	for i, c := range claims {
		refs[i], effects[i] = ledgertest.Ref(c), Effect(c.Key)
	}
	waiting, err := w.Policy.Undecided(w.t.Context(), refs)
	require.NoError(w.t, err)
	decisions := make([]ledger.Decision, len(waiting))
	for i := range waiting {
		actions, err := intent.ReadActions(waiting[i].Canonical, waiting[i].IntentHash)
		require.NoError(w.t, err)
		decisions[i] = ledgertest.Decision(&waiting[i], refs[i].EventID, config.RouteAuto)
		decisions[i].PolicyVersion = w.PolicyVersion
		decisions[i].Effects = nil
		for _, s := range actions {
			decisions[i].Effects = append(decisions[i].Effects, s.Effect(w.Config.Tenants[0]))
		}
	}
	moved, err := w.Policy.Decide(w.t.Context(), decisions, func(_ *ledger.Decision, err error) {
		require.NoError(w.t, err)
	})
	require.NoError(w.t, err)
	require.Equal(w.t, len(claims), moved)
	return effects
}

// Effect is the one effect of the run of a key.
func Effect(key string) ledger.EffectKey {
	return ledger.EffectKey{
		TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, key), Revision: 1, Ordinal: 1,
	}
}
