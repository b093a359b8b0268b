//go:build browser

package approval

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// axeRun asks axe-core for all rules of WCAG 2.2 AA and the best practices, and gives what they find wrong, in short.
const axeRun = `axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa',
  'best-practice']}).then((found) => JSON.stringify(found.violations.map((v) => v.id + ': ' + v.help + ' ' + v.nodes.slice(0, 4).map((n) =>
  n.target.join(' ') + ' ' + n.failureSummary.replace(/\s+/g, ' ')).join(' | '))))`

// axe is axe-core's source. It comes from npm, and runs through the browser's own tools, which the pages' policy does not stop.
func axe(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HOLDPOINT_AXE")
	require.NotEmpty(t, dir, "HOLDPOINT_AXE names the directory of axe-core 4: npm install --prefix DIR axe-core@4, "+
		"then HOLDPOINT_AXE=DIR/node_modules/axe-core")
	source, err := os.ReadFile(filepath.Join(dir, "axe.min.js"))
	require.NoError(t, err, "HOLDPOINT_AXE has no axe.min.js: npm install --prefix DIR axe-core@4")
	return string(source)
}

// TestBrowserAccessibility has axe-core look at every page, at the width of a desk and of a phone, light and dark, and keeps pictures
// of them where HOLDPOINT_SCREENSHOTS names a directory.
func TestBrowserAccessibility(t *testing.T) {
	source := axe(t)
	g := newGate(t, lowRisk)
	nora := newScriptedTab(t, g)
	check := func(b *tab, name string) {
		t.Helper()
		b.examine(source, name)
	}
	page := func(name, path string) {
		t.Helper()
		nora.open(path)
		check(nora, name)
	}

	nora.signIn("nora", "/")
	t.Run("WhatIsWrongIsFound", func(t *testing.T) {
		nora.do(chromedp.Evaluate[chromedp.Void](source+";void 0"),
			chromedp.Evaluate[chromedp.Void](`document.querySelector('main').append(document.createElement('img'))`))
		text, err := chromedp.Run(nora.ctx, chromedp.Evaluate[string](axeRun, chromedp.EvalAwaitPromise))
		require.NoError(t, err)
		require.Contains(t, text, "image-alt")
	})
	page("queue-empty", "/")
	low, high, hostile := g.waiting("low"), g.waiting("high"), g.waits("hostile", func(p *servicetest.Proposal) {
		p.Target["record_id"] = strings.Repeat("averylongrecordidwithoutanybreak", 6)
		p.ProposedChange.(map[string]any)["note"] = "\u202Egnp.exe <b>bold</b> p\u0430ypal.com " + strings.Repeat("long ", 300)
	}, func(c *ledger.Claim) { c.RequestedBy = "rita\u200B" })
	g.Exec(`update approvals set action_type = 'stock.reserve' where approval_id = $1`, high.ApprovalID)
	two := g.waiting("two", func(c *ledger.Claim) { c.RequestedBy = "somebody else" })
	late, over := g.waiting("late"), g.waiting("over")
	g.Vote(g.waiting("decided").Vote("sam", ledger.Reject))
	own := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "nora.lead" })

	page("queue", "/")
	page("queue-one-list", "/?state=mine&sort=risk&q=ticket-")
	page("queue-nothing-found", "/?q=none")
	page("card", cardPath(low))
	page("card-high", cardPath(high))
	page("card-hostile", cardPath(hostile))
	page("card-own", cardPath(own))
	page("batch", batchPath(low, two, late, over, high, hostile, own))
	nora.press(`button[value="reject"]`)
	check(nora, "batch-no-reason")
	require.Equal(t, ledger.VoteRejected, g.Vote(late.Vote("sam", ledger.Reject))[0].Result)
	g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, over.ApprovalID)
	nora.press(`button[value="approve"]`)
	check(nora, "batch-done")
	page("card-decided", cardPath(low))
	page("card-counted", cardPath(two))
	nora.open("/")
	g.waiting("news")
	nora.looksAgain()
	nora.reads("change")
	check(nora, "queue-news")
	nora.types("?")
	check(nora, "keys")
	nora.open(cardPath(high))
	nora.do(chromedp.SendKeys("#reason", "checked"))
	nora.press(`button[value="approve"]`)
	check(nora, "approved")
	stale := g.waiting("stale")
	nora.open(cardPath(stale))
	require.Equal(t, ledger.VoteRejected, g.Vote(stale.Vote("sam", ledger.Reject))[0].Result)
	nora.do(chromedp.SendKeys("#reason", "too late"))
	nora.press(`button[value="approve"]`)
	check(nora, "already-decided")
	page("not-found", "/approvals/none")
	page("nowhere", "/nowhere")
	page("nothing-chosen", "/batch")
	page("not-allowed", cardPath(low)+"/decision")
	nora.press(`form[action="/sign-out"] button`)
	check(nora, "signed-out")
	stranger := newScriptedTab(t, g)
	stranger.open(g.link(own, "support-mail "+url.PathEscape("nora@example.test")))
	check(stranger, "link")
	stranger.open("/callback")
	check(stranger, "sign-in-failed")
	otto := newScriptedTab(t, g)
	otto.signIn("carl", "/")
	check(otto, "queue-without-a-role")
}

