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

// tab is one Chromium with a profile of its own.
type tab struct {
	ctx  context.Context
	base string
	t    testing.TB
}

// newTab starts a browser in which no page script runs: the pages must do without.
func newTab(t testing.TB, g *gate) *tab {
	t.Helper()
	b := newScriptedTab(t, g)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	return b
}

// newScriptedTab starts a browser as people have it.
func newScriptedTab(t testing.TB, g *gate) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	b := &tab{ctx: ctx, base: g.base, t: t}
	b.do(chromedp.EmulateViewport(1200, 900))
	return b
}

// another is one more tab of the same browser, with the same session.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	return &tab{ctx: ctx, base: b.base, t: b.t}
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

// looks are the ways in which each page is looked at: at the width of a desk and of a phone, light and dark.
var looks = []struct {
	name   string
	width  int64
	scheme string
}{{"desk-light", 1280, "light"}, {"desk-dark", 1280, "dark"}, {"phone-light", 390, "light"}, {"phone-dark", 390, "dark"}}

// look shows the page in each way.
func (b *tab) look(each func(look string)) {
	b.t.Helper()
	for _, look := range looks {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}})
		require.NoError(b.t, err)
		b.do(chromedp.EmulateViewport(look.width, 900))
		each(look.name)
	}
	b.do(chromedp.EmulateViewport(1200, 900))
}

// shot keeps a picture of the page as it is looked at where HOLDPOINT_SCREENSHOTS names a directory.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("HOLDPOINT_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
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
	})

	t.Run("ApproveIsTwoClicksAndAReason", func(t *testing.T) {
		nora.press(`a[href="` + cardPath(first) + `"]`)
		require.Contains(t, nora.says(), "250 EUR")
		nora.decide(ledger.Approve, "The ticket shows a double charge.")
		require.Contains(t, nora.says(), "Approved.")
		require.Equal(t, approved, g.state(first))
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
	})

	t.Run("AlreadyDecidedSaysByWhom", func(t *testing.T) {
		asked := g.waiting("late")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"))
		require.Equal(t, ledger.VoteRejected, g.Vote(asked.Vote("sam", ledger.Reject))[0].Result)
		nora.decide(ledger.Approve, "too late")
		require.Contains(t, nora.says(), "decided already: rejected by sam")
		require.Equal(t, rejected, g.state(asked))
	})

	t.Run("ExpiredSaysSo", func(t *testing.T) {
		asked := g.waiting("expired")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"))
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, asked.ApprovalID)
		nora.decide(ledger.Approve, "too late")
		require.Regexp(t, "(?i)expired", nora.says())
		require.Zero(t, g.Count(`select count(*) from effects where run_id = $1`, asked.Effect.RunID))
	})

	t.Run("StaleAsksToLookAgain", func(t *testing.T) {
		asked := g.waiting("stale")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"))
		g.Exec(`update runs set intent_revision = 2 where run_id = $1`, asked.Effect.RunID)
		nora.decide(ledger.Approve, "as it was")
		require.Contains(t, nora.says(), "What would be done has changed since you were shown it.")
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("SentBackMeanwhileSaysSo", func(t *testing.T) {
		asked := g.waiting("better")
		nora.open(cardPath(asked))
		nora.do(chromedp.WaitVisible("textarea"))
		back := asked.Vote("sam", ledger.SendBack)
		back.Reason, back.Revisions = "Name the ticket.", ledger.Revisions{Rounds: 1, Within: time.Hour}
		require.Equal(t, ledger.VoteSentBack, g.Vote(back)[0].Result)
		nora.decide(ledger.Approve, "as it was")
		require.Contains(t, nora.says(), "decided already: superseded by sam")
		require.Zero(t, g.Count(`select count(*) from effects where run_id = $1`, asked.Effect.RunID))
	})

	t.Run("AnotherRoleSeesNothing", func(t *testing.T) {
		asked := g.waiting("others")
		carl := newTab(t, g)
		carl.signIn("carl", cardPath(asked))
		require.NotContains(t, carl.says(), "250 EUR")
		rita := newTab(t, g)
		rita.signIn("rita", cardPath(asked))
		require.Contains(t, rita.says(), "250 EUR", "whoever asked may look")
		require.Equal(t, untouched, g.state(asked))
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
		require.Equal(t, untouched, g.state(asked))
		stranger.press(`a[href^="/sign-in"]`)
		stranger.do(chromedp.WaitVisible(`input[type=password]`), chromedp.SendKeys(`input[type=password]`, demoidp.DemoPassword))
		stranger.press(`button[value="nora"]`)
		stranger.do(chromedp.WaitVisible("textarea"))
		require.Equal(t, cardPath(asked), stranger.path())
		stranger.decide(ledger.Approve, "from the mail")
		require.Equal(t, approved, g.state(asked))
	})

	t.Run("NothingOnThePagesIsAScriptButOurFile", func(t *testing.T) {
		asked := g.waiting("plain")
		for _, path := range []string{"/", cardPath(asked), batchPath(asked)} {
			page := g.signedIn("nora").get(path)
			require.Equal(t, 1, strings.Count(page.Body, "<script"))
			require.Contains(t, page.Body, `<script src="`+g.web.script+`" defer></script>`)
			require.Contains(t, page.Header.Get("Content-Security-Policy"), "script-src 'self'; connect-src 'self';")
		}
		require.NotContains(t, g.as("nobody").raw(http.MethodGet, g.link(asked, "mail nora@example.test")).Body, "<script")
	})
}
