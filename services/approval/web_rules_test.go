package approval

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestTheRestOfTheCard is A10 but for the comparison.
func TestTheRestOfTheCard(t *testing.T) {
	t.Parallel()
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	require.NoError(t, err)
	g := contactGate(t, func(tenant *config.Tenant) {
		tenant.TimeZone = kolkata
		action := servicetest.Action(tenant, "crm.contact.update")
		action.Card = config.Card{Purpose: "/why", PayingEntity: "/payer", Draft: "/fields/note", Label: "/label", Score: "/score"}
		action.NearDuplicate = &config.NearDuplicate{Within: 24 * time.Hour}
		for _, s := range tenant.Sources {
			if s.ID == ledgertest.Source {
				s.Link, s.Corrects = "/run/url", "/corrects"
				s.Rules[0].Key = config.KeyRule{CloudEvent: true}
			}
		}
		for _, r := range tenant.Roles {
			if r.Name == "sales-operations" {
				r.Members = []string{"carl", "rita", "sam"}
			}
		}
	})
	carl := g.signedIn("carl")
	const hostile = "\u202E<script>alert(1)</script>"
	ask := func(key, link string, changes ...func(*servicetest.Proposal)) ledgertest.Asked {
		claim := g.Contact(key, append([]func(*servicetest.Proposal){func(p *servicetest.Proposal) {
			p.ProposedChange = map[string]any{"fields": map[string]any{"note": "Dear Ada"}, "why": "The contact moved", "payer": "ACME GmbH",
				"label": "address_change", "score": json.Number("0.870")}
		}}, changes...)...)
		claim.RequestedBy = "rita.requester"
		claim.Payload, _ = json.Marshal(map[string]any{"run": map[string]any{"url": link}, "source": "//crm", "id": "e-" + key, "key": key})
		value, err := canonical.Parse(claim.Payload)
		require.NoError(t, err)
		claim.PayloadHash = canonical.Hash(value)
		return g.waitsFor(claim, key)
	}

	asked := ask("k", "https://n8n.example/execution/7")
	page := carl.get(cardPath(asked))
	says := page.tidy()
	for name, part := range map[string]string{
		"purpose": "Purpose The contact moved", "payer": "Paid by ACME GmbH", "draft": "Draft Dear Ada", "label": "Label address_change",
		"score": "Score 0.87", "route": "Route human review", "policy": "decided by " + g.PolicyVersion, "cloud event": "CloudEvent //crm · e-k",
		"zone":   "Asia/Kolkata)",
		"people": "May decide now sales-operations: Carl Sales, Sam Lead", // rita has asked
		"reject": "If it is rejected, the run ends and nothing is sent. The contact stays as it is.",
		"expiry": "ends as expired", "duplicate": "The same event again starts nothing", "near": "nearly the same within 1 day",
		"correction": "it can be corrected by a new event", "retry": "it is looked for by reading",
	} {
		require.Contains(t, says, part, name)
	}
	require.Contains(t, page.Body, `<a href="https://n8n.example/execution/7" rel="noopener noreferrer nofollow" target="_blank">`)
	require.NotContains(t, says, "@example.test", "people are named, and no address is told")
	require.Less(t, strings.Index(page.Body, "The contact moved"), strings.Index(page.Body, `id="change"`), "on top")

	t.Run("OnlyHTTPSIsLinked", func(t *testing.T) {
		for i, address := range []string{"http://n8n.example/1", "javascript:alert(1)", "//n8n.example", hostile, "data:text/html,x"} {
			page := carl.get(cardPath(ask("link-"+string(rune('a'+i)), address)))
			require.Contains(t, page.tidy(), "(no https address)", address)
			require.NotContains(t, page.Body, `<a href="`+address)
			require.NotContains(t, page.Body, "<script>")
			require.NotContains(t, page.Body, "\u202E")
		}
	})
	t.Run("HostileTextIsMarkedEverywhere", func(t *testing.T) { // APR-13
		asked := ask("hostile", hostile, func(p *servicetest.Proposal) {
			p.ProposedChange = map[string]any{"fields": map[string]any{"note": hostile}, "why": hostile, "payer": hostile, "label": hostile,
				"score": hostile}
		})
		page := carl.get(cardPath(asked))
		require.NotContains(t, page.Body, "<script>")
		require.NotContains(t, page.Body, "\u202E")
		require.GreaterOrEqual(t, strings.Count(page.Body, "⟦U+202E⟧"), 10)
	})
	t.Run("WhatWasFoundWrongIsSaid", func(t *testing.T) {
		card, err := g.env.Ledger.Card(t.Context(), asked.ApprovalID)
		require.NoError(t, err)
		s, err := intent.Read(card.Canonical, card.IntentHash)
		require.NoError(t, err)
		ten := g.tenant(ledgertest.Tenant)
		require.Empty(t, ten.problemsOf(card, s))
		card.Model = []byte(`{"name":"m","validation":"repaired","attempts":2}`)
		card.History = append(card.History, ledger.HistoryRow{Move: "fail_retryable", Facts: []byte(`{"class":"invalid_output","reason":"no JSON"}`)})
		card.Now = card.Now.Add(49 * time.Hour)
		require.Equal(t, []string{"The model's first draft did not fit the schema; it was repaired after calls: 2.",
			"An earlier draft failed, invalid output: no JSON",
			"Evidence from crm is stale: it is 2 days 1 hour old, and may be 1 day old at most."}, ten.problemsOf(card, s))
		s.Evidence, card.History, card.Model = nil, nil, nil
		require.Equal(t, []string{"Evidence from crm is missing, which this action type asks for."}, ten.problemsOf(card, s))
		card.ActionType = "gone"
		require.Equal(t, []string{"The action type is not configured any more."}, ten.problemsOf(card, s))
	})
	t.Run("WhatCannotBeFoundByReadingIsNotSentAgain", func(t *testing.T) {
		require.Contains(t, retryRule(&config.Operation{}), "an operator has to find out")
		require.Contains(t, retryRule(nil), "not configured any more")
		require.Contains(t, retryRule(servicetest.Operation(g.Config.Tenants[0], servicetest.Payments)), "only under the same key")
	})
}

