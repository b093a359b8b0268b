package approval

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.signedIn("nora")
	empty := nora.get("/")
	require.Contains(t, empty.Says(), "Nothing waits for your decision")
	late, soon := g.waiting("late"), g.waiting("soon")
	own := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "nora" })
	done := g.waiting("done")
	g.Exec(`update approvals set decide_by = clock_timestamp() + interval '10 minutes' where approval_id = $1`, soon.ApprovalID)
	require.Equal(t, http.StatusOK, nora.decide(done, ledger.Reject, "no").Status)

	t.Run("TheMostUrgentIsOnTopAndWhatIsDecidedBelow", func(t *testing.T) {
		page := nora.get("/").Body
		at := func(a ledgertest.Asked) int { return strings.Index(page, cardPath(a)) }
		require.Positive(t, at(soon))
		require.Less(t, at(soon), at(late))
		require.Less(t, at(late), at(own), "one's own request waits for others")
		require.Less(t, at(own), at(done))
	})
	t.Run("ALineSaysWhatForWhomAndHowLong", func(t *testing.T) {
		says := nora.get("/").Says()
		for _, part := range []string{"payment.refund", "payments · p-soon", "rita.requester", "9 minutes", "UTC", "0 of 1", "high risk"} {
			require.Contains(t, says, part)
		}
	})
	t.Run("AFilterNarrows", func(t *testing.T) {
		for query, want := range map[string]ledgertest.Asked{"key=late": late, "correlation_id=ticket-soon": soon, "state=rejected": done} {
			page := nora.get("/?" + query)
			require.Contains(t, page.Body, cardPath(want))
			require.Equal(t, 1, strings.Count(page.Body, `<td data-label="What">`), query)
		}
		require.Contains(t, nora.get("/?key=none").Says(), "Nothing that you may see fits")
	})
	t.Run("WhoHasNoRoleSeesNothing", func(t *testing.T) {
		page := g.signedIn("carl").get("/")
		require.NotContains(t, page.Body, "p-soon")
		require.Contains(t, page.Says(), "You hold no role here")
	})
	t.Run("AnOperatorSeesAllAndDecidesNothing", func(t *testing.T) {
		page := g.signedIn("otto").get("/")
		require.Contains(t, page.Says(), "Waiting for others")
		require.Contains(t, page.Body, cardPath(soon))
	})
}

func TestCard(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k", func(*ledger.Claim) {})
	page := g.as("nora").get(cardPath(asked))
	require.Equal(t, http.StatusOK, page.Status)
	says := page.Says()
	for name, part := range map[string]string{
		"action": "payment.refund", "amount": "250 EUR", "field": "payment_id p-k", "version": "Expected version none named", "evidence": "payments",
		"age": "1 minute", "workflow": "support-refunds@2", "reason": "The amount needs the lead.", "policy": "test-policy", "key": "Key k",
		"correlation": "ticket-k", "source": "support-refunds", "requester": "rita.requester", "sender": "sent by demo",
		"hash": asked.IntentHash.String(), "revision": "Revision 1", "decide by": "left", "execute by": "executed within 1 hour of the approval",
		"quorum": "0 of 1", "identity": "recorded as the decision of nora", "rejection": "Rejecting ends the run. Nothing was refunded.",
		"execution": "not started", "risk": "high risk",
	} {
		require.Contains(t, says, part, name)
	}
	require.Contains(t, page.Body, `rows="4" maxlength="2000" aria-describedby="reason-help" required`)
	require.NotContains(t, page.Body, "<script")

	t.Run("ItExistsForNobodyElse", func(t *testing.T) {
		other := g.signedIn("carl").get(cardPath(asked))
		require.Equal(t, http.StatusNotFound, other.Status)
		require.NotContains(t, other.Body, "250")
		nowhere := g.signedIn("nora").get("/approvals/" + uuid.NewString())
		require.Equal(t, http.StatusNotFound, nowhere.Status)
		require.Equal(t, http.StatusNotFound, g.signedIn("nora").get("/approvals/none").Status)
	})
	t.Run("WhoAskedSeesItAndCannotApprove", func(t *testing.T) {
		card := g.signedIn("rita").get(cardPath(asked))
		require.Equal(t, http.StatusOK, card.Status)
		require.NotContains(t, card.Body, `value="approve"`)
		require.Contains(t, card.Body, "Withdraw this request")
	})
	t.Run("HeadersForbidAllThatIsNotNeeded", func(t *testing.T) {
		for name, value := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "X-Robots-Tag": "noindex, nofollow, noarchive"} {
			require.Equal(t, value, page.Header.Get(name), name)
		}
		policy := page.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self' " + g.settings.Issuer} {
			require.Contains(t, policy, part)
		}
		require.Empty(t, page.Header.Get("Strict-Transport-Security"), "only https may promise https")
	})
}

