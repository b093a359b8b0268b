package world_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// TestWhatChangedSinceItWasAuthorizedGoesBackToPeople covers the time between the decision and the first byte (D4, D5).
func TestWhatChangedSinceItWasAuthorizedGoesBackToPeople(t *testing.T) {
	t.Parallel()
	// approved takes an event as far as its authorization, with no dispatcher there to send it.
	approved := func(t *testing.T) (*world.World, world.Event) {
		w := world.New(t, world.WithReplicas(ledger.Dispatcher, 0))
		event := w.Update()
		w.Post(event)
		w.Await(event, contracts.StateApproved)
		return w, event
	}
	returned := func(t *testing.T, w *world.World, event world.Event, code, message string) {
		t.Helper()
		w.Await(event, contracts.StateAwaitingHuman)
		record := w.Explain(event)
		require.Equal(t, "pending", record.Approvals[0].State)
		requireReason(t, record.Approvals[0].Reasons, code, message)
		require.Equal(t, "held", record.Effects[0].State)
		require.Equal(t, ledger.HoldReview, record.Effects[0].HoldReason)
		told := w.AwaitTold(event, contracts.TypeRunAwaitingHuman).Data.(*contracts.RunAwaitingHuman)
		require.Contains(t, told.Reasons, code)
		passBy(w)
		require.Empty(t, w.Writes(event))
	}

	t.Run("TargetIsAtAnotherVersion", func(t *testing.T) {
		t.Parallel()
		w, event := approved(t)
		edit(t, w, event)
		w.Start(ledger.Dispatcher)
		returned(t, w, event, "target_changed", "at version 2; the proposal was made from version 1")
		require.False(t, w.Explain(event).Effects[0].Attempts[0].Sent)
		require.Equal(t, "Porto", field(t, w, event, "city"))
	})

	t.Run("TargetChangesBetweenTheLastLookAndTheWrite", func(t *testing.T) {
		t.Parallel()
		w, event := approved(t)
		ids := w.Fault(sandbox.Rule{Match: sandbox.Match{Reference: event.OperationID(), Operation: sandbox.Update},
			Fault: sandbox.Fault{Kind: sandbox.Delay, Duration: sandbox.Duration(time.Second)}})
		w.Start(ledger.Dispatcher)
		require.NoError(t, w.Sandbox.AwaitFault(t.Context(), ids[0], 1))
		edit(t, w, event)
		returned(t, w, event, "target_changed", "at version 2; the proposal was made from version 1")
		attempt := world.Calls(w.Explain(event).Effects[0].Attempts)[0]
		require.Equal(t, "version_conflict", attempt.Class, "the provider's own check has caught it")
		require.Equal(t, "Porto", field(t, w, event, "city"))
	})

	t.Run("PolicyIsStricterNow", func(t *testing.T) {
		t.Parallel()
		w, event := approved(t)
		w.Configure(func(c *config.Config) {
			c.Tenants[0].Rules = append(c.Tenants[0].Rules, &config.Rule{ID: "freeze", Action: "crm.contact.update",
				When:  `proposed_change.fields.city == "Lisbon" && target.record_id == "` + event.Contact() + `"`,
				Route: config.RouteHumanReview, Reason: "Contacts in Lisbon are frozen."})
		})
		w.Start(ledger.Dispatcher)
		returned(t, w, event, "rule_matched", "Contacts in Lisbon are frozen.")
	})

	t.Run("EvidenceIsTooOldNow", func(t *testing.T) {
		t.Parallel()
		w, event := approved(t)
		w.Configure(func(c *config.Config) {
			for _, a := range c.Tenants[0].Actions {
				for i := range a.Evidence {
					a.Evidence[i].MaxAge = time.Nanosecond
				}
			}
		})
		w.Start(ledger.Dispatcher)
		w.Await(event, contracts.StateAwaitingHuman)
		requireReason(t, w.Explain(event).Approvals[0].Reasons, "evidence_stale", "Evidence from crm is older than")
		require.Empty(t, w.Writes(event))
	})
}

// requireReason looks for one among those that a person is shown.
func requireReason(t *testing.T, reasons []world.Reason, code, message string) {
	t.Helper()
	require.True(t, slices.ContainsFunc(reasons, func(r world.Reason) bool {
		return r.Code == code && strings.Contains(r.Message, message)
	}), "%+v", reasons)
}

// edit is somebody else's change of the event's contact.
func edit(t *testing.T, w *world.World, e world.Event) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPatch, w.Sandbox.URL()+"/crm/contacts/"+e.Contact(),
		strings.NewReader(`{"reference":"somebody-else","fields":{"city":"Porto"}}`))
	require.NoError(t, err)
	req.Header.Set("If-Match", "*")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
