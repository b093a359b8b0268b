package approval

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// lowRisk makes refunds something that is decided together, and reservations something of high risk that is not.
func lowRisk(c *gateConfig) {
	c.tenant = func(t *config.Tenant) {
		refund, stock := t.Action("payment.refund"), t.Action("stock.reserve")
		refund.Risk, refund.Review = "low", config.ReviewRule{Quorum: 1}
		stock.Risk, stock.Review = "high", config.ReviewRule{Quorum: 1, TypedReason: true, RecentSignIn: 15 * time.Minute}
	}
}

func batchPath(asked ...ledgertest.Asked) string {
	q := url.Values{}
	for _, a := range asked {
		q.Add("id", a.ApprovalID.String())
	}
	return "/batch?" + q.Encode()
}

var itemField = regexp.MustCompile(`name="item" value="([^"]+)"`)

// together opens the page of some requests and fills in its form.
func (b *browser) together(decision, reason string, asked ...ledgertest.Asked) url.Values {
	b.t.Helper()
	page := b.get(batchPath(asked...))
	require.Equal(b.t, http.StatusOK, page.Status, page.Says())
	form := page.form(b.t, "/batch")
	for _, item := range itemField.FindAllStringSubmatch(page.Body, -1) {
		form.Add("item", html.UnescapeString(item[1]))
	}
	form.Set("decision", decision)
	form.Set("reason", reason)
	return form
}

// result of one request on the page of results.
func (s seen) result(a ledgertest.Asked) string {
	_, rest, _ := strings.Cut(s.Body, `<td data-label="Request"><a href="`+cardPath(a)+`"`)
	_, rest, _ = strings.Cut(rest, `<td data-label="Result">`)
	line, _, _ := strings.Cut(rest, "</td>")
	return seen{Body: line}.Says()
}

