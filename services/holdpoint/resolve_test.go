package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestDeskAndResolve is what an operator does by the command line about what could not be settled by reading (R6).
func TestDeskAndResolve(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	lost := func(key string) ledger.EffectKey {
		e := b.Lease(time.Minute, b.Approved(key)...)[0]
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{{EffectKey: e.EffectKey, Move: "lose",
			Attempt: e.Attempt,
			Owner:   e.Owner, MaybeSent: true, NextCheck: time.Hour, Outcome: &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner,
				Class: "ambiguous", Sent: true, Detail: "lost"}}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		return e.EffectKey
	}
	verb := func(args ...string) (int, string, string) {
		p := run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, append(args, "--tenant", ledgertest.Tenant)...)
		code := p.wait(t)
		return code, p.out.String(), p.err.String()
	}
	said := []string{"--by", "otto", "--reason", "Their desk says so."}
	resolve := func(e ledger.EffectKey, args ...string) (int, string) {
		code, _, complaint := verb(append(append([]string{"resolve", e.OperationID()}, said...), args...)...)
		return code, complaint
	}

	e := lost("listed")
	code, out, complaint := verb("desk")
	require.Equal(t, 0, code, complaint)
	require.Contains(t, out, e.OperationID())
	require.Contains(t, out, "unknown, crm.contact.update at sandbox-crm: 1, the oldest for ")
	_, out, _ = verb("desk", "--kind", "incident", "--json")
	require.JSONEq(t, `{"items":[],"sums":[]}`, out)

	code, complaint = resolve(e, "--not-done")
	require.Equal(t, 1, code)
	require.Contains(t, complaint, "name with --second who else has looked")
	_, complaint = resolve(e, "--not-done", "--second", " OTTO")
	require.Contains(t, complaint, "--second must be another person than --by")
	code, complaint = resolve(e, "--not-done", "--second", "sam")
	require.Equal(t, 0, code, complaint)
	require.Equal(t, "otto sam command",
		b.Text(`select concat_ws(' ', by_id, second_id, channel) from resolutions where run_id = $1`, e.RunID))

	reversible := lost("reversible")
	code, complaint = resolve(reversible, "--not-done", "--config", filepath.Join(deployed, "config/example"))
	require.Equal(t, 0, code, complaint, "the configuration says that one person is enough")

	done := lost("done")
	_, complaint = resolve(done, "--done")
	require.Contains(t, complaint, "--external-id")
	code, complaint = resolve(done, "--done", "--external-id", "u-1")
	require.Equal(t, 0, code, complaint)
	code, complaint = resolve(done, "--give-up")
	require.Equal(t, 1, code)
	require.Contains(t, complaint, "is completed; that cannot be resolved this way")
	_, complaint = resolve(ledger.EffectKey{RunID: uuid.New(), Revision: 1, Ordinal: 1}, "--give-up")
	require.Contains(t, complaint, "has no operation")
}
