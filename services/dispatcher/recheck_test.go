package dispatcher

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// change has somebody else change the contact of a key, from version to version+1.
func (b *bench) change(key, version string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPatch, b.Sandbox.URL()+"/crm/contacts/c-"+key,
		strings.NewReader(`{"fields":{"city":"Porto"}}`))
	require.NoError(b.t, err)
	request.Header.Set("If-Match", `"`+version+`"`)
	response, err := http.DefaultClient.Do(request)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	require.Equal(b.t, http.StatusOK, response.StatusCode)
}

// requireReview requires that people are asked again, with this reason, and that nothing was sent.
func (b *bench) requireReview(key, code, message string) {
	b.t.Helper()
	e := b.Look(key)
	require.Equal(b.t, ledger.EffectHeld, e.State)
	require.Equal(b.t, ledger.HoldReview, e.HoldReason)
	require.False(b.t, e.MaybeSent)
	require.Equal(b.t, ledger.RunAwaitingHuman, b.World.Run(key).State)
	reasons := b.Text(`select reasons::text from approvals where run_id = $1 and state = 'pending'`,
		servicetest.Effect(key).RunID)
	require.Contains(b.t, reasons, `"`+code+`"`)
	require.Contains(b.t, reasons, message)
	require.Empty(b.t, b.Writes(key))
	require.Equal(b.t, 1, b.Count(`
select count(*) from event_log where run_id = $1 and subject like '%.run.awaiting_human'`,
		servicetest.Effect(key).RunID))
}

// TestRecheck is D4: what has changed since the authorization sends nothing and asks people again.
func TestRecheck(t *testing.T) {
	t.Parallel()
	world := setup(t)
	run := func(name string, test func(*bench, string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(world.forCase(t), name)
		})
	}

	run("AStricterRuleAsksPeople", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(func(c *config.Tenant) {
			c.Rules = append(c.Rules, &config.Rule{ID: "freeze", Action: "crm.contact.update", When: "true",
				Route: config.RouteHumanReview, Reason: "Contacts are frozen."})
		}).request(key)
		b.requireReview(key, "rule_matched", "Contacts are frozen.")
		require.Equal(b.t, "{sales-operations}", b.Text(`select audience::text from approvals where run_id = $1`,
			servicetest.Effect(key).RunID))
	})

	run("ARejectingRuleAsksPeople", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(func(c *config.Tenant) {
			c.Rules = append(c.Rules, &config.Rule{ID: "never", Action: "*", When: "true", Route: config.RouteReject,
				Reason: "No more."})
		}).request(key)
		b.requireReview(key, "rule_matched", "No more.")
	})

	run("ARuleWhoseSampleWasWrongAsksPeople", func(b *bench, key string) { // P4
		b.Authorize(b.Contact(key))
		e := servicetest.Effect(key)
		class := uuid.New()
		b.Exec(`insert into exception_classes (class_id, tenant_id, rule_id, evaluation_id, stopped_at, stopped_by, stop_reason)
values ($1::uuid, 'demo', 'watched', $1::uuid::text, now(), 'nora', 'wrong')`, class)
		b.Exec(`insert into exception_uses (tenant_id, run_id, intent_hash, class_id)
select tenant_id, run_id, intent_hash, $2 from effects where run_id = $1`, e.RunID, class)
		b.request(key)
		b.requireReview(key, "exception_stopped", "Rule watched let it act")
	})

	run("AnActionTypeThatIsNoLongerRegisteredAsksPeople", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(func(c *config.Tenant) {
			servicetest.Action(c, "crm.contact.update").Type = "crm.contact.change"
		}).request(key)
		b.requireReview(key, "unregistered_action", "")
	})

	run("AnActionTypeOfAnotherOperationAsksPeople", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(func(c *config.Tenant) {
			servicetest.Action(c, "crm.contact.update").Operation = "merge_contact"
		}).request(key)
		b.requireReview(key, "registry_changed", "")
	})

	run("EvidenceThatHasBecomeOldAsksPeople", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(func(c *config.Tenant) {
			servicetest.Action(c, "crm.contact.update").Evidence[0].MaxAge = 30 * time.Second
		}).request(key)
		b.requireReview(key, "evidence_stale", "older than 30s")
	})

	run("AWorkflowVersionThatIsNoLongerDeclaredAsksPeople", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(func(c *config.Tenant) { c.WorkflowVersions = []string{"crm-enrichment@4"} }).request(key)
		b.requireReview(key, "workflow_undeclared", "")
	})

	run("ATargetThatHasChangedAsksPeopleWithBothVersions", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.change(key, "1")
		b.request(key)
		b.requireReview(key, "target_changed", "at version 2; the proposal was made from version 1")
		require.Equal(b.t, string(outcome.NotSent), b.Attempts(key)[0].Class)
	})

	run("ATargetThatIsGoneAsksPeople", func(b *bench, key string) {
		b.Fault(sandbox.Match{Operation: sandbox.Read, PathPrefix: "/crm/contacts/c-" + key},
			status(sandbox.ErrorBeforeAccept, 404, ""))
		b.Authorize(b.Contact(key))
		b.request(key)
		b.requireReview(key, "target_gone", "")
	})

	run("WhatAPersonAuthorizedMayNeedAPerson", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.byPerson(key)
		b.with(func(c *config.Tenant) { c.WorkflowVersions = nil }).request(key)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})

	run("WhatAPersonAuthorizedIsNotSentWhenPolicyRejectsIt", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.byPerson(key)
		b.with(func(c *config.Tenant) {
			c.Rules = append(c.Rules, &config.Rule{ID: "never", Action: "*", When: "true", Route: config.RouteReject,
				Reason: "No more."})
		}).request(key)
		require.Equal(b.t, ledger.HoldReview, b.Look(key).HoldReason)
		b.requireNothingSent(key)
	})

	run("WhatMayHaveBeenSentIsNotHeldBack", func(b *bench, key string) {
		b.Fault(sandbox.Match{Operation: sandbox.Update, PathPrefix: "/crm/contacts/c-" + key, Nth: 1},
			sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
		b.Authorize(b.Contact(key))
		b.maybeSent(key)
		b.with(func(c *config.Tenant) { c.WorkflowVersions = nil }).request(key)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})
}

