package approval

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

var rowID = regexp.MustCompile(`<tr data-id="([^"]+)"`)

// rows are the approvals that a list of the page has, in its order; list "" is the whole page.
func (s seen) rows(list string) (ids []string) {
	body := s.Body
	if list != "" {
		_, after, found := strings.Cut(body, `<h2 id="list-`+list+`"`)
		if !found {
			return nil
		}
		body, _, _ = strings.Cut(after, "</section>")
	}
	for _, row := range rowID.FindAllStringSubmatch(body, -1) {
		ids = append(ids, row[1])
	}
	return ids
}

// TestWaitingForYou is A18: the list has what its reader can really decide now, and nothing else.
func TestWaitingForYou(t *testing.T) {
	t.Parallel()
	mine := func(g *gate, person string, asked ledgertest.Asked) string {
		page := g.signedIn(person).get("/?q=" + g.Text(`select correlation_id from approvals where approval_id = $1`, asked.ApprovalID))
		for _, list := range []string{"mine", "others", "decided"} {
			if slices.Contains(page.rows(list), asked.ApprovalID.String()) {
				return list
			}
		}
		return ""
	}
	t.Run("NotOnesOwnAndNotWhatOneHasVotedOn", func(t *testing.T) {
		g := newGate(t)
		own := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "nora.lead" })
		two := g.waiting("two", func(c *ledger.Claim) { c.RequestedBy = "who is that" })
		wrong := g.waiting("wrong")
		require.Equal(t, http.StatusOK, g.signedIn("sam").decide(wrong, ledger.Reject, "wrong").Status)
		corrected := g.waiting("corrected", func(c *ledger.Claim) {
			c.Corrects = &ledger.Correction{Key: "wrong", By: "nora@example.test", Reason: "wrong"}
		})
		require.Equal(t, []string{"others", "mine", "others"}, []string{mine(g, "nora", own), mine(g, "nora", two), mine(g, "nora", corrected)})
		require.Equal(t, http.StatusOK, g.signedIn("nora").decide(two, ledger.Approve, "first").Status)
		require.Equal(t, "others", mine(g, "nora", two))
		require.Equal(t, "mine", mine(g, "sam", two))
		require.Equal(t, "mine", mine(g, "sam", own))
	})
	t.Run("OnlyInTheStageThatIsOpen", func(t *testing.T) {
		g, waiting := stagedGate(t)
		asked := waiting("staged")
		require.Equal(t, []string{"mine", "others"}, []string{mine(g, "nora", asked), mine(g, "otto", asked)})
		card, err := g.env.Ledger.Card(t.Context(), asked.ApprovalID)
		require.NoError(t, err)
		for subject, group := range map[string]string{"nora": "support-leads", "otto": "operators"} { // who signed in long ago
			who := &identity{Issuer: g.settings.Issuer, Subject: subject, Claims: map[string]any{"groups": []any{group}}}
			require.Equal(t, subject == "nora", g.tenant(ledgertest.Tenant).waitsFor(who, card))
		}
		require.Equal(t, http.StatusOK, g.signedIn("nora").decide(asked, ledger.Approve, "first stage").Status)
		require.Equal(t, []string{"others", "mine", "others"}, []string{mine(g, "nora", asked), mine(g, "otto", asked), mine(g, "sam", asked)})
	})
	t.Run("NotWhatHasRunOut", func(t *testing.T) {
		g := newGate(t)
		asked := g.waiting("over")
		require.NoError(t, g.stop())
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, asked.ApprovalID)
		card, err := g.env.Ledger.Card(t.Context(), asked.ApprovalID)
		require.NoError(t, err)
		require.Equal(t, ledger.ApprovalPending, card.State)
		nora := g.tenant(ledgertest.Tenant)
		who := &identity{Issuer: g.settings.Issuer, Subject: "nora", Claims: map[string]any{"groups": []any{"support-leads"}}}
		require.False(t, nora.waitsFor(who, card))
		card.Now = card.DecideBy.Add(-1)
		require.True(t, nora.waitsFor(who, card))
	})
}

