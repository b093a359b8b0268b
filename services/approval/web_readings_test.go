package approval

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// salesRefunds lets sales decide about refunds too.
func salesRefunds(tenant *config.Tenant) {
	refund := tenant.Action("payment.refund")
	refund.Audience, refund.Review = []string{"sales-operations"}, config.ReviewRule{Quorum: 1}
}

// readPayments has what a refund is about be read, by another connector than contacts.
func readPayments(tenant *config.Tenant) {
	servicetest.Operation(tenant, servicetest.Payments).Read = &config.Read{Path: "/payments/${target.record_id}", Version: "/version",
		Fields: map[string]string{"/amount": "/left"}}
}

// together has a contact's address, a refund and another contact's address wait for one decision of carl.
func (g *gate) together(key string) ledgertest.Asked {
	g.t.Helper()
	return g.waitsFor(g.Plan(key, servicetest.ContactProposal(key+"-1"), servicetest.RefundProposal(key), servicetest.ContactProposal(key+"-3")), key)
}

// readsOf stores what the target of one of several actions holds, as the reconciler does.
func (g *gate) readsOf(a ledgertest.Asked, ordinal int, r ledger.ReadResult) {
	g.t.Helper()
	var all []ledger.ActionRef
	for _, action := range g.Config.Tenants[0].Actions {
		all = append(all, ledger.ActionRef{TenantID: ledgertest.Tenant, ActionType: action.Type})
	}
	// Taking plans what is new, and passes over a request that the service is looking at in this moment.
	require.Eventually(g.t, func() bool {
		_, err := g.Reconciler.TakeReadings(g.t.Context(), all, 99, time.Hour)
		require.NoError(g.t, err)
		return g.Count(`select count(*) from action_readings where approval_id = $1`, a.ApprovalID) > 0
	}, 30*time.Second, 10*time.Millisecond)
	r.Unread = &ledger.Unread{TenantID: a.Effect.TenantID, RunID: a.Effect.RunID, ApprovalID: a.ApprovalID, IntentHash: a.IntentHash,
		Ordinal: ordinal, Several: true}
	r.Again = time.Hour
	require.NoError(g.t, g.Reconciler.RecordReadings(g.t.Context(), []ledger.ReadResult{r}))
}

// holdsEach stores what the targets hold, in the order of the actions.
func (g *gate) holdsEach(a ledgertest.Asked, held ...string) {
	g.t.Helper()
	for i, text := range held {
		g.readsOf(a, i+1, ledger.ReadResult{Found: true, Version: "1", Held: []byte(text)})
	}
}