// byPerson makes the authorization of a run that of an approval.
func (b *bench) byPerson(key string) {
	b.t.Helper()
	id := servicetest.Effect(key).RunID
	b.Exec(`
with asked as (
  insert into approvals (tenant_id, run_id, intent_hash, approval_id, state, action_type, audience, reasons,
    correlation_id, decide_by, execute_within, decided_at)
  select tenant_id, run_id, intent_hash, gen_random_uuid(), 'approved', action_type, '{}', '[]', '', now(),
    '1 hour', now()
  from effects where run_id = $1 returning approval_id)
update authorizations set decision_id = null, decision_route = null, approval_id = asked.approval_id,
  approval_state = 'approved'
from asked where run_id = $1`, id)
}

// TestVersionConflict is D5.
func TestVersionConflict(t *testing.T) {
	t.Parallel()

	t.Run("BetweenTheLookAndTheWriteGoesBackWithBothVersions", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.beforeLeave(func(ledger.Fence) { b.change("k", "1") })
		b.request()
		require.Equal(t, string(outcome.VersionConflict), b.Attempts("k")[0].Class)
		require.Equal(t, http.StatusPreconditionFailed, b.Attempts("k")[0].HTTPStatus)
		b.requireReview("k", "target_changed", "at version 2; the proposal was made from version 1")
	})

	t.Run("WithoutAReadTheVersionOfTheProposalIsTold", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(withoutRead))
		b.Authorize(b.Contact("k"))
		b.change("k", "1")
		b.request()
		b.requireReview("k", "target_changed", "no longer at version 1")
	})

	t.Run("OfOurOwnEchoIsUnknownAndNeverReview", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.forget()
		b.Fault(sandbox.Match{Operation: sandbox.Update, Nth: 1}, sandbox.Fault{Kind: sandbox.AcceptThenReset})
		b.Authorize(b.Contact("k"))
		b.maybeSent("k")
		b.look()
		require.Equal(t, string(outcome.VersionConflict), b.Attempts("k")[1].Class)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Equal(t, ledger.RunApproved, b.World.Run("k").State)
		require.Len(t, b.Writes("k"), 1)
	})

	t.Run("AfterProvenAbsenceGoesBackToPeople", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(withoutRead))
		b.Fault(sandbox.Match{Operation: sandbox.Update, Nth: 1}, sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
		b.Authorize(b.Contact("k"))
		b.request()
		b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{EffectKey: servicetest.Effect("k"), Move: "prove_absent"})
		b.change("k", "1")
		b.look()
		require.Equal(t, ledger.HoldReview, b.Look("k").HoldReason, "the lookup has shown that nothing was written")
	})
}

