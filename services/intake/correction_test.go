package intake_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

const correctedSources = `sources:
  - id: drafts
    mode: worker
    corrects: /corrects
    rules: [{version: 1, key: {header: Idempotency-Key}}]
`

func TestCorrections(t *testing.T) { // K10
	t.Parallel()
	w := newWorld(t)
	w.config = configured(t, correctedSources)
	shared := w.start()
	body := func(key, by, reason string) string {
		return asJSON(w, map[string]any{"task": "t", "corrects": map[string]any{"key": key, "by": by, "reason": reason}})
	}
	end := func(r *replica, key string) {
		r.t.Helper()
		require.Equal(r.t, contracts.ResultAccepted, r.post("drafts", key, `{"task":"t"}`).result())
		r.exec(`update runs set state = 'failed_terminal', outcome = 'rejected', ended_at = now() where idempotency_key = $1`, key)
	}

	t.Run("ACorrectionNamesTheOriginalAndWhoAnswersForIt", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		end(r, "c1")
		a := r.post("drafts", "c1-fix", body("c1", "Otto@example.test", "wrong city"))
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, "c1 Otto@example.test wrong city rejected", one[string](r.world, `select concat_ws(' ', o.idempotency_key,
corrected_by, reason, original_outcome) from corrections c join runs o on o.run_id = c.original_run where c.run_id = $1`, a.RunID))
		require.Equal(t, contracts.ResultDuplicate,
			r.post("drafts", "c1-fix", body("c1", "Otto@example.test", "wrong city")).result())
		require.Equal(t, contracts.ResultPayloadMismatch,
			r.post("drafts", "c1-fix", body("c1", "Otto@example.test", "another reason")).result(), "the hash covers it")
	})

	t.Run("WhatIsStillGoingIsA409AndWhatNeverWasA422", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		r.post("drafts", "c2", `{"task":"t"}`)
		open := r.post("drafts", "c2-fix", body("c2", "otto", "x"))
		require.Equal(t, http.StatusConflict, open.status)
		require.Equal(t, contracts.CodeOriginalOpen, open.result())
		none := r.post("drafts", "c3-fix", body("c3", "otto", "x"))
		require.Equal(t, http.StatusUnprocessableEntity, none.status)
		require.Equal(t, contracts.CodeNoOriginal, none.result())
		require.Zero(t, r.count(`select count(*) from runs where idempotency_key like 'c_-fix' and idempotency_key > 'c2'`))
	})

	t.Run("OverNATSItIsParkedAndTold", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		answers := r.publish(message{source: "drafts", header: keyed("c4-fix"), body: body("c4", "otto", "x")})
		require.Equal(t, contracts.CodeNoOriginal, next(r.world, answers).result())
		r.await(`exists (select from parked_messages where reason like 'no_original:%')`)
	})

	t.Run("WhatDoesNotSayAllIsRefused", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		for name, text := range map[string]string{
			"no key": body("", "otto", "x"), "its own key": body("c5-fix", "otto", "x"), "nobody": body("c5", "", "x"),
			"a stranger": body("c5", "nobody@example.test", "x"), "no reason": body("c5", "otto", ""),
			"no object": `{"task":"t","corrects":"c5"}`,
		} {
			a := r.post("drafts", "c5-fix", text)
			require.Equal(t, contracts.CodeSchemaInvalid, a.result(), name)
			require.NotEmpty(t, a.problem.Errors, name)
		}
		require.Equal(t, contracts.ResultAccepted, r.post("drafts", "c6", `{"task":"t","corrects":null}`).result())
	})
}