// TestTargetsOfSeveral is A10 of a request with several actions (D10).
func TestTargetsOfSeveral(t *testing.T) {
	t.Parallel()
	g := contactGate(t, salesRefunds, readPayments)
	carl := g.signedIn("carl")

	t.Run("EachStandsBesideWhatIsProposedWithItsOwnAgeAndErrors", func(t *testing.T) {
		asked := g.together("each")
		for _, section := range []string{"change", "action-2", "action-3"} {
			require.Contains(t, part(carl.get(cardPath(asked)), section), "The target has not been read yet", section)
		}
		g.readsOf(asked, 1, ledger.ReadResult{Found: true, Version: "1", Held: []byte(`{"/fields/city":"Porto"}`)})
		g.readsOf(asked, 2, ledger.ReadResult{Found: true, Version: "9", Held: []byte(`{"/amount":20.00}`)})
		g.readsOf(asked, 2, ledger.ReadResult{Err: "HTTP 502"})
		g.readsOf(asked, 3, ledger.ReadResult{Err: "HTTP 500"})
		g.Exec(`update action_readings set read_at = '2026-01-02 03:04:05Z' where ordinal = 2 and approval_id = $1`, asked.ApprovalID)
		page := carl.get(cardPath(asked))
		first, second, third := part(page, "change"), part(page, "action-2"), part(page, "action-3")
		require.Equal(t, "fields/city changed Porto Lisbon", row(page, "fields/city"))
		require.Regexp(t, `Read at .*, version 1\.`, first)
		require.NotContains(t, first, "gave no answer")
		require.Contains(t, second, "amount changed 20 12.5")
		require.Contains(t, second, "payment_id new nothing there p-each")
		require.Regexp(t, `Read at Fri 2 Jan 2026 03:04:05 UTC, version 9\. The last try, at .*, gave no answer: HTTP 502\.`, second)
		require.Contains(t, third, "fields/city not known Lisbon")
		require.Regexp(t, `could not be read yet.*gave no answer: HTTP 500\.`, third)
		require.NotContains(t, page.Body, "is not read for the page")
	})
	t.Run("AnotherVersionAndATargetThatIsGoneAreWarnedOfByTheirAction", func(t *testing.T) {
		asked := g.together("moved")
		g.holdsEach(asked, `{}`, `{}`)
		g.readsOf(asked, 3, ledger.ReadResult{Found: true, Version: "7", Held: []byte(`{}`)})
		said := carl.get(cardPath(asked)).tidy()
		require.Contains(t, said, "The target of action 3 has changed since the proposal was made: it is at version 7, and the proposal was made "+
			"from version 1. Approved, this action comes back unless it is at that version again.")
		require.NotContains(t, said, "The target of action 1")
		require.NotContains(t, said, "The target of action 2")
		g.readsOf(asked, 2, ledger.ReadResult{})
		require.Contains(t, carl.get(cardPath(asked)).tidy(), "The target of action 2 does not exist any more: it was gone on")
		g.readsOf(asked, 1, ledger.ReadResult{Found: true, Version: "8", Held: []byte(`{}`)})
		require.Contains(t, carl.get(cardPath(asked)).tidy(), "The target of action 1 has changed since")
	})
	t.Run("HostileTextOfAnyTargetIsMarked", func(t *testing.T) { // APR-13
		asked := g.together("hostile")
		held, err := json.Marshal(map[string]any{"/fields/city": "\u202EotroP<script>alert(2)</script>"})
		require.NoError(t, err)
		g.readsOf(asked, 3, ledger.ReadResult{Found: true, Version: "\u200B1<b>", Held: held})
		g.readsOf(asked, 3, ledger.ReadResult{Err: "\u202E<script>"})
		page := carl.get(cardPath(asked))
		for _, raw := range []string{"<script>", "\u202E", "\u200B", "1<b>"} {
			require.NotContains(t, page.Body, raw)
		}
		require.Contains(t, part(page, "action-3"), "⟦U+202E⟧otroP")
	})
	t.Run("WhatIsDoneAlreadyIsNotWarnedOf", func(t *testing.T) {
		asked := g.waitsFor(g.Plan("done", servicetest.ContactProposal("done-1"), servicetest.ContactProposal("done-2")), "done")
		require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "yes").Status)
		first := g.Lease(time.Minute, servicetest.Effect("done"))[0]
		moved, err := g.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{{EffectKey: first.EffectKey, Move: "succeed",
			Attempt: first.Attempt, Owner: first.Owner, RunKey: "done", CorrelationID: first.CorrelationID, ExternalID: "c-1",
			NextCheck: ledger.Never, Outcome: &ledger.AttemptOutcome{Attempt: first.Attempt, Owner: first.Owner, Class: "succeeded", Sent: true,
				HTTPStatus: 200, ExternalID: "c-1"}}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		second := servicetest.Effect("done")
		second.Ordinal = 2
		again := g.comesBackFor(asked, "done", g.Lease(time.Minute, second)[0])
		for _, ordinal := range []int{1, 2} {
			g.readsOf(again, ordinal, ledger.ReadResult{Found: true, Version: "2", Held: []byte(`{"/fields/city":"Lisbon"}`)})
		}
		page := carl.get(cardPath(again))
		require.Contains(t, part(page, "change"), "This is done already.")
		require.NotContains(t, part(page, "action-2"), "This is done already.")
		require.NotContains(t, page.tidy(), "The target of action 1 has changed", "it was this that changed it")
		require.Contains(t, page.tidy(), "The target of action 2 has changed")
	})
}