// TestWhatIsSentIsWhatWasHashed: an effect whose row or snapshot was tampered with, or that is not declared, goes
// nowhere.
func TestWhatIsSentIsWhatWasHashed(t *testing.T) {
	t.Parallel()
	world := setup(t)
	for name, statement := range map[string]string{
		"AnotherTarget":     `update effects set target_record = 'c-other' where run_id = $1`,
		"AnotherSystem":     `update effects set target_system = 'erp' where run_id = $1`,
		"AnotherActionType": `update effects set action_type = 'crm.contact.delete' where run_id = $1`,
		"AnotherOperation":  `update effects set operation = 'create_refund' where run_id = $1`,
		"AnotherConnector":  `update effects set connector = 'sandbox-payments' where run_id = $1`,
		"AnotherKey":        `update runs set idempotency_key = 'other' where run_id = $1`,
	} {
		t.Run(name+"IsHeld", func(t *testing.T) {
			t.Parallel()
			b := world.forCase(t)
			b.Authorize(b.Contact(name))
			b.Exec(statement, servicetest.Effect(name).RunID)
			b.request(name)
			require.Equal(t, ledger.HoldIncident, b.Look(name).HoldReason)
			b.requireNothingSent(name)
			require.Len(t, b.alerts(name), 1)
		})
	}

	t.Run("AnOperationThatIsNoLongerDeclaredIsHeld", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.Authorize(b.Contact("undeclared"))
		b.with(func(c *config.Tenant) { servicetest.Operation(c, servicetest.CRM).Name = "renamed" }).request("undeclared")
		require.Equal(t, ledger.HoldIncident, b.Look("undeclared").HoldReason)
		require.Equal(t, ledger.RunApproved, b.World.Run("undeclared").State, "a fault of the configuration ends no run")
	})

	t.Run("AnIntentThatFitsNoTemplateIsHeld", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.Authorize(b.Contact("unfit"))
		b.with(func(c *config.Tenant) {
			servicetest.Operation(c, servicetest.CRM).Body = map[string]any{"reference": "${operation_id}",
				"x": "${proposed_change.missing}"}
		}).request("unfit")
		require.Equal(t, ledger.HoldIncident, b.Look("unfit").HoldReason)
		b.requireNothingSent("unfit")
	})

	t.Run("APanicIsHeldAndEndsNoProcess", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.Authorize(b.Contact("panic"))
		b.targets["demo/"+servicetest.CRM].conn = nil
		b.request("panic")
		require.Equal(t, ledger.HoldIncident, b.Look("panic").HoldReason)
		b.requireNothingSent("panic")
	})
}

// TestRecalled is D16 at the dispatcher: what somebody has recalled is held when it would be sent.
func TestRecalled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := ledger.Recall{ID: uuid.New(), TenantID: "demo", WorkflowVersion: "crm-enrichment@3", By: "olga", Reason: "it invents cities"}
	require.NoError(t, b.Operator.StartRecall(t.Context(), r))
	b.Authorize(b.Contact("k"))
	b.request()
	e := b.Look("k")
	require.Equal(t, []string{ledger.EffectHeld, ledger.HoldRecalled}, []string{e.State, e.HoldReason})
	require.False(t, e.MaybeSent)
	require.Empty(t, b.Writes("k"))
	require.Contains(t, b.Attempts("k")[0].Detail, "its draft was recalled by olga: it invents cities")
	require.NoError(t, b.Operator.LiftRecall(t.Context(), r.TenantID, r.ID, "olga", "fixed"))
	n, err := b.Operator.ReleaseRecalled(t.Context(), r.TenantID, r.ID, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.request()
	require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
	require.Len(t, b.Writes("k"), 1)
}

// TestRecalledAfterItMayHaveBeenSent is D16 with D6: what may have been sent is sent no more, and is still looked for, because what is
// held is not.
func TestRecalledAfterItMayHaveBeenSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Fault(sandbox.Match{Operation: sandbox.Update, Nth: 1}, sandbox.Fault{Kind: sandbox.AcceptThenReset})
	b.Authorize(b.Contact("k"))
	b.maybeSent("k") // and waits to be sent again under its key
	r := ledger.Recall{ID: uuid.New(), TenantID: "demo", WorkflowVersion: "crm-enrichment@3", By: "olga", Reason: "it invents cities"}
	require.NoError(t, b.Operator.StartRecall(t.Context(), r))
	n, err := b.Operator.HoldRecalled(t.Context(), r.TenantID, r.ID, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	b.request()
	e := b.Look("k")
	require.Equal(t, ledger.EffectUnknown, e.State)
	require.True(t, e.MaybeSent)
	require.Equal(t, string(outcome.NotSent), b.Attempts("k")[1].Class)
	require.Contains(t, b.Attempts("k")[1].Detail, "its draft was recalled by olga: it invents cities")
	require.Len(t, b.Writes("k"), 1)
}
