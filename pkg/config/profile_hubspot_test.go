package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// TestProfileHubSpotLike holds the profile against the sandbox's like of it: no keys, upserts by a unique property, an index that lags.
func TestProfileHubSpotLike(t *testing.T) {
	t.Parallel()
	hubspot := shipped{profile: "hubspot_like", path: "/hubspot", system: sandbox.HubSpot}
	const (
		create  = `{"target":{"system":"crm","record_id":"new"},"proposed_change":{"properties":{"email":"ada@example.test","city":"Lisbon"}}}`
		changed = `{"target":{"system":"crm","record_id":"new"},"proposed_change":{"properties":{"city":"Porto"}}}`
		update  = `{"target":{"system":"crm","record_id":"511"},"proposed_change":{"properties":{"city":"Porto","employees":7}}}`
	)
	once := func(action string, class outcome.Class) []step { return []step{{action: action, class: class}} }
	lagging := sandbox.Personality{IndexLag: sandbox.Duration(30 * time.Second)}
	hubspot.run(t, []exchange{
		{name: "AContactIsFoundAtOnceWhateverTheIndexShows", operation: "create_contact", personality: lagging,
			steps: once(create, outcome.Succeeded), looks: []look{{0, connector.Found, true}}, writes: 1},
		{name: "TheSameUpsertAgainIsTheSameContact", operation: "create_contact",
			steps: []step{{action: create, class: outcome.Succeeded}, {action: create, class: outcome.Succeeded}}, writes: 1},
		{name: "AnotherUpsertOfTheSameOperationChangesTheContact", operation: "create_contact",
			steps: []step{{action: create, class: outcome.Succeeded}, {action: changed, class: outcome.Succeeded}}, writes: 2},
		{name: "ALostAnswerIsFoundAndIsNoSecondContact", operation: "create_contact", fault: lostAnswer, personality: lagging,
			steps: []step{{action: create, class: outcome.Ambiguous}, {action: create, class: outcome.Succeeded}},
			looks: []look{{0, connector.Found, true}}, writes: 1},
		{name: "WhatWasNotTakenIsNotThere", operation: "create_contact", fault: notTaken,
			steps: once(create, outcome.Ambiguous), looks: []look{{0, connector.Absent, true}}},
		{name: "AFailureAfterTheWrite", operation: "create_contact", fault: wrote(502, "bad_gateway"),
			steps: once(create, outcome.Ambiguous), looks: []look{{0, connector.Found, true}}, writes: 1},
		{name: "AnErrorInAMultiStatus", operation: "create_contact", fault: answers(207, "VALIDATION_ERROR"),
			steps: once(create, outcome.Refused)},
		{name: "AnErrorInAMultiStatusThatNobodyKnows", operation: "create_contact", fault: answers(207, "INTERNAL"),
			steps: once(create, outcome.Ambiguous)},
		{name: "Locked", operation: "create_contact", fault: answers(423, "LOCKED"), steps: once(create, outcome.RejectedBusy)},
		{name: "Busy", operation: "create_contact", fault: busy, steps: once(create, outcome.RejectedBusy)},
		{name: "NotAuthorized", operation: "create_contact", fault: answers(401, "INVALID_AUTHENTICATION"),
			steps: once(create, outcome.Unauthorized)},
		{name: "AContactThatIsNotThereIsNotUpdated", operation: "update_contact", steps: once(update, outcome.Refused)},
	})

	t.Run("ContactsOfOneMailAddressAreNotMadeTwice", func(t *testing.T) {
		t.Parallel()
		p := hubspot.provider(t)
		require.Equal(t, outcome.Succeeded, p.send(p.operation("create_contact", step{action: create, id: "op-1"})).Class)
		result := p.send(p.operation("create_contact", step{action: create, id: "op-2"}))
		require.Equal(t, outcome.Refused, result.Class, result.Detail)
		require.Equal(t, connector.Absent, p.Reconcile(t.Context(), p.operation("create_contact", step{action: create, id: "op-2"})).Verdict)
		require.Len(t, p.written(sandbox.HubSpot), 1)
	})

	t.Run("ALostUpdateIsForAnOperator", func(t *testing.T) {
		t.Parallel()
		p := hubspot.provider(t)
		p.send(p.operation("create_contact", step{action: create}))
		p.prepare(sandbox.HubSpot, exchange{fault: lostAnswer})
		op := p.operation("update_contact", step{action: update, id: "op-2"})
		require.Equal(t, outcome.Ambiguous, p.send(op).Class)
		require.Equal(t, connector.Unclear, p.Reconcile(t.Context(), op).Verdict)
		require.Len(t, p.written(sandbox.HubSpot), 2)
	})

	t.Run("AnUpdateIsReadAgainAndComparedWhereItCanBe", func(t *testing.T) {
		t.Parallel()
		p := hubspot.provider(t)
		made := p.send(p.operation("create_contact", step{action: create}))
		require.Equal(t, "511", made.ExternalID)
		op := p.operation("update_contact", step{action: update, id: "op-2"})
		for range 2 {
			result := p.send(op)
			require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
			verified := p.Verify(t.Context(), op, result.RecordVersion)
			require.Equal(t, connector.Matched, verified.Verdict, verified.Evidence)
			require.Contains(t, verified.Evidence, "of 1 fields")
		}
		require.Len(t, p.written(sandbox.HubSpot), 2, "the second update changed nothing")
	})

	t.Run("NothingIsReliedOnToReplay", func(t *testing.T) {
		t.Parallel()
		for _, op := range hubspot.provider(t).declared.Operations {
			require.False(t, op.IdempotentCreate())
		}
	})
}
