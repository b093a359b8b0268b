package approval

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// contactGate has carl decide about changes of contacts.
func contactGate(t testing.TB, changes ...func(*config.Tenant)) *gate {
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			for _, change := range changes {
				change(tenant)
			}
		}
	})
	require.NoError(t, g.idp.SetGroups("carl", "sales-ops"))
	return g
}

// change is a change of a contact that waits for sales.
func (g *gate) change(key string, fields any, changes ...func(*servicetest.Proposal)) ledgertest.Asked {
	g.t.Helper()
	claim := g.Contact(key, append([]func(*servicetest.Proposal){func(p *servicetest.Proposal) {
		p.ProposedChange = map[string]any{"fields": fields}
	}}, changes...)...)
	return g.waitsFor(claim, key)
}

func (g *gate) waitsFor(claim ledger.Claim, key string) ledgertest.Asked {
	g.t.Helper()
	g.decides(claim, config.RouteHumanReview, func(d *ledger.Decision) {
		d.Audience, d.Reasons = []string{"sales-operations"}, []byte(`[{"code":"rule_matched","rule_id":"r","message":"An address changes."}]`)
	})
	return g.Pending(key)
}

// reads stores what the target of a request holds, as the reconciler does.
func (g *gate) reads(a ledgertest.Asked, r ledger.ReadResult) {
	g.t.Helper()
	r.Unread = &ledger.Unread{TenantID: a.Effect.TenantID, RunID: a.Effect.RunID, ApprovalID: a.ApprovalID, IntentHash: a.IntentHash}
	r.Again = time.Hour
	require.NoError(g.t, g.Reconciler.RecordReadings(g.t.Context(), []ledger.ReadResult{r}))
}

// holds stores that the target is at version 1 and holds this.
func (g *gate) holds(a ledgertest.Asked, held string) {
	g.t.Helper()
	g.reads(a, ledger.ReadResult{Found: true, Version: "1", Held: []byte(held)})
}

// row is the line of the change's table that begins with a field's name.
func row(page seen, name string) string {
	_, rest, _ := strings.Cut(page.Body, `<h2 id="change">`)
	for _, line := range strings.Split(rest, "<tr ")[1:] {
		line, _, _ = strings.Cut("<tr "+line, "</tr>")
		if text := (seen{Body: line}).Says(); strings.HasPrefix(text, name+" ") {
			return text
		}
	}
	return ""
}

// tidy takes out the blanks that stand where there was markup.
func (s seen) tidy() string {
	return strings.NewReplacer(" .", ".", " ,", ",", "⟧ ", "⟧").Replace(s.Says())
}

// TestCurrentAgainstProposed is A10's comparison, field by field.
func TestCurrentAgainstProposed(t *testing.T) {
	t.Parallel()
	g := contactGate(t)
	carl := g.signedIn("carl")
	fields := map[string]any{"city": "Lisbon", "phone": "+351 1", "email": "a@example.test", "tags": []string{"a", "b"},
		"address": map[string]any{"zip": "1000", "street": "x"}, "size": json.Number("12.50")}

	t.Run("EachFieldSaysHowItStands", func(t *testing.T) {
		asked := g.change("fields", fields)
		g.holds(asked, `{"/fields/city":"Porto","/fields/phone":"+351 1","/fields/tags":["a"],"/fields/address/zip":"1000","/fields/size":12.5}`)
		page := carl.get(cardPath(asked))
		require.Equal(t, "fields/city changed Porto Lisbon", row(page, "fields/city"))
		require.Equal(t, "fields/phone unchanged +351 1 +351 1", row(page, "fields/phone"))
		require.Equal(t, "fields/email new nothing there a@example.test", row(page, "fields/email"))
		require.Equal(t, `fields/tags changed [ "a" ] [ "a", "b" ]`, row(page, "fields/tags"))
		require.Equal(t, "fields/address/zip unchanged 1000 1000", row(page, "fields/address/zip"))
		require.Equal(t, "fields/address/street new nothing there x", row(page, "fields/address/street"))
		require.Equal(t, "fields/size unchanged 12.5 12.5", row(page, "fields/size"), "numbers are compared by their value")
		require.Regexp(t, `Read at \w{3} \d+ \w{3} \d{4} [\d:]{8} UTC, version 1\.`, page.tidy())
		require.NotContains(t, page.tidy(), "The target has changed")
	})
	t.Run("AnotherVersionAndATargetThatIsGoneAreWarnedOf", func(t *testing.T) {
		asked := g.change("moved", fields)
		g.reads(asked, ledger.ReadResult{Found: true, Version: "7", Held: []byte(`{}`)})
		require.Contains(t, carl.get(cardPath(asked)).tidy(),
			"The target has changed since the proposal was made: it is at version 7, and the proposal was made from version 1.")
		g.reads(asked, ledger.ReadResult{})
		gone := carl.get(cardPath(asked)).tidy()
		require.Contains(t, gone, "The target does not exist any more")
		require.Contains(t, gone, "the target is not there.")
	})
	t.Run("WhatIsNotKnownIsSaid", func(t *testing.T) {
		asked := g.change("unread", fields)
		page := carl.get(cardPath(asked))
		require.Contains(t, page.tidy(), "The target has not been read yet")
		require.Equal(t, "fields/city not known Lisbon", row(page, "fields/city"))
		g.reads(asked, ledger.ReadResult{Err: "HTTP 503"})
		require.Contains(t, carl.get(cardPath(asked)).tidy(), "The target could not be read yet, so what it holds now is not known. The last try, at")
		require.Contains(t, carl.get(cardPath(asked)).tidy(), "gave no answer: HTTP 503.")
		g.holds(asked, `{"/fields/city":"Porto"}`)
		g.reads(asked, ledger.ReadResult{Err: "HTTP 500"})
		page = carl.get(cardPath(asked))
		require.Equal(t, "fields/city changed Porto Lisbon", row(page, "fields/city"), "the last answer stays")
		require.Contains(t, page.tidy(), "gave no answer: HTTP 500.")
		refund := g.waiting("refund")
		require.Contains(t, g.signedIn("nora").get(cardPath(refund)).Says(), "The connector cannot read this target")
	})
	t.Run("WhereNothingWouldChangeItSaysSo", func(t *testing.T) {
		asked := g.change("same", map[string]any{"city": "Porto"})
		g.holds(asked, `{"/fields/city":"Porto"}`)
		require.Contains(t, carl.get(cardPath(asked)).tidy(), "Nothing would change")
	})
	t.Run("HostileTextOfTheTargetIsMarked", func(t *testing.T) { // APR-13
		asked := g.change("hostile", map[string]any{"city": "Lisbon", "p\u0430y/\u202E~": "<script>alert(1)</script>"})
		held, err := json.Marshal(map[string]any{"/fields/city": "\u202EotroP<script>alert(2)</script> p\u0430ypal.com"})
		require.NoError(t, err)
		g.reads(asked, ledger.ReadResult{Found: true, Version: "\u200B1<b>", Held: held})
		g.reads(asked, ledger.ReadResult{Err: "\u202E<script>"})
		page := carl.get(cardPath(asked))
		for _, raw := range []string{"<script>", "\u202E", "\u200B", "1<b>"} {
			require.NotContains(t, page.Body, raw)
		}
		require.Contains(t, page.tidy(), "⟦U+202E⟧otroP")
		require.Contains(t, page.tidy(), "Look-alike letters.")
	})
	t.Run("AVeryLongValueOfTheTargetIsOpenedBeforeItIsApproved", func(t *testing.T) {
		asked := g.change("long", map[string]any{"city": "Lisbon"})
		g.holds(asked, fmt.Sprintf(`{"/fields/city":%q}`, strings.Repeat("a ", 3000)+"TAIL"))
		cut := carl.get(cardPath(asked))
		require.NotContains(t, cut.Body, "TAIL")
		require.NotContains(t, cut.Body, `value="approve"`)
		require.Contains(t, carl.get(cardPath(asked)+"?full=1").Body, "TAIL")
	})
}

