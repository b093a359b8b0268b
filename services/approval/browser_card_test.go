//go:build browser

package approval

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestBrowserComparison looks at the card of a change whose target was read, in a browser in which no script runs.
func TestBrowserComparison(t *testing.T) {
	g := contactGate(t)
	asked := g.change("ada-lovelace", map[string]any{"city": "Lisbon", "phone": "+351 210 000 000", "email": "ada@example.test",
		"address": map[string]any{"street": "Rua de São Bento 12, " + strings.Repeat("a long way ", 9), "zip": "1200-816"}, "tags": []string{"vip", "moved"}})
	g.holds(asked, `{"/fields/city":"Porto","/fields/phone":"+351 210 000 000","/fields/email":"old@example.test","/fields/address/zip":"4000-001","/fields/tags":["vip"]}`)
	nora := newTab(t, g)
	nora.signIn("nora", cardPath(asked))
	nora.shot("comparison")
	require.Contains(t, nora.says(), "Porto")
	require.Contains(t, nora.says(), "unchanged")
	nora.decide(ledger.Approve, "Checked with Ada.")
	require.Equal(t, approved, g.state(asked))

	again := g.comesBack(asked, "ada-lovelace", `[{"code":"target_changed","message":"The target is at version 2; the proposal was made from version 1."}]`)
	g.reads(again, ledger.ReadResult{Found: true, Version: "2", Held: []byte(`{"/fields/city":"Faro","/fields/phone":"+351 210 000 000",
"/fields/email":"old@example.test","/fields/address/zip":"4000-001","/fields/tags":["vip"]}`)})
	nora.open(cardPath(again))
	require.Contains(t, nora.says(), "What changed since you looked at")
	require.NotContains(t, nora.says(), "Expected version", "the rest is closed")
	nora.shot("re-review")
	nora.do(chromedp.Click("details.whole > summary"))
	require.Contains(t, nora.says(), "Expected version")
	nora.do(chromedp.Click("main > details.panel > summary"))
	nora.shot("re-review-open")
	nora.open(runPath + "demo/" + servicetest.Effect("ada-lovelace").RunID.String())
	nora.shot("run")
	require.Contains(t, nora.says(), "Sent back to people before anything was sent")
}