// examine has axe-core look at the page as it is, in each of its four looks.
func (b *tab) examine(source, name string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](source + ";void 0"))
	b.look(func(look string) {
		b.shot(name + "-" + look)
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](axeRun, chromedp.EvalAwaitPromise))
		require.NoError(b.t, err)
		var found []string
		require.NoError(b.t, json.Unmarshal([]byte(text), &found))
		require.Empty(b.t, found, "%s, %s", name, look)
		wide, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
		require.NoError(b.t, err)
		require.False(b.t, wide, "%s, %s: the page is wider than the screen", name, look)
	})
}

// TestBrowserAccessibilityOfContacts does the same for what a change of a contact leads to: the comparison with what the target holds, a
// request that came back, the timeline, and what acted with no person asked.
func TestBrowserAccessibilityOfContacts(t *testing.T) {
	source := axe(t)
	g := contactGate(t)
	nora := newScriptedTab(t, g)
	nora.signIn("nora", "/")
	page := func(name, path string) {
		t.Helper()
		nora.open(path)
		nora.examine(source, name)
	}
	page("unattended-empty", "/unattended")
	asked := g.change("ada", map[string]any{"city": "Lisbon", "address": map[string]any{"zip": "1200-816"}})
	page("card-not-read", cardPath(asked))
	g.holds(asked, `{"/fields/city":"Porto"}`)
	page("card-compared", cardPath(asked))
	g.Vote(asked.Vote("nora", ledger.Approve))
	again := g.comesBack(asked, "ada", `[{"code":"target_changed","message":"The target is at version 2."}]`)
	g.reads(again, ledger.ReadResult{Found: true, Version: "2", Held: []byte(`{"/fields/city":"Faro"}`)})
	page("card-again", cardPath(again))
	page("run", runPath+"demo/"+again.Effect.RunID.String())
	back := g.change("back", map[string]any{"city": "Faro"})
	nora.open(cardPath(back))
	nora.do(chromedp.SendKeys("#reason", "Another city."))
	nora.press(`button[value="send_back"]`)
	nora.examine(source, "card-sent-back")

	path := g.acts("held")
	page("unattended", "/unattended")
	page("case", path)
	nora.press(`button[value="wrong"]`)
	nora.examine(source, "case-no-reason")
	nora.do(chromedp.SendKeys("#judge-reason", "Another Smith."))
	nora.press(`button[value="wrong"]`)
	nora.examine(source, "case-wrong")
	nora.do(chromedp.SendKeys("#back-reason", "Another Smith."))
	nora.press(`form[action$="/take-back"] button`)
	nora.examine(source, "case-taken-back")
}

// TestBrowserDesk has an operator settle an effect in a browser without scripts, and axe-core look at the desk.
func TestBrowserDesk(t *testing.T) { // R6
	source := axe(t)
	g := deskGate(t)
	otto := newScriptedTab(t, g)
	otto.signIn("otto", "/")
	page := func(name, path string) {
		t.Helper()
		otto.open(path)
		otto.examine(source, name)
	}
	page("desk-empty", "/desk")
	e, hostile := g.lost("lost"), g.lost("hostile", func(p *servicetest.Proposal) {
		p.Target["record_id"] = strings.Repeat("averylongrecordidwithoutanybreak", 6)
		p.ProposedChange.(map[string]any)["note"] = "\u202Egnp.exe <b>bold</b> " + strings.Repeat("long ", 300)
	})
	page("desk", "/desk")
	page("desk-filtered", "/desk?kind=unknown&sort=amount")
	page("desk-case", deskPath(e))
	page("desk-case-hostile", deskPath(hostile))
	otto.open(deskPath(e))
	otto.do(chromedp.SendKeys("#reason", "Their desk has nothing."))
	otto.press(`button[value="confirm_not_done"]`)
	otto.examine(source, "desk-case-proposed")
	otto.do(chromedp.SendKeys("#reason", "Their desk has it."))
	otto.press(`button[value="confirm_done"]`)
	otto.examine(source, "desk-case-no-id")

	sam := newTab(t, g)
	sam.signIn("sam", deskPath(e))
	sam.do(chromedp.SendKeys("#second-reason", "I have asked as well."))
	sam.press(`button[value="confirm_not_done"]`)
	sam.do(chromedp.WaitVisible(".flash.good"))
	require.Equal(t, "pending", g.effect(e))
	page("desk-case-settled", deskPath(e))
}
