package approval

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// comesBack has the approved effect of a key sent back to people, as the dispatcher does where something has changed, and returns the
// new request.
func (g *gate) comesBack(a ledgertest.Asked, key, reasons string) ledgertest.Asked {
	g.t.Helper()
	return g.returns(a, key, reasons, g.Lease(time.Minute, servicetest.Effect(key))[0])
}

// comesBackFor is comesBack of one effect of several.
func (g *gate) comesBackFor(a ledgertest.Asked, key string, leased ledger.Leased) ledgertest.Asked {
	g.t.Helper()
	return g.returns(a, key, `[{"code":"target_changed","message":"It has changed."}]`, leased)
}

func (g *gate) returns(a ledgertest.Asked, key, reasons string, leased ledger.Leased) ledgertest.Asked {
	g.t.Helper()
	moved, err := g.Dispatcher.Settle(g.t.Context(), "record_outcomes", []ledger.Settlement{{EffectKey: leased.EffectKey, Move: "review",
		Attempt: leased.Attempt, Owner: leased.Owner, RunKey: key, CorrelationID: leased.CorrelationID, HoldReason: ledger.HoldReview,
		NextCheck: ledger.Never, Review: &ledger.Review{IntentHash: a.IntentHash.String(), Revision: 1, Reasons: []byte(reasons), ReasonCodes: []string{"changed"},
			Audience: []string{"sales-operations"}, DecideWithin: time.Hour, ExecuteWithin: time.Hour}}})
	require.NoError(g.t, err)
	require.Equal(g.t, []bool{true}, moved)
	again := g.Pending(key)
	require.NotEqual(g.t, a.ApprovalID, again.ApprovalID)
	return again
}

// part is the text of one section of a page.
func part(page seen, id string) string {
	_, rest, found := strings.Cut(page.Body, `aria-labelledby="`+id+`"`)
	if !found {
		return ""
	}
	rest, _, _ = strings.Cut(rest[strings.IndexByte(rest, '>')+1:], "</section>")
	return seen{Body: rest}.tidy()
}

