package intake_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// sendBack is what policy or a person does to a run whose proposal has to be better.
func (r *replica) sendBack(run string) {
	r.t.Helper()
	r.exec(`update runs set revise_by = clock_timestamp() + interval '1 hour', attempts = 0, next_check_at = null where run_id = $1`, run)
	r.exec(`insert into waiting_runs (tenant_id, run_id, source, available_at) select tenant_id, run_id, source, clock_timestamp()
from runs where run_id = $1 on conflict (run_id, tenant_id) do update set available_at = excluded.available_at, owner = null`, run)
	r.exec(`insert into sent_back (tenant_id, run_id, revision, sent_by, reasons)
select tenant_id, run_id, intent_revision, 'nora', '[{"code": "sent_back", "message": "Another contact."}]' from runs where run_id = $1`, run)
}

func TestRevisions(t *testing.T) { // P2, A18
	t.Parallel()
	w := newWorld(t)
	w.config = configured(t, waitingSources)
	shared := w.start()

	t.Run("WhatWasSentBackIsGivenOutWithWhyAndABetterProposalIsANewRevision", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		run := r.post("inline", "back", `{"proposal": `+marshal(t, proposal)+`}`).RunID
		r.sendBack(run)
		work, status := r.take("inline", `{}`)
		require.Equal(t, http.StatusOK, status)
		require.Len(t, work.Work, 1)
		item := work.Work[0]
		require.Equal(t, run, item.Run.RunID)
		require.Equal(t, []any{1, "nora"}, []any{item.SentBack.Revision, item.SentBack.SentBy})
		require.JSONEq(t, `[{"code": "sent_back", "message": "Another contact."}]`, string(item.SentBack.Reasons))
		var before struct{ Revision int }
		require.NoError(t, json.Unmarshal(item.SentBack.Intent, &before))
		require.Equal(t, 1, before.Revision)

		same := r.under(item.Run.Lease, run, "proposal", map[string]any{"proposal": proposal})
		require.Equal(t, contracts.CodeSchemaInvalid, same.problem.Code)
		require.Contains(t, same.problem.Detail, "This is the proposal that was sent back")

		changed := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(marshal(t, proposal)), &changed))
		changed["target"] = map[string]any{"system": "crm", "record_id": "another-" + uuid.NewString()}
		for range 2 {
			require.Equal(t, contracts.ResultAccepted, r.under(item.Run.Lease, run, "proposal", map[string]any{"proposal": changed}).result(),
				"a submission that is repeated is answered as the first was")
		}
		require.Equal(t, 2, r.count(`select count(*) from intents where run_id = $1`, run))
		require.Equal(t, 1, r.count(`select count(*) from runs where run_id = $1 and intent_revision = 2 and revise_by is null`, run))
	})

	t.Run("AWorkerMayGiveItBack", func(t *testing.T) { // K6
		t.Parallel()
		r := shared.as(t)
		run := r.post("inline", "given-back", `{"proposal": `+marshal(t, proposal)+`}`).RunID
		r.exec(`update runs set source = 'http' where run_id = $1`, run)
		r.sendBack(run)
		work, _ := r.take("http", `{}`)
		gone := r.under(work.Work[0].Run.Lease, run, "failure", map[string]any{"retryable": true, "reason": "no model"})
		require.Equal(t, "processing", gone.State)
		require.Equal(t, 1, r.count(`select count(*) from waiting_runs where run_id = $1`, run))
	})
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
