package ledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// codeOf runs a statement and is the SQLSTATE that refused it and the constraint that was broken, or "" where it was carried out.
func codeOf(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) (code, constraint string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context())) // what is allowed is tried out, too
	_, err = tx.Exec(t.Context(), statement, args...)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code, refused.ConstraintName
	}
	require.NoError(t, err)
	return "", ""
}

const (
	checkViolation      = "23514"
	foreignKeyViolation = "23503"
	noPrivilege         = "42501"
)

// authorize inserts an authorization on a decision.
const authorize = `insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, decision_id, decision_route, approval_id,
approval_state, execute_by) values ($1, $2, $3, gen_random_uuid(), $4, $5, $6, $7, now())`

// request inserts an effect.
const request = `insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type,
connector, operation, target_system, target_record, execute_by, next_check_at)
values ($1, $2::uuid, 1, $3::int, $4, $5, 'op1-' || $2::text || '-1-' || $3, 'a', 'c', 'o', 's', 'r', now(), now())`

// TestNothingWithoutAnAuthorization tries, as the database's owner, every way around D1: the database refuses each.
func TestNothingWithoutAnAuthorization(t *testing.T) { // D1, B7
	t.Parallel()
	b := ledgertest.New(t)
	auto, review := undecided(t, b, "auto"), undecided(t, b, "review")
	decide(t, b.Policy, ledgertest.Decision(auto, newID(), config.RouteAuto), ledgertest.Decision(review, newID(), config.RouteHumanReview))
	id := func(query string, run uuid.UUID) uuid.UUID { return uuid.MustParse(b.Text(query, run)) }
	decision := id(`select decision_id::text from policy_decisions where run_id = $1`, auto.RunID)
	reviewed := id(`select decision_id::text from policy_decisions where run_id = $1`, review.RunID)
	approval := id(`select approval_id::text from approvals where run_id = $1`, review.RunID)
	authorization := id(`select authorization_id::text from authorizations where run_id = $1`, auto.RunID)
	tenant, hash, reviewHash := ledgertest.Tenant, auto.IntentHash[:], review.IntentHash[:]
	var none *uuid.UUID
	var no *string

	for name, c := range map[string]struct {
		statement  string
		args       []any
		code       string
		constraint string
	}{
		"EffectWithAnAuthorizationIsTaken": {request, []any{tenant, auto.RunID, 2, hash, authorization}, "", ""},
		"EffectWithoutAnAuthorization": {request, []any{tenant, auto.RunID, 2, hash, uuid.New()}, foreignKeyViolation,
			"effects_authorized"},
		"EffectWithAnAuthorizationOfAnotherRun": {request, []any{tenant, review.RunID, 1, reviewHash, authorization}, foreignKeyViolation,
			"effects_authorized"},
		"EffectWithAnAuthorizationOfAnotherTenant": {request, []any{"other", auto.RunID, 2, hash, authorization}, foreignKeyViolation,
			"effects_authorized"},
		"EffectOfAnotherIntent": {request, []any{tenant, auto.RunID, 2, reviewHash, authorization}, foreignKeyViolation,
			"effects_authorized"},
		"EffectUnderAnotherName":  {`update effects set operation_id = operation_id || '0'`, nil, checkViolation, "effects_operation"},
		"EffectSentWithoutALease": {`update effects set state = 'sending'`, nil, checkViolation, "effects_lease"},

		"AuthorizationOnADecisionIsTaken": {authorize, []any{tenant, auto.RunID, hash, decision, "auto", none, no}, "", ""},
		"AuthorizationOnADecisionThatAskedPeople": {authorize, []any{tenant, review.RunID, reviewHash, reviewed, "human_review", none, no},
			checkViolation, "authorizations_route_auto"},
		"AuthorizationThatCallsThatDecisionAuto": {authorize, []any{tenant, review.RunID, reviewHash, reviewed, "auto", none, no},
			foreignKeyViolation, "authorizations_decision"},
		"AuthorizationOnADecisionOfAnotherTenant": {authorize, []any{"other", auto.RunID, hash, decision, "auto", none, no},
			foreignKeyViolation, "authorizations_decision"},
		"AuthorizationOnAPendingApproval": {authorize, []any{tenant, review.RunID, reviewHash, none, no, approval, "pending"},
			checkViolation, "authorizations_approval_approved"},
		"AuthorizationThatCallsThatApprovalApproved": {authorize, []any{tenant, review.RunID, reviewHash, none, no, approval, "approved"},
			foreignKeyViolation, "authorizations_approval"},
		"AuthorizationOnNothing":     {authorize, []any{tenant, auto.RunID, hash, none, no, none, no}, checkViolation, "authorizations_basis"},
		"AuthorizationOnHalfOfIt":    {authorize, []any{tenant, auto.RunID, hash, decision, no, none, no}, checkViolation, "authorizations_basis"},
		"AuthorizationWithNoRoute":   {`update authorizations set decision_route = null`, nil, checkViolation, "authorizations_basis"},
		"DecisionThatChangesItsMind": {`update policy_decisions set route = 'reject' where run_id = $1`, []any{auto.RunID}, foreignKeyViolation, "authorizations_decision"},
		"DecisionOnNoIntent": {`update policy_decisions set intent_hash = sha256('') where run_id = $1`, []any{review.RunID},
			foreignKeyViolation, "policy_decisions_intent"},
		"IntentThatChanges": {`update intents set canonical = '{}' where run_id = $1`, []any{review.RunID}, checkViolation, "intents_hash_matches"},
		"IntentThatChangesItsHash": {`update intents set canonical = '{}', intent_hash = sha256('{}') where run_id = $1`, []any{auto.RunID},
			foreignKeyViolation, "policy_decisions_intent"},
		"SecondPendingApproval": {`insert into approvals (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons,
correlation_id, decide_by, execute_within) select tenant_id, run_id, intent_hash, gen_random_uuid(), action_type, audience, reasons,
correlation_id, decide_by, execute_within from approvals`, nil, "23505", "approvals_one_pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, constraint := codeOf(t, b.Owner, c.statement, c.args...)
			require.Equal(t, c.code, code)
			require.Equal(t, c.constraint, constraint)
		})
	}

	t.Run("ApprovalThatWasUsedStaysApproved", func(t *testing.T) {
		t.Parallel()
		b := b.For(t)
		used := undecided(t, b, "used")
		decide(t, b.Policy, ledgertest.Decision(used, newID(), config.RouteHumanReview))
		b.Exec(`update approvals set state = 'approved', decided_at = now() where run_id = $1`, used.RunID)
		code, _ := codeOf(t, b.Owner, `update approvals set state = 'rejected' where run_id = $1`, used.RunID)
		require.Empty(t, code, "an approval that authorized nothing yet can be taken back")
		b.Exec(authorize, tenant, used.RunID, used.IntentHash[:], none, no,
			uuid.MustParse(b.Text(`select approval_id::text from approvals where run_id = $1`, used.RunID)), "approved")
		for _, state := range []string{"rejected", "expired", "superseded", "pending"} {
			code, constraint := codeOf(t, b.Owner, `update approvals set state = $2,
decided_at = case when $2 <> 'pending' then now() end where run_id = $1`, used.RunID, state)
			require.Equal(t, foreignKeyViolation, code)
			require.Equal(t, "authorizations_approval", constraint)
		}
	})
}

