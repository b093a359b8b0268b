package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

func TestTemplate(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	t.Run("EventOfAKeyIsAProposalForItsOwnContact", func(t *testing.T) {
		t.Parallel()
		body := newTemplate(contactUpdate, "ab12", started)
		var event struct {
			EventID  string             `json:"event_id"`
			Proposal contracts.Proposal `json:"proposal"`
		}
		require.NoError(t, json.Unmarshal(body.render(nil, 4711), &event))
		require.Equal(t, "evt-ab12-00004711", event.EventID)
		require.Equal(t, contracts.Target{System: "crm", RecordID: "c-ab12-00004711"}, event.Proposal.Target)
		require.Equal(t, "crm.contact.update", event.Proposal.ActionType)
		require.Equal(t, "1", event.Proposal.CurrentVersion)
		require.JSONEq(t, `{"fields":{"city":"Lisbon"}}`, string(event.Proposal.ProposedChange))
		require.Len(t, event.Proposal.Evidence, 1)
		require.Equal(t, started, event.Proposal.Evidence[0].ObservedAt)
		require.Equal(t, "https://crm.example/contacts/c-ab12-00004711", event.Proposal.Evidence[0].URL)
		require.Equal(t, "crm-enrichment@3", event.Proposal.WorkflowVersion)
	})

	t.Run("RefundOfAKeyNamesItsOwnPaymentAndWhoAsked", func(t *testing.T) {
		t.Parallel()
		body := newTemplate(refund, "ab12", started)
		var event struct {
			TicketID    string             `json:"ticket_id"`
			RequestedBy string             `json:"requested_by"`
			Proposal    contracts.Proposal `json:"proposal"`
		}
		require.NoError(t, json.Unmarshal(body.render(nil, 4711), &event))
		require.Equal(t, "t-ab12-00004711", event.TicketID)
		require.Equal(t, "rita", event.RequestedBy)
		require.Equal(t, contracts.Target{System: "payments", RecordID: "p-ab12-00004711"}, event.Proposal.Target)
		require.Equal(t, "payment.refund", event.Proposal.ActionType)
		require.JSONEq(t, `{"payment_id":"p-ab12-00004711","amount":250.00,"currency":"EUR"}`,
			string(event.Proposal.ProposedChange))
		require.Len(t, event.Proposal.Evidence, 1)
		require.Equal(t, started, event.Proposal.Evidence[0].ObservedAt)
		require.Equal(t, "support-refunds@2", event.Proposal.WorkflowVersion)
	})

	t.Run("CopiesAreIdenticalWhateverWasInTheMemory", func(t *testing.T) {
		t.Parallel()
		body := newTemplate(contactUpdate, "ab12", started)
		first := string(body.render(nil, 7))
		buffer := body.render(nil, 99_999_999)
		require.Len(t, buffer, len(first))
		require.Equal(t, first, string(body.render(buffer, 7)))
	})
}

// TestRenderingAllocatesNothing is not parallel, because allocations of other tests would count.
func TestRenderingAllocatesNothing(t *testing.T) {
	body := newTemplate(contactUpdate, "ab12", time.Unix(0, 0))
	buffer := body.render(nil, 0)
	require.Zero(t, testing.AllocsPerRun(100, func() { buffer = body.render(buffer, 8) }))
}
