package approval

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestLinks is A3, APR-01 and APR-02.
func TestLinks(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	const toNora = "support-mail nora@example.test"

	t.Run("AStrangerLearnsNothingAndChangesNothing", func(t *testing.T) {
		asked := g.waiting("scanned")
		spent := g.link(asked, toNora)
		live := g.link(asked, toNora)
		unknown := linkPath + newToken()
		audits := g.Count(`select count(*) from audit_events`)
		sessions := g.Count(`select count(*) from sessions`)
		var bodies []string
		for _, path := range []string{live, spent, unknown} {
			for _, method := range []string{http.MethodHead, http.MethodGet, http.MethodGet, http.MethodGet} {
				page := g.as("nora").raw(method, path)
				require.Equal(t, http.StatusOK, page.Status)
				require.Contains(t, page.Header.Get("X-Robots-Tag"), "noindex")
				require.Empty(t, page.Header.Values("Set-Cookie"))
				if method == http.MethodGet {
					bodies = append(bodies, strings.ReplaceAll(page.Body, strings.TrimPrefix(path, linkPath), ""))
				}
			}
		}
		for _, body := range bodies {
			require.Equal(t, bodies[0], body, "no token differs from another")
			for _, secret := range []string{"250", "EUR", "refund", "rita", "p-scanned", "ticket", "Demo"} {
				require.NotContains(t, body, secret)
			}
		}
		require.Equal(t, untouched, g.state(asked))
		require.Equal(t, audits, g.Count(`select count(*) from audit_events`))
		require.Equal(t, sessions, g.Count(`select count(*) from sessions`))
		require.Equal(t, 1, g.Count(`select count(*) from approval_tokens where approval_id = $1 and spent_at is null`,
			asked.ApprovalID))
	})
	t.Run("NoFormOnItsPageDecides", func(t *testing.T) {
		asked := g.waiting("submitted")
		page := g.as("nora").raw(http.MethodGet, g.link(asked, toNora))
		require.NotContains(t, page.Body, "<form")
		require.NotContains(t, page.Body, "<script")
		require.Equal(t, http.StatusMethodNotAllowed, g.as("nora").raw(http.MethodPost, g.link(asked, toNora)).Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("ItLeadsThroughTheSignInToTheDecisionThatSpendsIt", func(t *testing.T) {
		asked := g.waiting("followed")
		nora := g.as("nora")
		link := g.link(asked, toNora)
		require.Contains(t, nora.get(link).Body, `href="`+signInPath(link, false)+`"`)
		page := nora.get(signInPath(link, false))
		require.Equal(t, cardPath(asked), page.Path)
		require.NotContains(t, page.Body, strings.TrimPrefix(link, linkPath))
		require.Equal(t, http.StatusOK, nora.get(link).Status, "opening it again is allowed")
		require.Contains(t, nora.decide(asked, ledger.Approve, "yes").Says(), "Approved.")
		require.Equal(t, approved, g.state(asked))
		require.Equal(t, 0, g.Count(`select count(*) from approval_tokens where approval_id = $1 and spent_at is null`,
			asked.ApprovalID))
		over := nora.get(link)
		require.Equal(t, http.StatusNotFound, over.Status)
		require.Contains(t, over.Says(), "not valid (any more)")
	})
	t.Run("TheTokenIsNeverInTheDatabase", func(t *testing.T) {
		asked := g.waiting("raw")
		link := g.link(asked, toNora)
		require.Equal(t, cardPath(asked), g.as("nora").get(signInPath(link, false)).Path)
		token := strings.TrimPrefix(link, linkPath)
		require.Equal(t, 0, g.Count(`select count(*) from sessions where position(convert_to($1, 'UTF8') in data) > 0`,
			token))
		require.NotContains(t, g.Logs.String(), token)
	})
	t.Run("AnothersLinkDoesNotDecideAndDoesNotStandInTheWay", func(t *testing.T) {
		asked := g.waiting("forwarded")
		sam := g.signedIn("sam")
		require.Equal(t, cardPath(asked), sam.get(g.link(asked, toNora)).Path)
		page := sam.decide(asked, ledger.Approve, "yes")
		require.Equal(t, http.StatusForbidden, page.Status)
		require.Contains(t, page.Says(), "sent to somebody else")
		require.Equal(t, untouched, g.state(asked))
		require.Contains(t, sam.decide(asked, ledger.Approve, "from my queue").Says(), "Approved.")
	})
	t.Run("AReplacedLinkIsToldSoOnce", func(t *testing.T) {
		asked := g.waiting("replaced")
		nora := g.signedIn("nora")
		nora.get(g.link(asked, toNora))
		g.link(asked, toNora)
		page := nora.decide(asked, ledger.Approve, "yes")
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "a newer one has replaced it")
		require.Contains(t, nora.decide(asked, ledger.Approve, "yes").Says(), "Approved.")
	})
	t.Run("ToWhomTheRequestIsNotVisibleNoTokenIsValid", func(t *testing.T) {
		asked := g.waiting("hidden")
		carl := g.signedIn("carl")
		valid, unknown := carl.get(g.link(asked, toNora)), carl.get(linkPath+newToken())
		require.Equal(t, http.StatusNotFound, valid.Status)
		require.Equal(t, unknown.Body, valid.Body)
	})
}
