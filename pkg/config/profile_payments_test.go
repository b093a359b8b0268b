package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// TestProfilePayments holds the profile against the sandbox's payments: keys that replay, and a list that lags.
func TestProfilePayments(t *testing.T) {
	t.Parallel()
	payments := shipped{profile: "payments", path: "/payments", system: sandbox.Payments}
	const (
		refund = `{"target":{"system":"payments","record_id":"pay_1"},"proposed_change":{"payment_id":"pay_1","amount":12.50,"currency":"EUR"}}`
		other  = `{"target":{"system":"payments","record_id":"pay_1"},"proposed_change":{"payment_id":"pay_1","amount":99.00,"currency":"EUR"}}`
	)
	once := func(class outcome.Class) []step { return []step{{action: refund, class: class}} }
	stored := sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: 500, Sticky: true}
	payments.run(t, []exchange{
		{name: "ARefundIsFoundOnceTheIndexHasIt", operation: "create_refund",
			personality: sandbox.Personality{IndexLag: sandbox.Duration(50 * time.Second)},
			steps:       once(outcome.Succeeded), looks: []look{{0, connector.Absent, true}, {time.Minute, connector.Found, true}}, writes: 1},
		{name: "TheSameKeyAgainIsTheSameRefund", operation: "create_refund",
			steps: []step{{action: refund, class: outcome.Succeeded}, {action: refund, class: outcome.Succeeded}}, writes: 1},
		{name: "TheSameKeyForAnotherAmountIsAnIncident", operation: "create_refund",
			steps: []step{{action: refund, class: outcome.Succeeded}, {action: other, class: outcome.KeyReused}}, writes: 1},
		{name: "TheKeyIsInFlight", operation: "create_refund", fault: answers(409, "idempotency_key_in_progress"),
			steps: once(outcome.InProgress)},
		{name: "ALostAnswerIsFoundAndIsNoSecondRefund", operation: "create_refund", fault: lostAnswer,
			steps: []step{{action: refund, class: outcome.Ambiguous}, {action: refund, class: outcome.Succeeded}},
			looks: []look{{time.Minute, connector.Found, true}}, writes: 1},
		{name: "AFailureThatIsKeptUnderTheKeyIsFoundAllTheSame", operation: "create_refund", fault: stored,
			steps: []step{{action: refund, class: outcome.Ambiguous}, {action: refund, class: outcome.Ambiguous}},
			looks: []look{{time.Minute, connector.Found, true}}, writes: 1},
		{name: "WhatWasNotTakenIsNotThere", operation: "create_refund", fault: notTaken,
			steps: once(outcome.Ambiguous), looks: []look{{time.Minute, connector.Absent, true}}},
		{name: "HalfAnAnswer", operation: "create_refund", fault: halfAnswer, steps: once(outcome.Ambiguous), writes: 1},
		{name: "TwoMatchesAreAnIncident", operation: "create_refund", searches: sandbox.Fault{Kind: sandbox.LookupDuplicate},
			steps: once(outcome.Succeeded), looks: []look{{time.Minute, connector.Several, false}}, writes: 1},
		{name: "Declined", operation: "create_refund", fault: answers(402, "insufficient_funds"), steps: once(outcome.Refused)},
		{name: "Busy", operation: "create_refund", fault: busy, steps: once(outcome.RejectedBusy)},
		{name: "NotAuthorized", operation: "create_refund", fault: answers(401, "invalid_key"), steps: once(outcome.Unauthorized)},
		{name: "NotAvailable", operation: "create_refund", fault: answers(503, "unavailable"), steps: once(outcome.Ambiguous)},
	})

	t.Run("AKeyIsReliedOnForADayLessAnHour", func(t *testing.T) {
		t.Parallel()
		op := payments.provider(t).declared.Operations[0]
		require.True(t, op.IdempotentCreate())
		require.Equal(t, 23*time.Hour, op.KeyWindow-op.KeyMargin)
	})
}