// TestQueueAtScale is A18: filters, orders and pages, all of them in the address.
func TestQueueAtScale(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(t *config.Tenant) {
			t.Action("stock.reserve").Risk, t.Action("crm.contact.update").Risk = "medium", "low"
		}
	})
	nora := g.signedIn("nora")
	var all []ledgertest.Asked
	for i := range 6 {
		a := g.waiting(fmt.Sprintf("k%d", i))
		g.Exec(`update approvals set decide_by = clock_timestamp() + make_interval(hours => $1::int), action_type = $2,
requested_at = clock_timestamp() - make_interval(hours => $3::int), target_record = 'r-' || $1 where approval_id = $4`, 1+i,
			[]string{"crm.contact.update", "payment.refund", "stock.reserve", "no.more"}[i%4], i%3, a.ApprovalID)
		all = append(all, a)
	}
	at := func(path string) (found []int) {
		for _, id := range nora.get(path).rows("") {
			found = append(found, slices.IndexFunc(all, func(a ledgertest.Asked) bool { return a.ApprovalID.String() == id }))
		}
		return found
	}
	t.Run("OrdersAndFilters", func(t *testing.T) {
		for path, want := range map[string][]int{
			"/": {0, 1, 2, 3, 4, 5}, "/?state=pending&sort=risk": {1, 5, 2, 0, 4, 3}, "/?sort=risk": {1, 5, 2, 0, 4, 3},
			"/?state=pending&sort=oldest": {2, 5, 1, 4, 0, 3}, "/?risk=high": {1, 5}, "/?risk=low&state=mine": {0, 4}, "/?risk=none": nil,
			"/?action=no.more": {3}, "/?action=no.more&sort=risk": {3}, "/?action=stock.reserve&risk=medium": {2}, "/?risk=high&action=stock.reserve": nil,
			"/?q=r-3": {2}, "/?q=r-": {0, 1, 2, 3, 4, 5}, "/?q=k4": {4}, "/?q=ticket-k5": {5}, "/?key=k1": {1}, "/?correlation_id=ticket-k2": {2},
			"/?tenant=demo&q=k0": {0}, "/?tenant=other": nil, "/?state=none": nil, "/?state=decided": nil,
			"/?state=pending&sort=risk&risk=high&action=no.more": nil, "/?state=mine&after=nonsense": {0, 1, 2, 3, 4, 5},
			"/?state=mine&after=0.99999999999999999.x": {0, 1, 2, 3, 4, 5},
		} {
			require.Equal(t, want, at(path), path)
		}
	})
	t.Run("ItSaysWhatIsAsked", func(t *testing.T) {
		page := nora.get("/?q=%22%3E%3Cscript%3E&risk=high&sort=risk&state=mine")
		require.NotContains(t, page.Body, `"><script>`)
		for _, part := range []string{`<option selected>high</option>`, `<option value="risk" selected>`, `<option value="mine" selected>`} {
			require.Contains(t, page.Body, part)
		}
	})
}

var nextPage = regexp.MustCompile(`<a rel="next" href="([^"]+)">Next page</a>`)

// TestPagesOfTheQueue follows the pages of long lists: each line is on one of them, whatever is decided meanwhile.
func TestPagesOfTheQueue(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(t *config.Tenant) { t.Action("payment.refund").Review.Quorum = 2 }
	})
	const all = 930 // nora may decide on each kind, and one of ten has one vote
	g.SeedWaiting(all)
	nora := g.signedIn("nora")
	for _, path := range []string{"/?state=mine", "/?state=pending&sort=risk"} {
		listed := map[string]int{}
		at, pages := path, 0
		for at != "" {
			page := nora.get(at)
			require.Equal(t, http.StatusOK, page.Status)
			rows := page.rows("")
			require.LessOrEqual(t, len(rows), listedOnPage)
			for _, id := range rows {
				listed[id]++
			}
			if pages++; pages == 2 {
				g.Exec(`update approvals set state = 'superseded', decided_at = clock_timestamp() where approval_id = $1`, rows[len(rows)-1])
			}
			next := nextPage.FindStringSubmatch(page.Body)
			if at = ""; next != nil {
				at = strings.ReplaceAll(next[1], "&amp;", "&")
			}
		}
		require.InDelta(t, all, len(listed), 3, path)
		require.GreaterOrEqual(t, pages, 6)
		for id, times := range listed {
			require.Equal(t, 1, times, "%s on %s", id, path)
		}
	}
	overview := nora.get("/")
	require.Len(t, overview.rows("mine"), overviewMine)
	require.Contains(t, overview.Says(), "at least 300")
	require.Contains(t, overview.Body, `<a href="/?state=mine">The whole list</a>`)
}

