package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestEvents is what an operator does by the command line about what a provider told and nobody knows what it is about (R4).
func TestEvents(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	const body = `{"type":"refund.done","who":"Ada"}`
	told := func(id string) {
		_, err := b.Reconciler.ReceiveProviderEvents(t.Context(), []ledger.ProviderEvent{{TenantID: ledgertest.Tenant,
			Connector: ledgertest.Connector, ID: id, Body: []byte(body), ExternalID: "\x1b[2Jext-" + id, Status: "done", Verdict: ledger.ProviderSucceeded}})
		require.NoError(t, err)
		b.Exec(`update provider_events set state = 'unmatched', attempts = 13 where provider_event_id = $1`, id)
	}
	verb := func(args ...string) (int, string, string) {
		p := run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, append(append([]string{"events"}, args...), "--tenant", ledgertest.Tenant)...)
		return p.wait(t), p.out.String(), p.err.String()
	}
	said := []string{"--by", "otto", "--reason", "Their desk says so."}
	told("evt-1")
	told("evt-2")

	code, out, complaint := verb("list", "--connector", ledgertest.Connector, "--since", "1h")
	require.Zero(t, code, complaint)
	require.Contains(t, out, `"evt-1"  unmatched, succeeded "done"`)
	require.Contains(t, out, `id "\x1b[2Jext-evt-1"`, "what a provider wrote does nothing to a terminal")
	require.Contains(t, out, "2 events.")
	_, out, _ = verb("list", "--since", "2999-01-01T00:00:00Z")
	require.Equal(t, "0 events.\n", out)
	_, _, complaint = verb("list", "--since", "yesterday")
	require.Contains(t, complaint, "such as 24h")
	_, out, _ = verb("list", "--json", "--limit", "1")
	var listed []eventJSON
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Equal(t, []any{"evt-1", len(body)}, []any{listed[0].EventID, listed[0].BodyBytes})

	code, out, _ = verb("show", ledgertest.Connector, "evt-1")
	require.Zero(t, code)
	require.Contains(t, out, "body: 34 bytes, SHA-256 ")
	require.NotContains(t, out, "Ada")
	_, out, complaint = verb("show", ledgertest.Connector, "evt-1", "--body")
	require.Contains(t, complaint, "--by", "who reads personal data is kept")
	require.Empty(t, out)
	_, out, _ = verb(append([]string{"show", ledgertest.Connector, "evt-1", "--body"}, said...)...)
	require.Equal(t, body, out)
	_, _, complaint = verb("show", ledgertest.Connector, "none")
	require.Contains(t, complaint, `has told no event "none"`)

	_, _, complaint = verb("dismiss", ledgertest.Connector, "evt-2")
	require.Contains(t, complaint, "say who decides this")
	code, out, complaint = verb(append([]string{"dismiss", ledgertest.Connector, "evt-2"}, said...)...)
	require.Zero(t, code, complaint)
	require.Equal(t, "\"evt-2\": dismissed by otto.\n", out)
	code, _, complaint = verb(append([]string{"dismiss", ledgertest.Connector, "evt-2"}, said...)...)
	require.Equal(t, 1, code)
	require.Contains(t, complaint, "is dismissed: that is not something to dismiss")

	for range 2 { // given again under its id, it is the same
		code, out, complaint = verb(append([]string{"replay", ledgertest.Connector, "evt-1", "--wait", "0s",
			"--id", "50488b71-025d-4d15-8531-d15645bc330a"}, said...)...)
		require.Zero(t, code, complaint)
		require.Contains(t, out, "it waits to be applied")
	}
	_, out, _ = verb("show", ledgertest.Connector, "evt-1")
	require.Contains(t, out, `replay by otto, from unmatched: "Their desk says so."`)
	require.Contains(t, out, "read_body by otto")
}
