//go:build browser

package approval

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// types presses keys one after the other, on the page that is open.
func (b *tab) types(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// leads presses a key that leads to another page.
func (b *tab) leads(key string) {
	b.t.Helper()
	_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(key))
	require.NoError(b.t, err, "press %q on %s", key, b.path())
	b.do(chromedp.WaitVisible("main#content"))
}

// tabTo presses Tab until something has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 60 {
		if b.is("document.activeElement.matches('" + selector + "')") {
			return
		}
		b.types(kb.Tab)
	}
	require.Fail(b.t, "the focus does not get there by Tab", selector)
}

// is asks the page something.
func (b *tab) is(expression string) bool {
	b.t.Helper()
	yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
	require.NoError(b.t, err, expression)
	return yes
}

// looksAgain has the page ask for news, as it does every ten seconds.
func (b *tab) looksAgain() {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new Event('visibilitychange'))`))
}

func (b *tab) reads(text string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void]("document.querySelector('#news').textContent.includes(`" + text + "`)"))
}

// TestBrowserKeys is A18: everything by keys alone, and no key where somebody types.
func TestBrowserKeys(t *testing.T) {
	g := newGate(t)
	first, second := g.waiting("first"), g.waiting("second")
	g.Exec(`update approvals set decide_by = clock_timestamp() + interval '10 minutes' where approval_id = $1`, first.ApprovalID)
	nora := newScriptedTab(t, g)

	t.Run("SignInOpenApproveAndNext", func(t *testing.T) {
		nora.open("/")
		nora.do(chromedp.WaitVisible(`input[type=password]`))
		nora.tabTo("input[type=password]")
		nora.types(demoidp.DemoPassword)
		nora.tabTo(`button[value="nora"]`)
		nora.leads(kb.Enter)
		nora.types("j")
		nora.leads(kb.Enter)
		require.Equal(t, cardPath(first), nora.path())
		nora.types("r" + "charged twice, says anja" + kb.Escape + "a")
		require.Equal(t, untouched, g.state(first), "the keys alone decide nothing")
		require.True(t, nora.is(`document.activeElement.value === 'approve'`))
		nora.leads(kb.Enter)
		require.Equal(t, approved, g.state(first))
		require.Contains(t, nora.says(), "Next request (1 waiting)")
		require.Contains(t, g.Text(`select reason from reviews where approval_id = $1`, first.ApprovalID), "charged twice, says anja")
		nora.leads("n")
		require.Equal(t, cardPath(second), nora.path())
	})
	t.Run("NoKeyActsWhereSomebodyTypesOrWithModifiers", func(t *testing.T) {
		nora.open(cardPath(second))
		nora.types("r" + "nq?xb/jka")
		typed, err := chromedp.Run(nora.ctx, chromedp.Value("#reason"))
		require.NoError(t, err)
		require.Contains(t, typed, "nq?xb/jka")
		require.Equal(t, cardPath(second), nora.path())
		nora.types(kb.Escape)
		for _, modifier := range []chromedp.KeyOption{chromedp.KeyModifiers(2), chromedp.KeyModifiers(1), chromedp.KeyModifiers(4)} {
			nora.do(chromedp.KeyEvent("a", modifier))
			require.False(t, nora.is(`document.activeElement.value === 'approve'`))
		}
		require.Equal(t, untouched, g.state(second))
	})
	t.Run("TheListOfKeysOpensAndSwitchesThemOff", func(t *testing.T) {
		nora.open("/")
		nora.types("?")
		require.True(t, nora.is(`document.querySelector('#keys').open`))
		nora.types("q" + kb.Escape)
		require.False(t, nora.is(`document.querySelector('#keys').open`))
		nora.do(chromedp.Click("#keys-button"), chromedp.WaitVisible("#keys"), chromedp.Click("#keys-on"))
		nora.types(kb.Escape)
		nora.open("/")
		nora.types("?")
		require.False(t, nora.is(`document.querySelector('#keys').open`))
		nora.do(chromedp.Click("#keys-button"), chromedp.WaitVisible("#keys"), chromedp.Click("#keys-on"))
		nora.types(kb.Escape + "/")
		require.True(t, nora.is(`document.activeElement.id === 'q'`))
	})
	t.Run("NewsMovesNothing", func(t *testing.T) {
		nora.open("/")
		third := g.waiting("third")
		nora.looksAgain()
		nora.reads("1 change")
		require.False(t, nora.is(`document.querySelector('[data-id="`+third.ApprovalID.String()+`"]') !== null`))
		nora.press("#news a")
		require.True(t, nora.is(`document.querySelector('[data-id="`+third.ApprovalID.String()+`"]') !== null`))
		nora.open(cardPath(third))
		require.Equal(t, ledger.VoteRejected, g.Vote(third.Vote("sam", ledger.Reject))[0].Result)
		nora.looksAgain()
		nora.reads("decided elsewhere: rejected by sam")
		nora.press("#news a")
		require.Contains(t, nora.says(), "rejected")
		require.Equal(t, cardPath(third), nora.path())
	})
}

// TestBrowserClearsAQueueByKeys works off a hundred mixed requests with keys alone, together where they may be and else one by one,
// and says how long the machine took: what is left of a person's time is reading.
func TestBrowserClearsAQueueByKeys(t *testing.T) {
	const requests, high = 100, 20
	g := newGate(t, lowRisk)
	for i := range requests {
		asked := g.waiting(fmt.Sprintf("k%d", i))
		if i%(requests/high) == 0 {
			g.Exec(`update approvals set action_type = 'stock.reserve' where approval_id = $1`, asked.ApprovalID)
		}
	}
	waiting := func() int { return g.Count(`select count(*) from approvals where state = 'pending'`) }
	nora := newScriptedTab(t, g)
	nora.signIn("nora", "/")
	begun, keys := time.Now(), 0
	press := func(text string) { keys += len([]rune(text)); nora.types(text) }
	leads := func(key string) { keys++; nora.leads(key) }
	for waiting() > high {
		for range 30 {
			press("jx")
			if nora.is(`document.querySelectorAll('tr input:checked').length >= 25`) {
				break
			}
		}
		leads("b")
		press("a")
		leads(kb.Enter)
		leads("q")
	}
	for range high {
		leads("n")
		press("rchecked" + kb.Escape + "a")
		leads(kb.Enter)
	}
	took := time.Since(begun)
	require.Zero(t, waiting())
	require.Equal(t, requests, g.Count(`select count(*) from reviews where decision = 'approve' and reviewer_id = 'nora'`))
	require.Contains(t, nora.says(), "Nothing else waits for you")
	t.Logf("%d requests, %d of them of high risk, took %d keys and %s", requests, high, keys, took.Round(time.Millisecond))
}