func TestDecision(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora, sam := g.signedIn("nora"), g.signedIn("sam")

	t.Run("ApprovingQueuesTheEffectOnce", func(t *testing.T) {
		asked := g.waiting("approve")
		page := nora.decide(asked, ledger.Approve, "The order was double.")
		require.Equal(t, http.StatusOK, page.Status)
		require.Equal(t, cardPath(asked), page.Path)
		require.Contains(t, page.Says(), "Approved. What you saw is queued")
		require.Contains(t, page.Says(), "The order was double.")
		require.Equal(t, approved, g.state(asked))
		require.Equal(t, "nora web 32", g.Text(`select reviewer_id || ' ' || channel || ' ' || octet_length(page_digest) from reviews
where approval_id = $1`, asked.ApprovalID))
		require.NotContains(t, nora.get(cardPath(asked)).Says(), "Approved. What you saw is queued", "a message is told once")
	})
	t.Run("RejectingEndsTheRunWithTheReason", func(t *testing.T) {
		asked := g.waiting("reject")
		require.Contains(t, nora.decide(asked, ledger.Reject, "Not <b>ours</b>").Says(), "Rejected. The run has ended")
		require.Equal(t, rejected, g.state(asked))
		require.Contains(t, nora.get(cardPath(asked)).Body, "Not &lt;b&gt;ours&lt;/b&gt;")
	})
	t.Run("WithoutAReasonNothingIsDecided", func(t *testing.T) {
		asked := g.waiting("reason")
		for _, decision := range []string{ledger.Approve, ledger.Reject} {
			page := nora.decide(asked, decision, "  ")
			require.Equal(t, http.StatusUnprocessableEntity, page.Status)
			require.Contains(t, page.Says(), "Nothing was decided")
		}
		tooLong := nora.decide(asked, ledger.Reject, strings.Repeat("ö", longestReason+1))
		require.Equal(t, http.StatusUnprocessableEntity, tooLong.Status)
		require.Contains(t, tooLong.Body, "ööö", "what was typed is kept")
		require.Equal(t, http.StatusUnprocessableEntity, nora.decide(asked, "maybe", "because").Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("ASecondPersonIsToldWhatStands", func(t *testing.T) {
		asked := g.waiting("late")
		form := sam.filled(asked, ledger.Reject, "no")
		nora.decide(asked, ledger.Approve, "yes")
		page := sam.post(cardPath(asked)+"/decision", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "decided already: approved by nora")
		require.Equal(t, approved, g.state(asked))
	})
	t.Run("ADoubleClickAndTheBackButtonAreOneVote", func(t *testing.T) {
		asked := g.waiting("double")
		form := nora.filled(asked, ledger.Approve, "yes")
		var clicks sync.WaitGroup
		for range 4 {
			clicks.Go(func() {
				page := nora.post(cardPath(asked)+"/decision", form)
				if page.Status != http.StatusOK {
					t.Errorf("a click was answered %d: %s", page.Status, page.Says())
				}
			})
		}
		clicks.Wait()
		require.Equal(t, http.StatusOK, nora.post(cardPath(asked)+"/decision", form).Status, "the same form again")
		require.Equal(t, approved, g.state(asked))
	})
	t.Run("WhoAskedMayRejectAndNotApprove", func(t *testing.T) {
		asked := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "nora.lead" })
		page := nora.decide(asked, ledger.Approve, "mine")
		require.Equal(t, http.StatusForbidden, page.Status)
		require.Contains(t, page.Says(), "somebody else has to approve it")
		require.Equal(t, untouched, g.state(asked))
		require.Equal(t, 1, g.Count(`select count(*) from audit_events where run_id = $1 and move = 'refuse_vote'`, asked.Effect.RunID))
		require.Equal(t, http.StatusOK, nora.decide(asked, ledger.Reject, "a mistake").Status)
	})
	t.Run("WithoutTheRoleItIsRefused", func(t *testing.T) {
		asked := g.waiting("role")
		otto := g.signedIn("otto")
		form := otto.get(cardPath(asked)).form(t, cardPath(asked)+"/withdraw") // he may see it and has no decision form
		form.Set("command_id", uuid.NewString())
		form.Set("intent_hash", asked.IntentHash.String())
		form.Set("decision", ledger.Approve)
		form.Set("reason", "I can")
		require.NotEqual(t, http.StatusOK, otto.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("ARemovedRoleDoesNotDecideAfterTheNextSignIn", func(t *testing.T) {
		asked := g.waiting("removed")
		carl := g.as("carl")
		require.NoError(t, g.idp.SetGroups("carl", "support-leads"))
		form := carl.filled(asked, ledger.Approve, "yes")
		require.NoError(t, g.idp.SetGroups("carl", "sales"))
		require.Equal(t, http.StatusOK, carl.get("/sign-in?return=/").Status)
		require.Equal(t, http.StatusNotFound, carl.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("AfterDecideByNothingIsDecided", func(t *testing.T) {
		asked := g.waiting("expired")
		form := nora.filled(asked, ledger.Approve, "yes")
		g.Exec(`update approvals set requested_at = requested_at - interval '2 days', decide_by = clock_timestamp() - interval '1 second'
where approval_id = $1`, asked.ApprovalID)
		page := nora.post(cardPath(asked)+"/decision", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "expired")
		require.Equal(t, 0, g.Count(`select count(*) from reviews where approval_id = $1`, asked.ApprovalID))
		require.NotContains(t, nora.get(cardPath(asked)).Body, `value="approve"`)
	})
	t.Run("AnotherIntentThanWasShownIsNotDecided", func(t *testing.T) {
		asked := g.waiting("changed")
		form := nora.filled(asked, ledger.Approve, "yes")
		form.Set("intent_hash", strings.Repeat("ab", 32))
		require.Equal(t, http.StatusConflict, nora.post(cardPath(asked)+"/decision", form).Status)
		form.Set("intent_hash", "short")
		require.Equal(t, http.StatusBadRequest, nora.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("WhoeverAskedMayWithdrawIt", func(t *testing.T) {
		asked := g.waiting("withdrawn")
		rita := g.signedIn("rita")
		path := cardPath(asked) + "/withdraw"
		form := rita.get(cardPath(asked)).form(t, path)
		require.Equal(t, http.StatusUnprocessableEntity, rita.post(path, form).Status)
		form.Set("reason", "The customer called again.")
		require.Contains(t, rita.post(path, form).Says(), "Withdrawn. The run has ended")
		require.Equal(t, http.StatusConflict, rita.post(path, form).Status)
		stranger := g.waiting("not-hers", func(c *ledger.Claim) { c.RequestedBy = "sam" })
		form = nora.filled(stranger, "", "mine now")
		require.Equal(t, http.StatusForbidden, nora.post(cardPath(stranger)+"/withdraw", form).Status)
		require.Equal(t, untouched, g.state(stranger))
	})
}

func TestTwoPeopleHaveToApprove(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("unknown", func(c *ledger.Claim) { c.RequestedBy = "nobody-we-know" })
	nora, sam := g.signedIn("nora"), g.signedIn("sam")
	first := nora.decide(asked, ledger.Approve, "one")
	require.Contains(t, first.Says(), "Your approval is counted: 1 of 2")
	require.Contains(t, first.Says(), "two different people have to approve")
	require.Contains(t, first.Says(), "You said approve")
	require.Contains(t, sam.decide(asked, ledger.Approve, "two").Says(), "Approved.")
	require.Equal(t, "approved 2 1", g.state(asked))
}

func TestFormsFromElsewhere(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k")
	nora := g.signedIn("nora")
	form := nora.filled(asked, ledger.Approve, "yes")
	path := cardPath(asked) + "/decision"
	changed := func(name, value string) url.Values {
		other := url.Values{}
		for k, v := range form {
			other[k] = v
		}
		other.Set(name, value)
		return other
	}
	for name, send := range map[string]func() seen{
		"WithoutASession":   func() seen { return g.as("nora").post(path, form) },
		"WithoutAToken":     func() seen { return nora.post(path, changed("csrf", "")) },
		"WithAnothersToken": func() seen { return nora.post(path, changed("csrf", randomText())) },
		"OfAnotherSession":  func() seen { return g.signedIn("sam").post(path, form) },
		"FromAnotherOrigin": func() seen {
			return nora.post(path, form, header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "cross-site"))
		},
		"FromAnOldBrowsersSite": func() seen {
			return nora.post(path, form, header("Origin", "https://evil.example"), header("Sec-Fetch-Site", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			page := send()
			require.Equal(t, http.StatusForbidden, page.Status)
			require.Contains(t, page.Says(), "Nothing was decided")
			require.Equal(t, untouched, g.state(asked))
		})
	}
	t.Run("TooLarge", func(t *testing.T) {
		require.Equal(t, http.StatusRequestEntityTooLarge, nora.post(path, changed("reason", strings.Repeat("x", largestForm))).Status)
	})
	t.Run("ByAnotherMethod", func(t *testing.T) {
		for method, path := range map[string]string{http.MethodGet: path, http.MethodDelete: cardPath(asked), http.MethodPost: "/"} {
			page := nora.raw(method, path)
			require.Equal(t, http.StatusMethodNotAllowed, page.Status, "%s %s", method, path)
			require.NotEmpty(t, page.Header.Get("Allow"))
		}
	})
	t.Run("NowhereAtAll", func(t *testing.T) {
		require.Equal(t, http.StatusNotFound, nora.raw(http.MethodGet, "/admin").Status)
		require.Equal(t, "application/problem+json", nora.raw(http.MethodGet, "/v1/nothing").Header.Get("Content-Type"))
	})
	require.Equal(t, untouched, g.state(asked))
	require.Equal(t, http.StatusOK, nora.post(path, form).Status, "the form itself was good")
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

// TestHostileText is APR-13.
func TestHostileText(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.signedIn("nora")
	hostile := "\u202Egnp.exe <script>alert(1)</script> p\u0430ypal.com zero\u200Bwidth \U000E0041tag"
	asked := g.waits("hostile", func(p *servicetest.Proposal) {
		p.Target["record_id"] = hostile
		p.ProposedChange = map[string]any{"amount": json.Number("12.50"), "currency": "EUR", "note": hostile, "deep": map[string]any{"x": hostile}}
		p.Uncertainty = hostile
	}, func(c *ledger.Claim) { c.RequestedBy, c.CorrelationID = "rita\u202E", "t\u200Bk" })

	t.Run("ItIsShownWithMarksAndAWarning", func(t *testing.T) {
		for _, path := range []string{cardPath(asked), "/"} {
			page := nora.get(path)
			require.NotContains(t, page.Body, "<script>alert")
			for _, r := range []string{"\u202E", "\u200B", "\U000E0041"} {
				require.NotContains(t, page.Body, r)
			}
			for _, said := range []string{"⟦U+202E⟧", "Hidden characters."} {
				require.Contains(t, page.Says(), said, path)
			}
		}
		require.Contains(t, nora.get(cardPath(asked)).Says(), "Look-alike letters.")
		require.Contains(t, nora.get(cardPath(asked)).Body, "&lt;script&gt;")
	})
	t.Run("AVeryLongValueIsOpenedBeforeItIsApproved", func(t *testing.T) {
		long := g.waits("long", func(p *servicetest.Proposal) {
			p.ProposedChange = map[string]any{"amount": json.Number("250"), "currency": "EUR", "note": strings.Repeat("a ", 2500) + "TAIL"}
		})
		cut := nora.get(cardPath(long))
		require.NotContains(t, cut.Body, "TAIL")
		require.Contains(t, cut.Says(), "the first 4000 of 5004 characters are shown")
		require.NotContains(t, cut.Body, `value="approve"`)
		form := nora.filled(long, ledger.Approve, "yes")
		refused := nora.post(cardPath(long)+"/decision", form)
		require.Equal(t, http.StatusConflict, refused.Status)
		require.Contains(t, refused.Says(), "open the full values")
		require.Equal(t, untouched, g.state(long))
		full := nora.get(cardPath(long) + "?full=1")
		require.Contains(t, full.Body, "TAIL")
		require.Contains(t, full.Body, `value="approve"`)
		require.Equal(t, http.StatusOK, nora.post(cardPath(long)+"/decision", form).Status)
		require.Equal(t, approved, g.state(long))
	})
}

func TestNothingStaysBehind(t *testing.T) {
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) { tenant.Rules = nil }
	})
	g.signedIn("nora")
	require.NoError(t, g.stop())
	before := goleak.IgnoreCurrent()
	second, err := newWeb(t.Context(), g.Approval)
	require.NoError(t, err)
	require.NotNil(t, second)
	goleak.VerifyNone(t, before)
}

func TestSpans(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, words := range map[time.Duration]string{0: "less than a second", time.Second: "1 second", 90 * time.Minute: "1 hour 30 minutes",
		26*time.Hour + 5*time.Second: "1 day 2 hours", 24*time.Hour + time.Minute: "1 day", 59 * time.Second: "59 seconds"} {
		require.Equal(t, words, span(d))
	}
	require.Equal(t, "2 minutes left", until(now, now.Add(2*time.Minute)))
	require.Equal(t, "over since 1 hour", until(now, now.Add(-time.Hour)))
	require.Equal(t, "in the future: 1 hour from now", since(now, now.Add(time.Hour)))
	require.Equal(t, "age not known", since(now, time.Time{}))
}