// TestBatch is A18: many decisions at once, each with its own checks and its own result.
func TestBatch(t *testing.T) {
	t.Parallel()
	g := newGate(t, lowRisk)
	nora, sam := g.signedIn("nora"), g.signedIn("sam")

	t.Run("EachIsADecisionOfItsOwn", func(t *testing.T) {
		asked := []ledgertest.Asked{g.waiting("own-1"), g.waiting("own-2"), g.waiting("own-3")}
		form := nora.together(ledger.Approve, "", asked...)
		done := nora.post("/batch", form)
		require.Equal(t, http.StatusOK, done.Status)
		require.Contains(t, done.Says(), "3 of 3 counted.")
		for _, a := range asked {
			require.Equal(t, approved, g.state(a))
			require.Contains(t, done.result(a), "Approved.")
		}
		require.Equal(t, 3, g.Count(`select count(distinct page_digest) from reviews where octet_length(page_digest) = 32`))
		again := nora.post("/batch", form)
		require.Contains(t, again.Says(), "3 of 3 counted.", "the same form is the same votes")
		for _, a := range asked {
			require.Equal(t, approved, g.state(a))
		}
	})
	t.Run("WhatCannotBeDecidedStopsNothingElse", func(t *testing.T) {
		good, late, over, changed, quorum := g.waiting("mixed-good"), g.waiting("mixed-late"), g.waiting("mixed-over"), g.waiting("mixed-changed"),
			g.waiting("mixed-quorum", func(c *ledger.Claim) { c.RequestedBy = "somebody unknown" })
		form := nora.together(ledger.Approve, "fine", good, late, over, changed, quorum)
		require.Equal(t, ledger.VoteRejected, g.Vote(late.Vote("sam", ledger.Reject))[0].Result)
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, over.ApprovalID)
		g.Exec(`update runs set intent_revision = 2 where run_id = $1`, changed.Effect.RunID)
		form.Add("item", uuid.NewString()+":"+uuid.NewString()+":"+good.IntentHash.String())
		form.Add("item", "nonsense")
		done := nora.post("/batch", form)
		require.Equal(t, http.StatusOK, done.Status)
		require.Contains(t, done.Says(), "2 of 7 counted.")
		require.Contains(t, done.result(good), "Approved.")
		require.Contains(t, done.result(late), "decided already: rejected by sam at")
		require.Regexp(t, "(?i)expired", done.result(over))
		require.Contains(t, done.result(changed), "has changed since you were shown it")
		require.Contains(t, done.result(quorum), "counted: 1 of 2")
		require.Contains(t, done.Says(), "There is no such request")
		require.Contains(t, done.Says(), "The form was incomplete")
		require.Equal(t, approved, g.state(good))
		require.Equal(t, untouched, g.state(changed))
		require.Contains(t, done.Body, `href="/batch?id=`, "those that did not count are shown again")
		g.Exec(`update approvals set decide_by = clock_timestamp() - interval '1 minute' where approval_id = $1`, changed.ApprovalID)
	})
	t.Run("RejectingNeedsAReasonAndKeepsIt", func(t *testing.T) {
		one, other := g.waiting("reject-1"), g.waiting("reject-2")
		form := nora.together(ledger.Reject, " ", one, other)
		refused := nora.post("/batch", form)
		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.Contains(t, refused.Says(), "Say why")
		require.Equal(t, untouched, g.state(one))
		form.Set("reason", strings.Repeat("x", longestReason+1))
		require.Equal(t, http.StatusUnprocessableEntity, nora.post("/batch", form).Status)
		form.Set("reason", "not ours")
		require.Contains(t, nora.post("/batch", form).Says(), "2 of 2 counted.")
		require.Equal(t, rejected, g.state(one))
		require.Equal(t, rejected, g.state(other))
		require.Equal(t, 2, g.Count(`select count(*) from reviews where reason = 'not ours'`))
	})
	t.Run("WhatIsNotTickedIsLeftAlone", func(t *testing.T) {
		one, other := g.waiting("ticked-1"), g.waiting("ticked-2")
		form := nora.together(ledger.Approve, "", one, other)
		for _, item := range form["item"] {
			if strings.HasPrefix(item, one.ApprovalID.String()) {
				form["item"] = []string{item}
				break
			}
		}
		require.Contains(t, nora.post("/batch", form).Says(), "1 of 1 counted.")
		require.Equal(t, approved, g.state(one))
		require.Equal(t, untouched, g.state(other))
	})
	t.Run("SeveralTabsAndTheBackButtonDecideOnce", func(t *testing.T) {
		one, other := g.waiting("tabs-1"), g.waiting("tabs-2")
		first, second := nora.together(ledger.Approve, "", one, other), nora.together(ledger.Reject, "no", one)
		require.Contains(t, nora.post("/batch", first).Says(), "2 of 2 counted.")
		require.Contains(t, nora.post("/batch", second).result(one), "decided already: approved by nora")
		require.Equal(t, http.StatusOK, nora.post("/batch", first).Status)
		require.Equal(t, approved, g.state(one))
	})
	t.Run("WhatWasNotShownIsNotDecided", func(t *testing.T) { // APR-03
		one, other := g.waiting("unseen-1"), g.waiting("unseen-2")
		form := nora.together(ledger.Approve, "", one)
		form.Add("item", other.ApprovalID.String()+":"+uuid.NewString()+":"+other.IntentHash.String())
		form.Add("item", one.ApprovalID.String()+":"+uuid.NewString()+":"+strings.Repeat("0", 64))
		done := nora.post("/batch", form)
		require.Contains(t, done.Says(), "1 of 3 counted.")
		require.Contains(t, done.result(other), "not the page that you were shown last")
		require.Equal(t, untouched, g.state(other))
	})
	t.Run("ItIsDecidedByTheRightsOfThatMoment", func(t *testing.T) { // A4, A5
		mine := g.waiting("rights-own", func(c *ledger.Claim) { c.RequestedBy = "sam.lead" })
		other := g.waiting("rights-other")
		require.Contains(t, sam.get(batchPath(mine, other)).Says(), "You asked for this")
		form := sam.together(ledger.Approve, "", other)
		form.Add("item", mine.ApprovalID.String()+":"+uuid.NewString()+":"+mine.IntentHash.String())
		sam.get(cardPath(mine)) // was shown
		done := sam.post("/batch", form)
		require.Contains(t, done.result(mine), "You asked for this")
		require.Contains(t, done.Says(), "1 of 2 counted.")
		require.Equal(t, untouched, g.state(mine))
		require.Equal(t, 1, g.Count(`select count(*) from audit_events where run_id = $1 and move = 'refuse_vote'`, mine.Effect.RunID))
	})
	t.Run("AFormOfAnotherSiteOrSessionDecidesNothing", func(t *testing.T) {
		asked := g.waiting("forged")
		form := nora.together(ledger.Approve, "", asked)
		require.Equal(t, http.StatusForbidden, sam.post("/batch", form).Status)
		require.Equal(t, http.StatusForbidden, nora.post("/batch", form, header("Sec-Fetch-Site", "cross-site")).Status)
		require.Equal(t, http.StatusForbidden, g.as("nobody").post("/batch", form).Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("TooManyAndNoneAreSaidSo", func(t *testing.T) {
		form := nora.together(ledger.Approve, "", g.waiting("many"))
		form["item"] = make([]string, mostTogether+1)
		require.Equal(t, http.StatusUnprocessableEntity, nora.post("/batch", form).Status)
		form.Del("item")
		require.Equal(t, http.StatusUnprocessableEntity, nora.post("/batch", form).Status)
		require.Contains(t, nora.get("/batch").Says(), "Nothing is chosen")
		many := "/batch?" + strings.Repeat("id=none&", mostTogether) + "id=x"
		require.Contains(t, nora.get(many).Says(), "None of these can be decided here")
	})
}

// TestWhatIsDecidedAlone is A6, A18 and APR-13: what takes more than a glance has no place among others.
func TestWhatIsDecidedAlone(t *testing.T) {
	t.Parallel()
	g := newGate(t, lowRisk)
	nora := g.signedIn("nora")
	change := func(note string) func(*servicetest.Proposal) {
		return func(p *servicetest.Proposal) {
			change := p.ProposedChange.(map[string]any)
			change["note"] = note
		}
	}
	high, done, voted := g.waiting("high"), g.waiting("done"), g.waiting("voted", func(c *ledger.Claim) { c.RequestedBy = "who" })
	g.Exec(`update approvals set action_type = 'stock.reserve' where approval_id = $1`, high.ApprovalID)
	gone := g.waiting("gone")
	g.Exec(`update approvals set action_type = 'no.more' where approval_id = $1`, gone.ApprovalID)
	g.Vote(done.Vote("sam", ledger.Reject))
	nora.post("/batch", nora.together(ledger.Approve, "", voted))
	for name, c := range map[string]struct {
		asked ledgertest.Asked
		why   string
	}{
		"HighRisk":         {high, "It is of high risk, so it is decided alone"},
		"NoMoreConfigured": {gone, "The configuration does not have this action"},
		"Decided":          {done, "It does not wait any more: it is rejected"},
		"Voted":            {voted, "You have decided on it already"},
		"Hidden":           {g.waits("hidden", change("a\u200Bb")), "characters that cannot be seen"},
		"LookAlike":        {g.waits("alike", change("p\u0430ypal.com")), "letters that look like others"},
		"Long":             {g.waits("long", change(strings.Repeat("a ", 600))), "too long to be shown among others"},
		"Cut":              {g.waits("cut", change(strings.Repeat("a ", 3000))), "too long to be shown among others"},
	} {
		t.Run(name, func(t *testing.T) {
			page := nora.get(batchPath(c.asked))
			require.Contains(t, page.Says(), c.why)
			require.NotContains(t, page.Body, `name="item"`)
			require.Contains(t, page.Body, `<a href="`+cardPath(c.asked)+`"`, "its card is a link away")
			require.NotContains(t, page.Body, "\u200B")
			before := g.state(c.asked)
			nora.get(cardPath(c.asked)) // it was shown, alone
			form := nora.get("/").form(t, "/sign-out")
			form.Set("item", c.asked.ApprovalID.String()+":"+uuid.NewString()+":"+c.asked.IntentHash.String())
			form.Set("decision", ledger.Approve)
			form.Set("reason", "together all the same")
			require.Contains(t, nora.post("/batch", form).Says(), "0 of 1 counted.")
			require.Equal(t, before, g.state(c.asked))
		})
	}
	t.Run("ItDoesNotExistForOthers", func(t *testing.T) {
		page := g.signedIn("carl").get(batchPath(g.waiting("hidden-from-carl")))
		require.Contains(t, page.Says(), "There is no such request")
		require.NotContains(t, page.Body, "250")
	})
}

// TestABatchAsksToSignInAgain: old claims decide nothing, and the page says so before anything is typed.
func TestABatchAsksToSignInAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t, lowRisk, func(c *gateConfig) { c.settings = func(s *Settings) { s.RolesMaxAge = time.Nanosecond } })
	nora, asked := g.signedIn("nora"), g.waiting("k")
	page := nora.get(batchPath(asked))
	require.Contains(t, page.Body, `/sign-in?return=%2Fbatch%3Fid%3D`+asked.ApprovalID.String())
	done := nora.post("/batch", nora.together(ledger.Approve, "", asked))
	require.Contains(t, done.result(asked), "Sign in again")
	require.Equal(t, untouched, g.state(asked))
	var many []ledgertest.Asked
	for range mostTogether {
		many = append(many, ledgertest.Asked{ApprovalID: uuid.New()})
	}
	require.Equal(t, batchPath(many...), safeReturn(batchPath(many...)), "the longest address is one to come back to")
}