// TestAnActionWithoutRead is A10 where only some of the connectors can read.
func TestAnActionWithoutRead(t *testing.T) {
	t.Parallel()
	g := contactGate(t, salesRefunds)
	carl := g.signedIn("carl")
	asked := g.together("some")
	g.readsOf(asked, 3, ledger.ReadResult{Found: true, Version: "1", Held: []byte(`{"/fields/city":"Faro"}`)})
	page := carl.get(cardPath(asked))
	require.Contains(t, part(page, "change"), "The target has not been read yet")
	require.Contains(t, part(page, "action-2"), "The connector cannot read this target, so what it holds now is not shown.")
	require.Contains(t, part(page, "action-3"), "fields/city changed Faro Lisbon")
	require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "yes").Status)
	require.Equal(t, "approved 1 3", g.state(asked))
	require.Equal(t, `[3]`, g.Text(`select jsonb_path_query_array(seen, '$.further[*].ordinal')::text from reviews where approval_id = $1`,
		asked.ApprovalID), "the vote keeps what was shown of the only one")
}

// TestReadingsOfSeveralArePartOfWhatWasShown is A17 of a request with several actions.
func TestReadingsOfSeveralArePartOfWhatWasShown(t *testing.T) {
	t.Parallel()
	g := contactGate(t, salesRefunds, readPayments)
	carl := g.signedIn("carl")
	const porto, faro, left, less = `{"/fields/city":"Porto"}`, `{"/fields/city":"Faro"}`, `{"/amount":20}`, `{"/amount":1}`

	for name, changed := range map[string]struct {
		held []string
		says string
	}{
		"TheFirst": {[]string{faro, left, porto}, "What the target of action 1 holds has changed"},
		"AFurther": {[]string{porto, less, porto}, "What the target of action 2 holds has changed"},
		"TheLast":  {[]string{porto, left, faro}, "What the target of action 3 holds has changed"},
		"Two":      {[]string{faro, less, porto}, "What the target of action 1 holds and what the target of action 2 holds has changed"},
	} {
		t.Run("AnotherValueAsksToLookAgain/"+name, func(t *testing.T) {
			asked := g.together("other-" + name)
			g.holdsEach(asked, porto, left, porto)
			form := carl.filled(asked, ledger.Approve, "yes")
			g.holdsEach(asked, changed.held...)
			page := carl.post(cardPath(asked)+"/decision", form)
			require.Equal(t, http.StatusConflict, page.Status)
			require.Contains(t, page.tidy(), changed.says)
			require.Equal(t, untouched, g.state(asked))
			require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "yes").Status)
			require.Equal(t, "approved 1 3", g.state(asked))
			for i, path := range []string{`seen->'held'`, `seen->'further'->0->'held'`, `seen->'further'->1->'held'`} {
				require.JSONEq(t, changed.held[i], g.Text(`select `+path+` from reviews where approval_id = $1`, asked.ApprovalID))
			}
		})
	}
	t.Run("AFirstAnswerOfAnyAsksToLookAgain", func(t *testing.T) {
		asked := g.together("answer")
		g.readsOf(asked, 1, ledger.ReadResult{Found: true, Version: "1", Held: []byte(porto)})
		form := carl.filled(asked, ledger.Approve, "yes")
		g.readsOf(asked, 3, ledger.ReadResult{Found: true, Version: "1", Held: []byte(porto)})
		page := carl.post(cardPath(asked)+"/decision", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.tidy(), "What the target of action 3 holds has changed")
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("TheSameValuesReadAgainChangeNothing", func(t *testing.T) {
		asked := g.together("again")
		g.holdsEach(asked, porto, left, porto)
		shownAt := g.Text(`select string_agg(read_at::text, ' ' order by ordinal) from action_readings where approval_id = $1`, asked.ApprovalID)
		form := carl.filled(asked, ledger.Approve, "yes")
		g.holdsEach(asked, porto, left, porto)
		g.readsOf(asked, 2, ledger.ReadResult{Err: "HTTP 500"})
		require.Equal(t, http.StatusOK, carl.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, shownAt, g.Text(`select concat_ws(' ', (seen->>'read_at')::timestamptz, (seen->'further'->0->>'read_at')::timestamptz,
  (seen->'further'->1->>'read_at')::timestamptz) from reviews where approval_id = $1`, asked.ApprovalID), "what is kept are the readings that were shown")
	})
	t.Run("TheDigestCoversEach", func(t *testing.T) {
		asked := g.together("digest")
		digest := func(held ...string) []byte {
			g.holdsEach(asked, held...)
			card, err := g.env.Ledger.Card(t.Context(), asked.ApprovalID)
			require.NoError(t, err)
			for _, r := range card.Readings {
				r.ReadAt = time.Unix(0, 0)
			}
			card.Now = card.RequestedAt
			v, err := g.tenant(ledgertest.Tenant).view(card, false)
			require.NoError(t, err)
			p := &cardPage{View: v, Who: &identity{}}
			require.NoError(t, g.web.parts(p, g.tenant(ledgertest.Tenant)))
			return digestOf(v, p)
		}
		require.Equal(t, digest(porto, left, porto), digest(porto, left, porto))
		require.NotEqual(t, digest(porto, left, porto), digest(porto, left, faro))
		require.NotEqual(t, digest(porto, left, porto), digest(porto, less, porto))
	})
	t.Run("WhatHasChangedSinceNamesTheAction", func(t *testing.T) {
		asked := g.together("since")
		g.holdsEach(asked, porto, left, porto)
		require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "yes").Status)
		again := g.comesBackFor(asked, "since", g.Lease(time.Minute, servicetest.Effect("since"))[0])
		require.Contains(t, part(carl.get(cardPath(again)), "since"), "Action 3: Version 1 was not read")
		require.Contains(t, part(carl.get(cardPath(again)), "since"), "What the target of action 3 holds now is not known.")
		g.holdsEach(again, porto, less)
		g.readsOf(again, 3, ledger.ReadResult{Found: true, Version: "2", Held: []byte(faro)})
		since := part(carl.get(cardPath(again)), "since")
		require.Contains(t, since, "What the target holds Action 2: amount 20 1 Action 3: Version 1 2 Action 3: fields/city Porto Faro")
		require.NotContains(t, since, "Action 1")
		require.NotContains(t, since, "is not known")

		// A vote under the release before kept what it showed of the first one alone.
		g.Exec(`update reviews set seen = seen - 'further' where approval_id = $1`, asked.ApprovalID)
		since = part(carl.get(cardPath(again)), "since")
		require.NotContains(t, since, "Action 1")
		require.Contains(t, since, "Action 2: Version was not read 1")
		require.Contains(t, since, "Action 3: Version was not read 2")
		require.Equal(t, http.StatusOK, carl.decide(again, ledger.Approve, "again").Status)
	})
}