// TestTimeline is O1 for people: one readable order of all that is recorded, for whoever may see the run.
func TestTimeline(t *testing.T) {
	t.Parallel()
	g := contactGate(t)
	carl, otto := g.signedIn("carl"), g.signedIn("otto")
	runOf := func(key string) string { return runPath + "demo/" + servicetest.Effect(key).RunID.String() }
	asked := g.change("k", map[string]any{"city": "Lisbon"})
	g.Exec(`insert into notifications (tenant_id, approval_id, channel, recipient, state, sent_at)
values ('demo', $1, 'support-mail', 'nora@example.test', 'sent', clock_timestamp())`, asked.ApprovalID)
	require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "Fine <b>by</b> me\u202E").Status)
	leased := g.Lease(time.Minute, servicetest.Effect("k"))[0]
	settle := func(l *ledger.Ledger, command string, s ledger.Settlement) {
		s.EffectKey, s.RunKey, s.CorrelationID = leased.EffectKey, "k", leased.CorrelationID
		moved, err := l.Settle(t.Context(), command, []ledger.Settlement{s})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
	}
	settle(g.Dispatcher, "record_outcomes", ledger.Settlement{Move: "lose", Attempt: leased.Attempt, Owner: leased.Owner, MaybeSent: true,
		Outcome: &ledger.AttemptOutcome{Attempt: leased.Attempt, Owner: leased.Owner, Class: "ambiguous", Sent: true, HTTPStatus: 502, Detail: "bad gateway"}})
	settle(g.Reconciler, "record_lookups", ledger.Settlement{Move: "verify_found", ExternalID: "upd_1", Looked: &ledger.Looked{Verdict: "found",
		Conclusive: true, ExternalID: "upd_1", Evidence: "1 of 1 match"}})
	settle(g.Reconciler, "record_lookups", ledger.Settlement{Move: "confirm", ExternalID: "upd_1", Postcondition: ledger.PostconditionMatched,
		PostconditionVersion: "2", Looked: &ledger.Looked{Verdict: "matched", Conclusive: true, Evidence: "version 2; of 1 fields all are as written"}})

	t.Run("ItIsToldInOrderAndInPlainWords", func(t *testing.T) {
		for _, path := range []string{cardPath(asked), runOf("k")} {
			page := otto.get(path)
			require.Equal(t, http.StatusOK, page.Status)
			_, rest, _ := strings.Cut(page.Body, `<ol class="timeline">`)
			says := strings.NewReplacer(" :", ":", "· ", "").Replace(seen{Body: rest}.tidy())
			at := 0
			for _, step := range []string{"Took the event up", "Proposed the change", "the rules Asked for a person's decision",
				"support-mail Told the reviewers of the request", "carl Approved it, and it is queued: Fine <b>by</b> me ⟦U+202E⟧",
				"the dispatcher Began attempt 1", "sandbox-crm Attempt 1 came to: ambiguous (HTTP 502): bad gateway",
				"Looked whether it was done: found; the provider's receipt is upd_1: 1 of 1 match", "Found out that it was done; its target is read", "Read the target: it holds what was written: version 2", "Takes it as done"} {
				i := strings.Index(says[at:], step)
				require.GreaterOrEqual(t, i, 0, "%q is not there, or not after the step before, in %s", step, says)
				at += i
			}
			require.NotContains(t, says, "nora@example.test")
			require.NotContains(t, page.Body, "Fine <b>")
		}
	})
	t.Run("TheCardSaysWhatTheTargetHeldAfterwards", func(t *testing.T) { // R7
		require.Contains(t, otto.get(cardPath(asked)).tidy(), "The target was read afterwards and holds what was written. read at version 2")
	})
	t.Run("ARunThatNobodyWasAskedAboutHasAPage", func(t *testing.T) {
		g.Authorize(g.Contact("auto"))
		page := otto.get(runOf("auto"))
		require.Equal(t, http.StatusOK, page.Status)
		require.Contains(t, page.tidy(), "Let it be carried out without a person, by policy version "+brief(g.PolicyVersion))
		require.Contains(t, page.tidy(), "Requests nobody was asked")
		require.Equal(t, http.StatusNotFound, carl.get(runOf("auto")).Status, "he has no say in it")
	})
	t.Run("WhoMaySeeItDoes", func(t *testing.T) {
		require.Equal(t, http.StatusOK, carl.get(runOf("k")).Status)
		require.Equal(t, http.StatusNotFound, g.signedIn("rita").get(runOf("k")).Status)
		own := g.waiting("own")
		require.Equal(t, http.StatusOK, g.signedIn("rita").get(runPath+"demo/"+own.Effect.RunID.String()).Status, "she has asked for it")
		signedInFirst := g.as("otto").get(runOf("k"))
		require.Equal(t, runOf("k"), signedInFirst.Path, "a sign-in leads back")
		for _, path := range []string{runPath + "demo/" + uuid.NewString(), runPath + "other/" + uuid.NewString(), runPath + "demo/none"} {
			require.Equal(t, http.StatusNotFound, otto.get(path).Status, path)
		}
	})
}

func TestStepsAreToldInWords(t *testing.T) {
	t.Parallel()
	for _, m := range ledger.Moves {
		if m.Name != "lease" && m.Name != "look" && m.Name != "verify_again" && m.Record != ledger.ApprovalRecord &&
			m.Name != "complete" && m.Name != "fail" && m.Name != "resume" && m.Name != "end_partly" && m.Name != "return_to_review" && m.Name != "request" && m.Name != "reauthorize" && m.Name != "cancel" {
			require.Contains(t, stepWords, m.Name, "the audit has this move, and the timeline has no words for it")
		}
	}
	require.Equal(t, "Some new move", wordsOf(ledger.Step{What: "some_new_move"}, nil))
	require.Equal(t, "0123456789ab", brief(strings.Repeat("0123456789abcdef", 4)))
	require.Equal(t, "test-policy", brief("test-policy"))
}