// TestGrants tries statements as the services themselves: each may do its own moves and no other's.
func TestGrants(t *testing.T) { // D1
	t.Parallel()
	b := ledgertest.New(t)
	services := []string{ledger.Intake, ledger.Policy, ledger.Approval, ledger.Dispatcher, ledger.Reconciler, ledger.Relay, ledger.Operator}
	pools := map[string]*pgxpool.Pool{}
	for _, service := range services {
		pools[service] = b.DB.Pool("holdpoint_" + service)
	}
	all := func(except ...string) (rest []string) {
		for _, service := range services {
			if !slices.Contains(except, service) {
				rest = append(rest, service)
			}
		}
		return rest
	}
	for name, c := range map[string]struct {
		statement string
		refused   []string // to these; the others get past the grants
	}{
		"ApprovedApproval": {`insert into approvals (tenant_id, run_id, intent_hash, approval_id, state, action_type, audience, reasons,
correlation_id, decide_by, execute_within) select 't', gen_random_uuid(), '', gen_random_uuid(), 'approved', 'a', '{}', '{}', '', now(),
interval '1 hour' where false`, all()},
		"DecidedApproval": {`update approvals set state = 'approved', decided_at = now() where false`, all(ledger.Approval)},
		"Authorization": {`insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, decision_id, decision_route, execute_by)
select 't', gen_random_uuid(), '', gen_random_uuid(), gen_random_uuid(), 'auto', now() where false`, all(ledger.Policy)},
		"AuthorizationOnAnApproval": {`insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, approval_id,
approval_state, execute_by) select 't', gen_random_uuid(), '', gen_random_uuid(), gen_random_uuid(), 'approved', now() where false`, all(ledger.Approval)},
		"Decision": {`insert into policy_decisions (tenant_id, run_id, intent_hash, decision_id, route, policy_version, inputs_hash, reasons)
select 't', gen_random_uuid(), '', gen_random_uuid(), 'auto', '', '', '{}' where false`, all(ledger.Policy)},
		"PendingEffect": {`insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type,
connector, operation, target_system, target_record, execute_by, next_check_at)
select 't', gen_random_uuid(), 1, 1, '', gen_random_uuid(), '', '', '', '', '', '', now(), now() where false`, all(ledger.Policy, ledger.Approval)},
		"SendingEffect": {`insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type,
connector, operation, target_system, target_record, execute_by, next_check_at, state)
select 't', gen_random_uuid(), 1, 1, '', gen_random_uuid(), '', '', '', '', '', '', now(), now(), 'sending' where false`, all()},
		"EffectThatPointsElsewhere": {`update effects set target_record = '' where false`, all()},
		"EffectUnderAnotherIntent":  {`update effects set intent_hash = '' where false`, all()},
		"EffectWithMoreTime":        {`update effects set execute_by = now() where false`, all(ledger.Approval)},
		"LeasedEffect":              {`update effects set state = 'sending', lease_owner = gen_random_uuid() where false`, all(ledger.Dispatcher, ledger.Reconciler, ledger.Operator)},
		"Attempt":                   {`insert into effect_attempts (tenant_id, run_id, revision, ordinal, attempt, owner, switch_epoch) select 't', gen_random_uuid(), 1, 1, 1, gen_random_uuid(), 1 where false`, all(ledger.Dispatcher)},
		"AttemptOfAnotherOwner":     {`update effect_attempts set owner = gen_random_uuid() where false`, all()},
		"Vote": {`insert into reviews (tenant_id, run_id, approval_id, ordinal) select 't', gen_random_uuid(), gen_random_uuid(), 1 where false`,
			all(ledger.Approval)},
		"Token":                   {`insert into approval_tokens (token_hash) select '' where false`, all(ledger.Approval)},
		"TokenThatLivesLonger":    {`update approval_tokens set expires_at = now() where false`, all()},
		"Lookup":                  {`insert into lookups (tenant_id, run_id, revision, ordinal, lookup, verdict, conclusive, evidence) select 't', gen_random_uuid(), 1, 1, 1, '', true, '' where false`, all(ledger.Reconciler)},
		"Run":                     {`insert into runs (tenant_id, run_id, idempotency_key) select 't', gen_random_uuid(), '' where false`, all(ledger.Intake)},
		"RunUnderAnotherKey":      {`update runs set idempotency_key = '' where false`, all()},
		"RunWithAnotherPayload":   {`update runs set payload_hash = '' where false`, all()},
		"RunWithAnotherOwner":     {`update runs set lease_owner = null where false`, all(ledger.Intake)},
		"Intent":                  {`insert into intents (tenant_id, run_id, intent_hash) select 't', gen_random_uuid(), '' where false`, all(ledger.Intake)},
		"KillSwitch":              {`update kill_switches set closed = false where false`, all(ledger.Operator)},
		"KillSwitchEpoch":         {`update kill_switch_epoch set epoch = 1 where false`, all(ledger.Operator)},
		"HistoryOfTheKillSwitch":  {`delete from kill_switch_changes where false`, all()},
		"WhatAProviderToldIsDone": {`update provider_events set state = 'waiting' where false`, all(ledger.Reconciler, ledger.Operator)},
		"WhatAProviderToldOfWhat": {`update provider_events set run_id = null where false`, all(ledger.Reconciler)},
		"WhatAProviderSent":       {`select body from provider_events where false`, all(ledger.Reconciler, ledger.Operator)},
		"Policy": {`insert into policy_versions (tenant_id, version, content) select 't', '', '' where false`,
			all(ledger.Policy, ledger.Operator)},
		"PolicyThatChanges": {`update policy_versions set content = '' where false`, all()},
		"ActivePolicy":      {`update policy_active set version = '' where false`, all(ledger.Policy, ledger.Operator)},
		"NoPolicy":          {`delete from policy_active where false`, all()},
		"Published":         {`delete from pending where false`, all(ledger.Relay)},
		"Partitions":        {`select maintain_partitions(7, 14)`, all(ledger.Relay)},
		"Table":             {`create table mine ()`, all()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, service := range services {
				code, _ := codeOf(t, pools[service], c.statement)
				if slices.Contains(c.refused, service) {
					require.Equal(t, noPrivilege, code, service)
				} else {
					require.NotEqual(t, noPrivilege, code, service)
				}
			}
		})
	}

	for _, table := range []string{"audit_events", "event_log", "policy_decisions", "authorizations", "intents", "run_payloads",
		"run_conflicts", "lookups", "kill_switch_changes", "provider_event_changes", "reviews", "policy_versions", "policy_activations"} {
		t.Run("NobodyChangesOrRemovesFrom_"+table, func(t *testing.T) {
			t.Parallel()
			for _, service := range services {
				for _, privilege := range []string{"update", "delete", "truncate"} {
					require.Equal(t, "false", b.For(t).Text(`select (has_table_privilege($1, $2, $3)
or ($3 = 'update' and has_any_column_privilege($1, $2, 'update')))::text`, "holdpoint_"+service, table, privilege), "%s %s", service, privilege)
				}
			}
		})
	}
}
