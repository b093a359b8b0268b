//go:build browser

package approval

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// tab is one Chromium with a profile of its own, in which page scripts are switched off.
type tab struct {
	ctx  context.Context
	base string
	t    testing.TB
}

// newTab starts the browser. No page script runs in it: the pages must do without.
func newTab(t testing.TB, g *gate) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b := &tab{ctx: ctx, base: g.base, t: t}
	b.do(chromedp.EmulateViewport(1200, 900))
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	err := chromedp.Do(b.ctx, steps...)
	require.NoError(b.t, err, b.says)
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base+path), chromedp.WaitReady("body"))
}

// press follows what a person clicks, to the page that it leads to.
func (b *tab) press(selector string) {
	b.t.Helper()
	_, err := chromedp.RunResponse(b.ctx, chromedp.Click(selector))
	require.NoError(b.t, err, "press %s", selector)
}

// says is the page's text.
func (b *tab) says() string {
	text, err := chromedp.Run(b.ctx, chromedp.Text("body"))
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}

func (b *tab) path() string {
	b.t.Helper()
	at, err := chromedp.Run(b.ctx, chromedp.Location())
	require.NoError(b.t, err)
	return strings.TrimPrefix(at, b.base)
}

// signIn goes to a page and signs in where it is asked to.
func (b *tab) signIn(person, path string) {
	b.t.Helper()
	b.open(path)
	b.do(chromedp.WaitVisible(`input[type=password]`), chromedp.SendKeys(`input[type=password]`, demoidp.DemoPassword))
	b.press(`button[value="` + person + `"]`)
	b.do(chromedp.WaitVisible("main#content"))
}

// decide fills in the card that is open.
func (b *tab) decide(decision, reason string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible("textarea"))
	if reason != "" {
		b.do(chromedp.SendKeys("textarea", reason))
	}
	b.press(`button[value="` + decision + `"]`)
	b.do(chromedp.WaitVisible("main#content"))
}

// shot keeps a picture of the page where HOLDPOINT_SCREENSHOTS names a directory, at the width of a desk and of a phone, light and
// dark.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("HOLDPOINT_SCREENSHOTS")
	if dir == "" {
		return
	}
	for look, width := range map[string]int64{"desk": 1200, "phone": 390} {
		for _, scheme := range []string{"light", "dark"} {
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			require.NoError(b.t, err)
			b.do(chromedp.EmulateViewport(width, 900))
			picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			require.NoError(b.t, err)
			require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+"-"+look+"-"+scheme+".png"), picture, 0o644))
		}
	}
	b.do(chromedp.EmulateViewport(1200, 900))
}

// TestBrowser goes through the pages with a real browser in which no script runs.
func TestBrowser(t *testing.T) {
	g := newGate(t)
	first := g.waiting("first")
	nora := newTab(t, g)

	t.Run("SignInLeadsToTheQueue", func(t *testing.T) {
		nora.signIn("nora", "/")
		require.Contains(t, nora.says(), "Waiting for you")
		require.Contains(t, nora.says(), "payment.refund")
		nora.shot("queue")
	})

	t.Run("ApproveIsTwoClicksAndAReason", func(t *testing.T) {
		nora.press(`a[href="` + cardPath(first) + `"]`)
		nora.shot("card")
		require.Contains(t, nora.says(), "250 EUR")
		nora.decide(ledger.Approve, "The ticket shows a double charge.")
		require.Contains(t, nora.says(), "Approved.")
		require.Equal(t, approved, g.state(first))
		nora.shot("approved")
	})

	t.Run("BackAndAgainDecidesNothingMore", func(t *testing.T) {
		nora.do(chromedp.NavigateBack())
		nora.do(chromedp.WaitVisible("main#content"))
		if strings.Contains(nora.says(), "Your decision") {
			form := `button[value="reject"]`
			if present, _ := chromedp.Run(nora.ctx, chromedp.Evaluate[bool](`document.querySelector('`+form+`') !== null`)); present {
				nora.decide(ledger.Reject, "the other way round")
			}
		}
		require.Equal(t, approved, g.state(first))
	})

	t.Run("RejectAsksForAReason", func(t *testing.T) {
		asked := g.waiting("rejected")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"), chromedp.Click(`button[value="reject"]`))
		require.Equal(t, untouched, g.state(asked), "the browser itself asks for the reason")
		nora.decide(ledger.Reject, "The charge was right.")
		require.Contains(t, nora.says(), "Rejected.")
		require.Equal(t, rejected, g.state(asked))
		nora.shot("rejected")
	})

	t.Run("AlreadyDecidedSaysByWhom", func(t *testing.T) {
		asked := g.waiting("late")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"))
		require.Equal(t, ledger.VoteRejected, g.Vote(asked.Vote("sam", ledger.Reject))[0].Result)
		nora.decide(ledger.Approve, "too late")
		require.Contains(t, nora.says(), "decided already: rejected by sam")
		require.Equal(t, rejected, g.state(asked))
		nora.shot("already-decided")
	})

	t.Run("ExpiredSaysSo", func(t *testing.T) {
		asked := g.waiting("expired")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"))
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, asked.ApprovalID)
		nora.decide(ledger.Approve, "too late")
		require.Regexp(t, "(?i)expired", nora.says())
		require.Zero(t, g.Count(`select count(*) from effects where run_id = $1`, asked.Effect.RunID))
		nora.shot("expired")
	})

	t.Run("AnotherRoleSeesNothing", func(t *testing.T) {
		asked := g.waiting("others")
		carl := newTab(t, g)
		carl.signIn("carl", cardPath(asked))
		require.NotContains(t, carl.says(), "250 EUR")
		carl.shot("not-visible")
		rita := newTab(t, g)
		rita.signIn("rita", cardPath(asked))
		require.Contains(t, rita.says(), "250 EUR", "whoever asked may look")
		require.Equal(t, untouched, g.state(asked))
		rita.shot("own-request")
	})

	t.Run("ALinkOpenedByAScannerDecidesNothing", func(t *testing.T) {
		asked := g.waiting("scanned")
		link := g.link(asked, "support-mail nora@example.test")
		for _, method := range []string{http.MethodHead, http.MethodGet, http.MethodGet, http.MethodGet} {
			require.Equal(t, http.StatusOK, g.as("nobody").raw(method, link).Status)
		}
		stranger := newTab(t, g)
		stranger.open(link)
		require.NotContains(t, stranger.says(), "250")
		stranger.shot("link")
		require.Equal(t, untouched, g.state(asked))
		stranger.press(`a[href^="/sign-in"]`)
		stranger.do(chromedp.WaitVisible(`input[type=password]`), chromedp.SendKeys(`input[type=password]`, demoidp.DemoPassword))
		stranger.press(`button[value="nora"]`)
		stranger.do(chromedp.WaitVisible("textarea"))
		require.Equal(t, cardPath(asked), stranger.path())
		stranger.decide(ledger.Approve, "from the mail")
		require.Equal(t, approved, g.state(asked))
	})

	t.Run("NothingOnThePagesIsAScript", func(t *testing.T) {
		asked := g.waiting("plain")
		for _, path := range []string{"/", cardPath(asked)} {
			page := g.signedIn("nora").get(path)
			require.NotContains(t, page.Body, "<script")
			require.NotContains(t, page.Header.Get("Content-Security-Policy"), "script-src")
		}
	})
}