// TestNews: a page that asks whether it has changed is told, and nothing is kept of its asking.
func TestNews(t *testing.T) {
	t.Parallel()
	g := newGate(t, lowRisk)
	nora, asked := g.signedIn("nora"), g.waiting("k")
	etag := regexp.MustCompile(`data-live="([^"]+)" data-etag="([^"]+)"`)
	watch := func(b *browser, path, etag string) seen {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+path, nil)
		require.NoError(t, err)
		request.Header.Set("If-None-Match", `"`+etag+`"`)
		answer, err := b.Client.Do(request)
		require.NoError(t, err)
		return read(t, answer)
	}
	queue := etag.FindStringSubmatch(nora.get("/").Body)
	card := etag.FindStringSubmatch(nora.get(cardPath(asked)).Body)
	before := g.Text(`select md5(string_agg(s::text, '' order by token)) from sessions s`)
	require.Equal(t, http.StatusNotModified, watch(nora, queue[1], queue[2]).Status)
	require.Equal(t, http.StatusNotModified, watch(nora, card[1], card[2]).Status)
	require.Equal(t, http.StatusUnauthorized, watch(g.as("nobody"), queue[1], queue[2]).Status)
	require.Equal(t, http.StatusNotFound, watch(g.signedIn("carl"), card[1], card[2]).Status)

	other := g.waiting("new")
	var news struct {
		Count int
		Rows  map[string]string
		Text  string
	}
	changed := watch(nora, queue[1], queue[2])
	require.Equal(t, http.StatusOK, changed.Status)
	require.NoError(t, json.Unmarshal([]byte(changed.Body), &news))
	require.Equal(t, 2, news.Count)
	require.Equal(t, "pending.0", news.Rows[other.ApprovalID.String()])
	require.Equal(t, before, g.Text(`select md5(string_agg(s::text, '' order by token)) from sessions s
where token in (select token from sessions order by expiry limit 1)`), "a page that is left open keeps nobody signed in")

	require.Equal(t, ledger.VoteRejected, g.Vote(asked.Vote("sam", ledger.Reject))[0].Result)
	changed = watch(nora, queue[1], queue[2])
	news.Rows = nil
	require.NoError(t, json.Unmarshal([]byte(changed.Body), &news))
	require.Equal(t, map[string]string{other.ApprovalID.String(): "pending.0"}, news.Rows, "what is decided has left what waits")
	changed = watch(nora, card[1], card[2])
	require.NoError(t, json.Unmarshal([]byte(changed.Body), &news))
	require.Equal(t, "This request was decided elsewhere: rejected by sam.", news.Text)
	require.Equal(t, "no-store", changed.Header.Get("Cache-Control"))
	require.NotEqual(t, http.StatusInternalServerError, watch(nora, "/approvals/none/state", "").Status)
}

// TestTheNextRequest: after a decision the page leads to what waits next.
func TestTheNextRequest(t *testing.T) {
	t.Parallel()
	g := newGate(t, lowRisk)
	nora := g.signedIn("nora")
	require.Equal(t, "/", nora.raw(http.MethodGet, "/next").Header.Get("Location"))
	first, second := g.waiting("first"), g.waiting("second")
	g.Exec(`update approvals set decide_by = clock_timestamp() + interval '1 minute' where approval_id = $1`, first.ApprovalID)
	require.Equal(t, cardPath(first), nora.raw(http.MethodGet, "/next").Header.Get("Location"))
	require.Equal(t, cardPath(second), nora.raw(http.MethodGet, "/next?not="+first.ApprovalID.String()).Header.Get("Location"))
	page := nora.decide(first, ledger.Approve, "")
	require.Contains(t, page.Body, `<a rel="next" href="/next?not=`+first.ApprovalID.String()+`">Next request (1 waiting)</a>`)
	require.Contains(t, nora.decide(second, ledger.Approve, "").Says(), "Nothing else waits for you")
	require.Equal(t, http.StatusSeeOther, nora.raw(http.MethodGet, "/next?not="+uuid.NewString()).Status)
	require.Equal(t, http.StatusSeeOther, g.as("nobody").raw(http.MethodGet, "/next").Status)
}
