package ledger_test

import (
	"cmp"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// BenchmarkDesk lists and adds up many effects that need a person: 100,000, unless HOLDPOINT_BENCH_WAITING says otherwise.
func BenchmarkDesk(b *testing.B) {
	bench := ledgertest.New(b)
	waiting, _ := strconv.Atoi(os.Getenv("HOLDPOINT_BENCH_WAITING"))
	bench.Seed(cmp.Or(waiting, 100_000))
	bench.Exec(`update effects e set open = true, next_check_at = now(), state = n.state, hold_reason = n.reason,
  risk_amount = random() * 1000, risk_currency = 'EUR', unknown_since = case when n.state = 'unknown'
    then now() - make_interval(secs => 61 + random() * 86400) end
from (values (0, 'unknown', null), (1, 'held', 'incident')) as n(side, state, reason) where get_byte(uuid_send(e.run_id), 0) % 2 = n.side`)
	bench.Exec(`analyze effects`)
	scopes := []ledger.DeskScope{{TenantID: ledgertest.Tenant}}
	for name, f := range map[string]ledger.DeskFilter{
		"Oldest": {}, "ByAmount": {ByAmount: true}, "OfOneKind": {Kind: ledger.HoldIncident}, "OfNoConnector": {Connector: "none"},
	} {
		f.Scopes, f.Limit = scopes, 50
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := bench.Approval.Desk(b.Context(), f)
				require.NoError(b, err)
			}
		})
	}
	b.Run("Sums", func(b *testing.B) {
		for b.Loop() {
			_, err := bench.Approval.DeskSums(b.Context(), ledger.DeskFilter{Scopes: scopes})
			require.NoError(b, err)
		}
	})
}
