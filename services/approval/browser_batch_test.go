//go:build browser

package approval

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestBrowserBatch decides together what can be, in a browser in which no script runs (A18).
func TestBrowserBatch(t *testing.T) {
	g := newGate(t, lowRisk)
	good, late, over := g.waiting("good"), g.waiting("late"), g.waiting("over")
	high := g.waiting("high")
	g.Exec(`update approvals set action_type = 'stock.reserve' where approval_id = $1`, high.ApprovalID)
	left := g.waiting("left")
	nora := newTab(t, g)
	nora.signIn("nora", "/")
	for _, a := range []string{good.ApprovalID.String(), late.ApprovalID.String(), over.ApprovalID.String()} {
		nora.do(chromedp.Click(`input[name="id"][value="` + a + `"]`))
	}
	require.Contains(t, nora.says(), "Decided alone", "of high risk")
	nora.press("#together")
	require.Contains(t, nora.path(), "/batch?id=")
	require.Contains(t, nora.says(), "p-good")
	require.NotContains(t, nora.says(), "p-left")

	t.Run("EachHasItsOwnResult", func(t *testing.T) {
		require.Equal(t, ledger.VoteRejected, g.Vote(late.Vote("sam", ledger.Reject))[0].Result)
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, over.ApprovalID)
		nora.press(`button[value="approve"]`)
		says := nora.says()
		require.Contains(t, says, "1 of 3 counted.")
		require.Contains(t, says, "decided already: rejected by sam")
		require.Regexp(t, "(?i)expired", says)
		require.Equal(t, approved, g.state(good))
		require.Equal(t, rejected, g.state(late))
		require.Equal(t, untouched, g.state(left))
		require.Equal(t, untouched, g.state(high))
	})
	t.Run("TheBackButtonDecidesNothingMore", func(t *testing.T) {
		nora.do(chromedp.NavigateBack(), chromedp.WaitVisible("main#content"))
		present, err := chromedp.Run(nora.ctx, chromedp.Evaluate[bool](`document.querySelector('button[value="reject"]') !== null`))
		require.NoError(t, err)
		if present {
			nora.do(chromedp.SendKeys("#reason", "the other way round"))
			nora.press(`button[value="reject"]`)
			require.Contains(t, nora.says(), "decided already: approved by nora")
		}
		require.Equal(t, approved, g.state(good))
	})
	t.Run("TheNextRequestIsALinkAway", func(t *testing.T) {
		nora.open("/next")
		nora.do(chromedp.WaitVisible("#decide"))
		require.Contains(t, []string{cardPath(left), cardPath(high)}, nora.path())
	})
	t.Run("RejectingAsksForAReason", func(t *testing.T) {
		asked := g.waiting("reason")
		nora.open(batchPath(asked))
		nora.press(`button[value="reject"]`)
		require.Contains(t, nora.says(), "Say why")
		require.Equal(t, untouched, g.state(asked))
		nora.do(chromedp.SendKeys("#reason", "not ours"))
		nora.press(`button[value="reject"]`)
		require.Equal(t, rejected, g.state(asked))
	})
	t.Run("ThreeTabsDecideOnce", func(t *testing.T) {
		asked := g.waiting("tabs")
		tabs := []*tab{nora, nora.another(), nora.another()}
		for _, one := range tabs {
			one.open(batchPath(asked))
		}
		tabs[0].press(`button[value="approve"]`)
		require.Contains(t, tabs[0].says(), "1 of 1 counted.")
		for _, late := range tabs[1:] {
			late.do(chromedp.SendKeys("#reason", "no"))
			late.press(`button[value="reject"]`)
			require.Contains(t, late.says(), "decided already: approved by nora")
		}
		require.Equal(t, approved, g.state(asked))
	})
}
