package main

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestRecallCommand takes back what a model drafted, as an operator does (D16).
func TestRecallCommand(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	done := b.Lease(time.Minute, b.Approved("done")...)[0]
	_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{{EffectKey: done.EffectKey, Move: "succeed",
		Attempt: 1, Owner: done.Owner, MaybeSent: true, ExternalID: "upd_1", RunKey: "done", CorrelationID: "c",
		Outcome: &ledger.AttemptOutcome{Attempt: 1, Owner: done.Owner, Class: "succeeded", Sent: true}}})
	require.NoError(t, err)
	b.Approved("one", "two")
	b.Asked("asked")
	verb := func(t *testing.T, code int, args ...string) (out, complaint string) {
		t.Helper()
		p := run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, append([]string{"recall"}, args...)...)
		require.Equal(t, code, p.wait(t), p.err.String())
		return p.out.String(), p.err.String()
	}
	of := []string{"--tenant", ledgertest.Tenant, "--by", "olga", "--reason", "it invents cities"}

	for says, args := range map[string][]string{
		"say whose drafts":            {"start", "--tenant", "", "--model", "m", "--by", "olga", "--reason", "r"},
		"say who decides this":        {"start", "--tenant", "demo", "--model", "m", "--by", "olga"},
		"names a model, a prompt":     append([]string{"start", "--revision", "1"}, of...),
		"is no UUID":                  append([]string{"start", "--model", "m", "--id", "x"}, of...),
		"is no time such as":          append([]string{"start", "--model", "m", "--since", "yesterday"}, of...),
		"is no id of a recall":        append([]string{"lift", "x"}, of...),
		"no recall with that id":      append([]string{"lift", "6f1a2b0e-3c52-4a86-9d6d-2f9d2c1c7b54"}, of...),
		"there is no recall 6f1a2b0e": {"show", "6f1a2b0e"},
	} {
		_, complaint := verb(t, 1, args...)
		require.Contains(t, complaint, says)
	}
	require.Zero(t, b.Count(`select count(*) from recalls`))

	out, _ := verb(t, 0, append([]string{"start", "--model", "m", "--revision", "1"}, of...)...)
	id := regexp.MustCompile(`^Recall ([0-9a-f-]{36}) stands`).FindStringSubmatch(out)[1]
	require.Contains(t, out, "Held now: 2.")
	require.Contains(t, out, "Drafts: 4. Held: 2. Waiting for people: 1. In flight: 0. Unknown: 0. Done: 1.")
	require.Contains(t, out, done.OperationID()+" done "+ledgertest.ActionType+" crm/c-done completed (upd_1)")
	require.Equal(t, 2, b.Count(`select count(*) from effects where state = 'held' and hold_reason = 'recalled'`))

	out, _ = verb(t, 0, append([]string{"start", "--model", "m", "--revision", "1", "--id", id}, of...)...)
	require.Contains(t, out, "Held now: 0.")
	require.Equal(t, 1, b.Count(`select count(*) from recalls`), "started again it is the same one")
	out, _ = verb(t, 0, "show", "--tenant", ledgertest.Tenant)
	require.Contains(t, out, id+" demo model=m revision=1 by olga at ")
	out, _ = verb(t, 0, "show", id, "--json")
	var report recallReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, []int{4, 1, 2, 1, 1}, []int{report.Drafts, report.Waiting, report.Held, report.Done, len(report.Sent)})

	out, _ = verb(t, 0, append([]string{"lift", id}, of...)...)
	require.Contains(t, out, "Waiting to be sent again: 2.")
	require.Equal(t, 2, b.Count(`select count(*) from effects where state = 'pending' and hold_reason is null`))
	out, _ = verb(t, 0, "show", "--tenant", ledgertest.Tenant)
	require.Empty(t, out)
	out, _ = verb(t, 0, "show", "--tenant", ledgertest.Tenant, "--all")
	require.Contains(t, out, "(lifted)")
}
