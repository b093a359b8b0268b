package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func TestCandidates(t *testing.T) { // P4
	t.Parallel()
	tenant := &config.Tenant{ID: "demo", Actions: []*config.Action{{Type: "crm.contact.update", Reversible: true},
		{Type: "payment.refund"}, {Type: "care.note", Reversible: true, Profession: "medical"}}}
	reviewed := func(action, change, state, by string) *ledger.Reviewed {
		return &ledger.Reviewed{ActionType: action, Canonical: fmt.Appendf(nil, `{"actions":[{"proposed_change":%s}]}`, change), State: state,
			Reasons: []byte(`[{"code":"no_rule_matched","message":"x"}]`), Reviewers: []string{by}, Waited: 4 * time.Second,
			RunOutcome: ledger.OutcomeExecuted, Key: "k"}
	}
	report := func(t *testing.T, all ...*ledger.Reviewed) CandidateReport {
		t.Helper()
		c := NewCandidates(tenant, 3)
		for _, r := range all {
			require.NoError(t, c.Add(r))
		}
		return c.Report()
	}
	city := func(by string) *ledger.Reviewed {
		return reviewed("crm.contact.update", `{"fields":{"city":"Porto","a/b":1}}`, ledger.ApprovalApproved, by)
	}

	t.Run("WhatWasAlwaysApprovedIsNamedWithItsFields", func(t *testing.T) {
		t.Parallel()
		got := report(t, city("nora"), city("nora"), city("sam"))
		require.Equal(t, []Candidate{{ActionType: "crm.contact.update", Fields: []string{"/fields/a~1b", "/fields/city"},
			Reasons: []string{"no_rule_matched"}, Approved: 3, Reviewers: 2, MedianSeconds: 4, Keys: []string{"k", "k", "k"}}}, got.Candidates)
	})

	t.Run("WhatWasEverTurnedDownOrFailedOrIsSeldomIsNot", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, report(t, city("nora"), city("nora")).Candidates)
		no := city("sam")
		no.State = ledger.ApprovalRejected
		require.Empty(t, report(t, city("nora"), city("nora"), city("nora"), no).Candidates)
		failed := city("sam")
		failed.RunOutcome = ledger.OutcomeFailed
		require.Empty(t, report(t, city("nora"), city("nora"), city("nora"), failed).Candidates)
		other := reviewed("crm.contact.update", `{"fields":{"email":"x"}}`, ledger.ApprovalRejected, "sam")
		require.Len(t, report(t, city("nora"), city("nora"), city("nora"), other).Candidates, 1, "other fields are another kind")
	})

	t.Run("WhatCanNeverActByItselfIsLeftOut", func(t *testing.T) {
		t.Parallel()
		for _, action := range []string{"payment.refund", "care.note", "gone.type"} {
			r := reviewed(action, `{}`, ledger.ApprovalApproved, "nora")
			require.Equal(t, CandidateReport{Tenant: "demo", Candidates: []Candidate{}}, report(t, r, r, r))
		}
	})
}
