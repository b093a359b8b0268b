package intake_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/intent"
)

// storedIntent is the intent of a run, read back.
func storedIntent(w *world, run string) *intent.Snapshot {
	w.t.Helper()
	var bytes, hash []byte
	require.NoError(w.t, w.sql.QueryRow(w.t.Context(), "select canonical, intent_hash from intents where run_id = $1",
		run).Scan(&bytes, &hash))
	s, err := intent.Read(bytes, canonical.Digest(hash))
	require.NoError(w.t, err)
	return s
}

// The two ways in of today: with the event (M1a), and by a worker under its lease (M1b).
func TestProposals(t *testing.T) {
	t.Parallel()
	shared := newWorld(t).start()

	t.Run("AnEventBringsItsOwn", func(t *testing.T) {
		r := shared.as(t)
		a := r.post("inline", "own", goodEvent)
		s := storedIntent(r.world, a.runID())
		require.Equal(t, "demo", s.TenantID)
		require.Equal(t, "own", s.RunKey)
		require.Equal(t, 1, s.Revision)
		require.Equal(t, "crm.contact.update", s.ActionType)
		require.Equal(t, "sandbox-crm", s.Connector)
		require.NotEmpty(t, s.Destination)
		require.Equal(t, `{"fields":{"city":"Lisbon"}}`, s.Change.String())
		require.Equal(t, r.config.Tenants[1].PolicyVersion, s.PolicyVersion)
		require.Equal(t, 1, r.count("select intent_revision from runs where run_id = $1", a.runID()))
		require.True(t, one[bool](r.world, "select submitted_by is null from intents where run_id = $1", a.runID()))
		require.Zero(t,
			r.count("select count(*) from event_log where run_id = $1 and subject like 'holdpoint.events.%'",
				a.runID()),
			"no worker is called")
	})

	t.Run("OneThatHasSeveralActionsIsHeldAgainstTheTypeOfEach", func(t *testing.T) { // D10, M2
		r := shared.as(t)
		action := func(change string) string {
			return `{"action_type":"crm.contact.update","target":{"system":"crm","record_id":"c-1"},"proposed_change":` + change + `}`
		}
		plan := func(changes ...string) string {
			var actions []string
			for _, change := range changes {
				actions = append(actions, action(change))
			}
			return `{"event_id":"e-1","proposal":{"actions":[` + strings.Join(actions, ",") + `],"workflow_version":"crm-enrichment@3"}}`
		}
		a := r.post("inline", "plan", plan(`{"fields":{"city":"Lisbon"}}`, `{"fields":{"city":"Porto"}}`))
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, `{"fields":{"city":"Lisbon"}}`, storedIntent(r.world, a.runID()).Change.String())
		bad := r.post("inline", "bad plan", plan(`{"fields":{"city":"Lisbon"}}`, `{"fields":{"shoe_size":"44"}}`))
		require.Equal(t, contracts.CodeSchemaInvalid, bad.problem.Code)
		require.Equal(t, "/proposal/actions/1/proposed_change/fields/shoe_size", bad.problem.Errors[0].Pointer)
	})

	t.Run("AWorkerBringsTheSameUnderItsLease", func(t *testing.T) {
		r := shared.as(t)
		a := r.claim("worker", event)
		require.Equal(t, contracts.ResultAccepted, r.under(a.Lease, a.runID(), "proposal",
			map[string]any{"proposal": proposal}).result())
		s := storedIntent(r.world, a.runID())
		require.Equal(t, "worker", s.RunKey)
		require.Equal(t, `{"fields":{"city":"Lisbon"}}`, s.Change.String())
		require.Equal(t, "sandbox-crm", s.Connector)
	})

	// What a model writes beside the proposal never reaches the decision (M6).
	t.Run("NothingBesideTheProposalReachesTheIntent", func(t *testing.T) {
		r := shared.as(t)
		plain := r.post("inline", "beside-1", goodEvent)
		loud := r.post("inline", "beside-2", strings.Replace(goodEvent, `"event_id"`,
			`"confidence":1,"auto_reply":true,"priority":"high","route":"auto","event_id"`, 1))
		require.Equal(t, contracts.ResultAccepted, loud.result())
		a, b := storedIntent(r.world, plain.runID()), storedIntent(r.world, loud.runID())
		require.Equal(t, strings.ReplaceAll(a.Tree.String(), "beside-1", "beside-2"), b.Tree.String())
	})

	// Policy rejects what is not registered, on the record (P1); its shape is checked all the same.
	t.Run("AnUnregisteredTypeIsLetThroughToPolicy", func(t *testing.T) {
		r := shared.as(t)
		a := r.post("inline", "unregistered", strings.Replace(goodEvent, "crm.contact.update", "crm.contact.delete", 1))
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Empty(t, storedIntent(r.world, a.runID()).Connector)
	})

	t.Run("AProblemIsNamedByItsPlaceInTheBody", func(t *testing.T) {
		r := shared.as(t)
		a := r.post("inline", "bad", strings.Replace(goodEvent, `"record_id":"c-1"`, `"record_id":7`, 1))
		require.Equal(t, []contracts.FieldError{{Pointer: "/proposal/target/record_id",
			Detail: "must be string, found number"}}, a.problem.Errors)
	})
}