// TestReReview is A17: who is asked again is shown first what has changed since.
func TestReReview(t *testing.T) {
	t.Parallel()
	g := contactGate(t)
	carl, nora := g.signedIn("carl"), g.signedIn("nora")
	const changed = `[{"code":"target_changed","message":"The target is at version 2; the proposal was made from version 1."}]`
	asked := g.change("k", map[string]any{"city": "Lisbon", "phone": "+351 1"})
	g.holds(asked, `{"/fields/city":"Porto","/fields/phone":"+351 9"}`)
	require.Empty(t, part(carl.get(cardPath(asked)), "since"), "nobody has looked before")
	require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "first").Status)
	again := g.comesBack(asked, "k", changed)
	g.reads(again, ledger.ReadResult{Found: true, Version: "2", Held: []byte(`{"/fields/city":"Faro","/fields/phone":"+351 9"}`)})
	page := nora.get(cardPath(again))

	t.Run("TheCardBeginsWithWhatIsDifferent", func(t *testing.T) {
		since := part(page, "since")
		require.Contains(t, since, "What changed since carl looked at ")
		require.Contains(t, since, "carl said approve then. It came back: The target is at version 2; the proposal was made from version 1. target_changed")
		require.Contains(t, since, "What the target holds Version 1 2 fields/city Porto Faro")
		require.NotContains(t, since, "phone", "what is as before is not repeated")
		require.NotContains(t, since, "What would be done", "it is the same intent")
		require.NotContains(t, since, "An address changes.", "that reason was given before")
		require.Less(t, strings.Index(page.Body, `id="since"`), strings.Index(page.Body, `id="decide"`))
		require.Contains(t, page.Body, `<details class="whole">`)
		require.Less(t, strings.Index(page.Body, `<details class="whole">`), strings.Index(page.Body, `id="change"`), "the whole card is below")
		require.Contains(t, carl.get(cardPath(again)).tidy(), "What changed since you looked at ")
	})
	t.Run("TheDigestIsOfThatPage", func(t *testing.T) {
		card, err := g.env.Ledger.Card(t.Context(), again.ApprovalID)
		require.NoError(t, err)
		digest := func(cities ...string) []byte {
			look := card.Looks[0]
			seen := *look.Seen.Of(1)
			seen.Held, _ = json.Marshal(map[string]string{"/fields/city": cities[0], "/fields/phone": "+351 9"})
			look.Seen = ledger.Readings{&seen}
			copied := *card
			copied.Looks = []ledger.Look{look}
			v, err := g.tenant(ledgertest.Tenant).view(&copied, false)
			require.NoError(t, err)
			p := &cardPage{View: v, Who: &identity{}}
			require.NoError(t, g.web.parts(p, g.tenant(ledgertest.Tenant)))
			return digestOf(v, p)
		}
		require.Equal(t, digest("Porto"), digest("Porto"))
		require.NotEqual(t, digest("Porto"), digest("Braga"))
		require.Equal(t, http.StatusOK, nora.decide(again, ledger.Approve, "again").Status)
		require.Equal(t, "approved 1 1", g.state(again))
	})
	t.Run("TheLatestLookCountsAndOnesOwnBeforeIt", func(t *testing.T) {
		third := g.comesBack(again, "k", `[{"code":"execute_by_passed","message":"It was not sent in time."}]`)
		g.reads(third, ledger.ReadResult{Found: true, Version: "2", Held: []byte(`{"/fields/city":"Faro","/fields/phone":"+351 9"}`)})
		require.Contains(t, part(g.signedIn("sam").get(cardPath(third)), "since"), "since nora looked")
		require.NotContains(t, part(g.signedIn("sam").get(cardPath(third)), "since"), "Porto", "nora saw what the target holds now")
		require.Contains(t, part(carl.get(cardPath(third)), "since"), "Porto", "carl saw another value")
	})
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	w := servicetest.New(t)
	read := func(t *testing.T, change func(*servicetest.Proposal)) *intent.Snapshot {
		t.Helper()
		c := w.Contact("k", func(p *servicetest.Proposal) { p.Evidence[0].ObservedAt = time.Unix(1e9, 0).UTC() }, change)
		s, err := intent.Read(c.Intent.Canonical, c.Intent.Hash)
		require.NoError(t, err)
		return s
	}
	then := read(t, func(p *servicetest.Proposal) {
		p.ProposedChange = map[string]any{"fields": map[string]any{"a": 1, "b": []int{1}, "c": "x", "same": json.Number("1.0")}}
	})
	now := read(t, func(p *servicetest.Proposal) {
		p.ProposedChange = map[string]any{"fields": map[string]any{"a": 2, "b": []int{1, 2}, "d": "y", "same": json.Number("1")}}
		p.CurrentVersion, p.Uncertainty, p.WorkflowVersion = "2", "high", "crm-enrichment@4"
		p.Evidence = []servicetest.Evidence{{Source: "crm", Version: "2", ObservedAt: time.Unix(1e9, 0).UTC()}}
	})

	t.Run("OfTwoRevisions", func(t *testing.T) {
		require.Equal(t, []difference{{What: "fields/a", Then: "1", Now: "2"}, {What: "fields/b", Then: "[\n  1\n]", Now: "[\n  1,\n  2\n]", Code: true},
			{What: "fields/d", Now: "y"}, {What: "fields/c", Then: "x"}, {What: "Expected version", Then: "1", Now: "2"},
			{What: "Stated uncertainty", Now: "high"}, {What: "Workflow version", Then: "crm-enrichment@3", Now: "crm-enrichment@4"}},
			actionDifferences([]*intent.Snapshot{then}, []*intent.Snapshot{now}))
		require.Empty(t, actionDifferences([]*intent.Snapshot{now, then}, []*intent.Snapshot{now, then}))
		more := actionDifferences([]*intent.Snapshot{then}, []*intent.Snapshot{then, now})
		require.Contains(t, more, difference{What: "Action 2: fields/a", Now: "2"})
		require.Contains(t, more, difference{What: "Action 2: Target", Then: " · ", Now: now.TargetSystem + " · " + now.TargetRecord})
	})
	t.Run("OfEvidence", func(t *testing.T) {
		at := time.Unix(1e9, 0)
		require.Equal(t, []difference{{What: "crm", Then: "version 1, 1 minute old", Now: "version 2, 2 hours old"}},
			evidenceDifferences(then.Evidence, now.Evidence, at.Add(time.Minute), at.Add(2*time.Hour)))
		require.Empty(t, evidenceDifferences(now.Evidence, now.Evidence, at, at))
		require.Equal(t, []difference{{What: "crm", Then: "version 1, less than a second old"}}, evidenceDifferences(then.Evidence, nil, at, at))
		require.Len(t, evidenceDifferences(nil, now.Evidence, at, at), 1)
	})
	t.Run("OfWhatTheTargetHolds", func(t *testing.T) {
		porto := &ledger.Reading{ReadAt: time.Unix(1, 0), Found: true, Version: "1", Held: []byte(`{"/c":"Porto","/gone":1}`)}
		faro := &ledger.Reading{ReadAt: time.Unix(2, 0), Found: true, Version: "1", Held: []byte(`{"/c":"Faro","/new":[1]}`)}
		require.Equal(t, []difference{{What: "c", Then: "Porto", Now: "Faro"}, {What: "new", Now: "[\n  1\n]", Code: true},
			{What: "gone", Then: "1"}}, heldDifferences(porto, faro))
		require.Equal(t, []difference{{What: "Version", Then: "was not read", Now: "1"}}, heldDifferences(nil, porto))
		require.Equal(t, []difference{{What: "Version", Then: "1", Now: "the target was not there"}},
			heldDifferences(porto, &ledger.Reading{ReadAt: time.Unix(3, 0)}))
		require.Empty(t, heldDifferences(nil, &ledger.Reading{Error: "HTTP 500"}))
	})
}