// TestProfileCRM holds the profile against the sandbox's CRM: ids that are unique, versions, and references that can be searched.
func TestProfileCRM(t *testing.T) {
	t.Parallel()
	crm := shipped{profile: "crm", path: "/crm", system: sandbox.CRM}
	const (
		create = `{"target":{"system":"crm","record_id":"x-1"},"proposed_change":{"fields":{"city":"Lisbon"}}}`
		update = `{"target":{"system":"crm","record_id":"c-1"},"current_version":"1","proposed_change":{"fields":{"city":"Lisbon"}}}`
	)
	once := func(action string, class outcome.Class) []step { return []step{{action: action, class: class}} }
	lagging := sandbox.Personality{IndexLag: sandbox.Duration(25 * time.Second)}
	crm.run(t, []exchange{
		{name: "AContactIsFoundOnceTheIndexHasIt", operation: "create_contact", personality: lagging,
			steps: once(create, outcome.Succeeded), looks: []look{{0, connector.Absent, true}, {30 * time.Second, connector.Found, true}}, writes: 1},
		{name: "TheSameContactAgainIsRefused", operation: "create_contact",
			steps: []step{{action: create, class: outcome.Succeeded}, {action: create, class: outcome.Refused}}, writes: 1},
		{name: "AContactOfSomebodyElse'sIsRefusedAndNotFound", operation: "create_contact",
			steps: []step{{action: create, class: outcome.Succeeded, id: "op-2"}, {action: create, class: outcome.Refused}}, writes: 1},
		{name: "ALostAnswerIsFound", operation: "create_contact", fault: lostAnswer,
			steps: once(create, outcome.Ambiguous), looks: []look{{30 * time.Second, connector.Found, true}}, writes: 1},
		{name: "AnUpdateIsFoundByItsReference", operation: "update_contact", personality: lagging,
			steps: once(update, outcome.Succeeded), looks: []look{{0, connector.Absent, true}, {30 * time.Second, connector.Found, true}}, writes: 1},
		{name: "AnUpdateOfAnOldVersionConflicts", operation: "update_contact",
			steps: []step{{action: update, class: outcome.Succeeded, id: "op-2"}, {action: update, class: outcome.VersionConflict}}, writes: 1},
		{name: "TheEchoOfALostUpdateIsAConflictAndTheUpdateIsFound", operation: "update_contact", fault: lostAnswer,
			steps: []step{{action: update, class: outcome.Ambiguous}, {action: update, class: outcome.VersionConflict}},
			looks: []look{{30 * time.Second, connector.Found, true}}, writes: 1},
		{name: "WhatWasNotTakenIsNotThere", operation: "update_contact", fault: notTaken,
			steps: once(update, outcome.Ambiguous), looks: []look{{30 * time.Second, connector.Absent, true}}},
		{name: "ASearchThatIsNotOffered", operation: "update_contact", personality: sandbox.Personality{NoLookup: true},
			steps: once(update, outcome.Succeeded), looks: []look{{0, connector.Unclear, false}}, writes: 1},
		{name: "Busy", operation: "update_contact", fault: busy, steps: once(update, outcome.RejectedBusy)},
		{name: "NotAuthorized", operation: "update_contact", fault: answers(403, "forbidden"), steps: once(update, outcome.Unauthorized)},
		{name: "Gone", operation: "update_contact", fault: answers(410, "gone"), steps: once(update, outcome.Refused)},
	})

	t.Run("AfterAnUpdateTheContactHoldsIt", func(t *testing.T) {
		t.Parallel()
		p := crm.provider(t)
		op := p.operation("update_contact", step{action: update})
		result := p.send(op)
		require.Equal(t, "2", result.RecordVersion)
		verified := p.Verify(t.Context(), op, result.RecordVersion)
		require.Equal(t, connector.Matched, verified.Verdict, verified.Evidence)
	})
}