// TestWhatAPageShowed is what releases beside each other make of one another's pages.
func TestWhatAPageShowed(t *testing.T) {
	t.Parallel()
	at := time.Unix(5, 0).UTC()
	one := &ledger.Reading{ReadAt: at, Found: true, Version: "1", Held: []byte(`{"/a":1}`)}
	two := &ledger.Reading{ReadAt: at.Add(time.Minute), Found: true, Version: "2"}
	const first = "2a25d77fa1332177817d858a11a8e15da871fd86b8de9c56f13b72a1d4613c2b"

	require.Empty(t, targetsShown(nil))
	require.Empty(t, targetsShown(ledger.Readings{nil, {Error: "HTTP 500"}}))
	require.Equal(t, targetsShown(ledger.Readings{one}), targetsShown(ledger.Readings{one, nil}), "nothing was shown of the other")
	require.NotEqual(t, targetsShown(ledger.Readings{one}), targetsShown(ledger.Readings{nil, one}))
	require.NotEqual(t, targetsShown(ledger.Readings{one, two}), targetsShown(ledger.Readings{two, one}))
	require.Equal(t, first, targetsShown(ledger.Readings{one}), "as the release before names it, so that its pages can be decided on")

	var page shown
	require.NoError(t, json.Unmarshal([]byte(`{"Target":"x","ReadAt":"1970-01-01T00:00:05Z"}`), &page), "a page of the release before")
	require.Equal(t, ledger.Readings{one}, page.seen(ledger.Readings{one}))
	page.Further = []time.Time{at}
	seen := page.seen(ledger.Readings{one, two})
	require.Equal(t, []time.Time{at, at}, []time.Time{seen.Of(1).ReadAt, seen.Of(2).ReadAt})
	require.Equal(t, at.Add(time.Minute), two.ReadAt, "what is known now stays as it is")
}
