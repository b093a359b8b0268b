package approval

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

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
		require.NotContains(t, nora.get(cardPath(asked)).Says(), "Approved. What you saw is queued",
			"a message is told once")
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
		require.Equal(t, 1, g.Count(`select count(*) from audit_events where run_id = $1 and move = 'refuse_vote'`,
			asked.Effect.RunID))
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
		require.Contains(t, rita.post(path, form).Says(), "Withdrawn. The run has ended", "the same form again is the same withdrawal")
		form.Set("reason", "Another one.")
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
		"WithAnothersToken": func() seen { return nora.post(path, changed("csrf", newToken())) },
		"OfAnotherSession":  func() seen { return g.signedIn("sam").post(path, form) },
		"FromAnotherOrigin": func() seen {
			return nora.post(path, form, header("Origin", "https://evil.example"), header("Sec-Fetch-Site",
				"cross-site"))
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
		require.Equal(t, http.StatusRequestEntityTooLarge, nora.post(path, changed("reason", strings.Repeat("x",
			largestForm))).Status)
	})
	t.Run("ByAnotherMethod", func(t *testing.T) {
		for method, path := range map[string]string{http.MethodGet: path, http.MethodDelete: cardPath(asked),
			http.MethodPost: "/"} {
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
