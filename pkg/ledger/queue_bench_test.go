package ledger_test

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// BenchmarkQueue lists among many requests that wait: 100,000, unless HOLDPOINT_BENCH_WAITING says otherwise. No filter may take
// longer for them.
func BenchmarkQueue(b *testing.B) {
	bench := ledgertest.New(b)
	waiting, _ := strconv.Atoi(os.Getenv("HOLDPOINT_BENCH_WAITING"))
	bench.SeedWaiting(cmp.Or(waiting, 100_000))
	refunds := []string{"payment.refund"}
	far := &ledger.ApprovalMark{At: time.Now().Add(5 * time.Hour), ApprovalID: uuid.New()}
	for name, f := range map[string]ledger.ApprovalFilter{
		"ByTime":         {State: ledger.ApprovalPending, Audience: []string{"support-lead"}},
		"ByAge":          {State: ledger.ApprovalPending, Oldest: true},
		"OfOneType":      {State: ledger.ApprovalPending, Actions: refunds},
		"APageLater":     {State: ledger.ApprovalPending, After: far},
		"NobodysRole":    {State: ledger.ApprovalPending, Audience: []string{"nobody"}},
		"ByKey":          {Search: "waiting-77777"},
		"ByRecord":       {Search: "r-7777"},
		"ByAFewLetters":  {Search: "t", State: ledger.ApprovalPending, Actions: refunds},
		"Decided":        {Decided: true, Audience: []string{"support-lead"}},
		"OfAllTenantsBy": {TenantID: "", State: ledger.ApprovalPending},
	} {
		b.Run(name, func(b *testing.B) {
			if f.TenantID = ledgertest.Tenant; name == "OfAllTenantsBy" {
				f.TenantID = ""
			}
			f.Limit = 300
			for b.Loop() {
				_, err := bench.Approval.Queue(b.Context(), f)
				require.NoError(b, err)
			}
		})
	}
}
