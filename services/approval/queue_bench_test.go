package approval

import (
	"cmp"
	"net/http"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// BenchmarkQueuePage times the queue's pages and its live state, from the request to the last byte of the answer, while 100,000
// requests wait, unless HOLDPOINT_BENCH_WAITING says otherwise: A18 asks for less than 100 ms.
func BenchmarkQueuePage(b *testing.B) {
	g := newGate(b, func(c *gateConfig) {
		c.tenant = func(t *config.Tenant) { t.Action("payment.refund").Review.Quorum = 2 }
	})
	waiting, _ := strconv.Atoi(os.Getenv("HOLDPOINT_BENCH_WAITING"))
	g.SeedWaiting(cmp.Or(waiting, 100_000))
	require.NoError(b, g.idp.SetGroups("nora", "support-leads", "sales-ops"))
	nora := g.signedIn("nora")
	for name, path := range map[string]string{
		"Overview": "/", "MineByTime": "/?state=mine", "AllByRisk": "/?state=pending&sort=risk", "AllByAge": "/?state=pending&sort=oldest",
		"OneAction": "/?state=mine&action=payment.refund", "Search": "/?q=r-7777", "Live": "/queue/state", "Next": "/next",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.Contains(b, []int{http.StatusOK, http.StatusSeeOther}, nora.raw(http.MethodGet, path).Status)
			}
		})
	}
}
