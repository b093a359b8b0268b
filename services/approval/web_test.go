package approval

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/pkg/intent"
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
	g.Exec(`update approvals set decide_by = clock_timestamp() + interval '10 minutes' where approval_id = $1`,
		soon.ApprovalID)
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
		for _, part := range []string{"payment.refund", "payments · p-soon", "rita.requester", "9 minutes", "UTC",
			"0 of 1", "high risk"} {
			require.Contains(t, says, part)
		}
	})
	t.Run("AFilterNarrows", func(t *testing.T) {
		for query, want := range map[string]ledgertest.Asked{"key=late": late, "correlation_id=ticket-soon": soon,
			"state=rejected": done} {
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
		"action": "payment.refund", "amount": "250 EUR", "field": "payment_id p-k",
		"version": "Expected version none named", "evidence": "payments",
		"age": "1 minute", "workflow": "support-refunds@2", "reason": "The amount needs the lead.",
		"policy": g.PolicyVersion, "key": "Key k",
		"correlation": "ticket-k", "source": "support-refunds", "requester": "rita.requester", "sender": "sent by demo",
		"hash": asked.IntentHash.String(), "revision": "Revision 1", "decide by": "left",
		"execute by": "executed within 1 hour of the approval",
		"quorum":     "0 of 1", "identity": "recorded as the decision of nora",
		"rejection": "Rejecting ends the run. Nothing was refunded.",
		"execution": "not started", "risk": "high risk",
	} {
		require.Contains(t, says, part, name)
	}
	require.Contains(t, page.Body, `rows="4" maxlength="2000" aria-describedby="reason-help" required`)
	require.Equal(t, 1, strings.Count(page.Body, "<script"), "our file, and no other script")
	require.Contains(t, page.Body, `<script src="/static/holdpoint.js?v=`)

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
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"X-Robots-Tag": "noindex, nofollow, noarchive"} {
			require.Equal(t, value, page.Header.Get(name), name)
		}
		policy := page.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self' " + g.settings.Issuer} {
			require.Contains(t, policy, part)
		}
		require.Empty(t, page.Header.Get("Strict-Transport-Security"), "only https may promise https")
	})
}

// TestHostileText is APR-13.
func TestHostileText(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.signedIn("nora")
	hostile := "\u202Egnp.exe <script>alert(1)</script> p\u0430ypal.com zero\u200Bwidth \U000E0041tag"
	asked := g.waits("hostile", func(p *servicetest.Proposal) {
		p.Target["record_id"] = hostile
		p.ProposedChange = map[string]any{"amount": json.Number("12.50"), "currency": "EUR", "note": hostile,
			"deep": map[string]any{"x": hostile}}
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
			p.ProposedChange = map[string]any{"amount": json.Number("250"), "currency": "EUR",
				"note": strings.Repeat("a ", 2500) + "TAIL"}
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
		unreasoned := full.form(t, cardPath(long)+"/decision?full=1")
		unreasoned.Set("decision", ledger.Approve)
		again := nora.post(cardPath(long)+"/decision?full=1", unreasoned)
		require.Equal(t, http.StatusUnprocessableEntity, again.Status)
		require.Contains(t, again.Body, "TAIL", "it stays open")
		require.Equal(t, http.StatusOK, nora.post(cardPath(long)+"/decision", form).Status)
		require.Equal(t, approved, g.state(long))
	})
}

// TestNothingStaysBehind looks for goroutines of the pages' own: there is nothing to stop them with.
func TestNothingStaysBehind(t *testing.T) {
	g := newGate(t)
	g.signedIn("nora")
	require.NoError(t, g.stop())
	before := goleak.IgnoreCurrent()
	second, err := newWeb(t.Context(), g.Approval)
	require.NoError(t, err)
	mux := http.NewServeMux()
	second.routes(mux)
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.AddCookie(&http.Cookie{Name: "holdpoint_session", Value: newToken()})
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	require.Equal(t, http.StatusSeeOther, answer.Code)
	goleak.VerifyNone(t, before)
}

func TestStaticFiles(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.signedIn("nora")
	for path, kind := range map[string]string{g.web.style: "text/css; charset=utf-8", g.web.script: "text/javascript; charset=utf-8",
		"/static/icon.svg": "image/svg+xml"} {
		file := nora.raw(http.MethodGet, path)
		require.Equal(t, http.StatusOK, file.Status)
		require.Equal(t, kind, file.Header.Get("Content-Type"))
		require.Contains(t, file.Header.Get("Cache-Control"), "public")
		require.Empty(t, file.Header.Values("Set-Cookie"), "what caches keep has no cookie")
	}
	for _, path := range []string{"/static/none.css", "/static/..%2Fweb.go", "/static/%2e%2e%2fstatic%2fstyle.css"} {
		require.Equal(t, http.StatusNotFound, nora.raw(http.MethodGet, path).Status, path)
	}
	require.Equal(t, "no-store", nora.raw(http.MethodGet, "/").Header.Get("Cache-Control"))
}

func TestEvidenceLinks(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k")
	card, err := g.env.Ledger.Card(t.Context(), asked.ApprovalID)
	require.NoError(t, err)
	v, err := g.tenant(ledgertest.Tenant).view(card, false)
	require.NoError(t, err)
	for address, linked := range map[string]bool{"https://crm.example/c/1?a=b": true, "http://crm.example/": true,
		"javascript:alert(1)": false, "data:text/html,x": false, "//evil.example": false, "/relative": false, "": false} {
		v.Evidence = []evidence{{Evidence: intent.Evidence{Source: "crm", URL: address}, Link: webAddress(address)}}
		page, err := g.web.part("card-main", v)
		require.NoError(t, err)
		require.Equal(t, linked, strings.Contains(string(page), `rel="noopener noreferrer nofollow"`), address)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, words := range map[time.Duration]string{0: "less than a second", time.Second: "1 second",
		90 * time.Minute:             "1 hour 30 minutes",
		26*time.Hour + 5*time.Second: "1 day 2 hours", 24*time.Hour + time.Minute: "1 day",
		59 * time.Second: "59 seconds"} {
		require.Equal(t, words, span(d))
	}
	require.Equal(t, "2 minutes left", until(now, now.Add(2*time.Minute)))
	require.Equal(t, "over since 1 hour", until(now, now.Add(-time.Hour)))
	require.Equal(t, "in the future: 1 hour from now", since(now, now.Add(time.Hour)))
	require.Equal(t, "age not known", since(now, time.Time{}))
}