// TestAReadingIsPartOfWhatWasShown is A17: what is approved is what the page showed of the target.
func TestAReadingIsPartOfWhatWasShown(t *testing.T) {
	t.Parallel()
	g := contactGate(t)
	carl := g.signedIn("carl")
	const held, other = `{"/fields/city":"Porto"}`, `{"/fields/city":"Faro"}`

	t.Run("AnotherValueAsksToLookAgain", func(t *testing.T) {
		asked := g.change("other", map[string]any{"city": "Lisbon"})
		g.holds(asked, held)
		form := carl.filled(asked, ledger.Approve, "yes")
		g.holds(asked, other)
		page := carl.post(cardPath(asked)+"/decision", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.tidy(), "What the target holds has changed since you were shown it")
		require.Contains(t, page.tidy(), "fields/city changed Faro Lisbon")
		require.Contains(t, page.Body, ">yes</textarea>", "the reason is kept")
		require.Equal(t, untouched, g.state(asked))
		require.Equal(t, http.StatusOK, carl.decide(asked, ledger.Approve, "yes").Status)
		require.Equal(t, approved, g.state(asked))
		require.Equal(t, `{"/fields/city": "Faro"}`, g.Text(`select seen->>'held' from reviews where approval_id = $1`, asked.ApprovalID))
	})
	t.Run("TheSameValuesReadAgainChangeNothing", func(t *testing.T) {
		asked := g.change("again", map[string]any{"city": "Lisbon"})
		g.holds(asked, held)
		shownAt := g.Text(`select read_at::text from readings where run_id = $1`, asked.Effect.RunID)
		form := carl.filled(asked, ledger.Approve, "yes")
		g.holds(asked, held)
		g.reads(asked, ledger.ReadResult{Err: "HTTP 500"})
		require.Equal(t, http.StatusOK, carl.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, approved, g.state(asked))
		require.Equal(t, shownAt, g.Text(`select (seen->>'read_at')::timestamptz::text from reviews where approval_id = $1`, asked.ApprovalID),
			"what is kept is the reading that was shown")
	})
	t.Run("AFormOfADecisionThatStandsIsAnsweredAsEver", func(t *testing.T) {
		asked := g.change("double", map[string]any{"city": "Lisbon"})
		g.holds(asked, held)
		form := carl.filled(asked, ledger.Approve, "yes")
		require.Equal(t, http.StatusOK, carl.post(cardPath(asked)+"/decision", form).Status)
		g.holds(asked, other)
		require.Equal(t, http.StatusOK, carl.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, approved, g.state(asked))
	})
	t.Run("TheDigestCoversTheComparison", func(t *testing.T) {
		asked := g.change("digest", map[string]any{"city": "Lisbon"})
		digest := func(held string) []byte {
			g.holds(asked, held)
			card, err := g.env.Ledger.Card(t.Context(), asked.ApprovalID)
			require.NoError(t, err)
			card.Readings.Of(1).ReadAt, card.Now = time.Unix(0, 0), card.RequestedAt
			v, err := g.tenant(ledgertest.Tenant).view(card, false)
			require.NoError(t, err)
			p := &cardPage{View: v, Who: &identity{}}
			require.NoError(t, g.web.parts(p, g.tenant(ledgertest.Tenant)))
			return digestOf(v, p)
		}
		require.Equal(t, digest(held), digest(held))
		require.NotEqual(t, digest(held), digest(other))
	})
}
