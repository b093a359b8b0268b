package ledger_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// benchBatch is how many items each command gets.
const benchBatch = 256

// perBatch times run alone, over batches of benchBatch; prepare makes what one needs.
func perBatch[T any](b *testing.B, prepare func() T, run func(T)) {
	b.Helper()
	perBatchOf(b, benchBatch, "items/s", prepare, run)
}

// perBatchOf is perBatch for another size and unit.
func perBatchOf[T any](b *testing.B, size int, unit string, prepare func() T, run func(T)) {
	b.Helper()
	run(prepare()) // prepares statements, not to be timed
	n := 0
	for b.Loop() {
		b.StopTimer()
		batch := prepare()
		b.StartTimer()
		run(batch)
		n += size
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), unit)
}

func keys() []string {
	keys := make([]string, benchBatch)
	for i := range keys {
		keys[i] = uuid.NewString()
	}
	return keys
}

func proposals(keys []string) []ledger.Claim { return column(keys, ledgertest.Proposal) }

// BenchmarkCommands times each command over a batch. It measures the throwaway server, which does not sync, unless
// HOLDPOINT_TEST_POSTGRES_URL names a durable one, and an empty ledger, unless HOLDPOINT_BENCH_RUNS says how many finished
// runs it holds: no command may take longer for them.
func BenchmarkCommands(b *testing.B) {
	shared := ledgertest.New(b)
	if n, _ := strconv.Atoi(os.Getenv("HOLDPOINT_BENCH_RUNS")); n > 0 {
		shared.Seed(n)
	}
	for _, c := range []struct {
		name string
		run  func(b *testing.B, bench *ledgertest.Bench)
	}{
		{"ClaimFirsts", benchClaimFirsts}, {"ClaimDuplicates", benchClaimDuplicates}, {"Decide", benchDecide}, {"Lease", benchLease},
		{"Settle", benchSettle}, {"Sweep", benchSweep}, {"LeaseByTime", benchLeaseByTime},
	} {
		b.Run(c.name, func(b *testing.B) { c.run(b, shared.For(b)) })
	}
}

func benchClaimFirsts(b *testing.B, bench *ledgertest.Bench) {
	perBatch(b, func() []ledger.Claim { return proposals(keys()) }, func(claims []ledger.Claim) {
		require.Equal(b, contracts.ResultAccepted, bench.Claim(claims...)[0].Result)
	})
}

func benchClaimDuplicates(b *testing.B, bench *ledgertest.Bench) {
	known := keys()
	bench.Claim(proposals(known)...)
	perBatch(b, func() []ledger.Claim { return proposals(known) }, func(claims []ledger.Claim) {
		require.Equal(b, contracts.ResultDuplicate, bench.Claim(claims...)[0].Result)
	})
}

func benchDecide(b *testing.B, bench *ledgertest.Bench) {
	prepare := func() []ledger.Decision {
		claims := proposals(keys())
		bench.Claim(claims...)
		waiting, err := bench.Policy.Undecided(b.Context(), column(claims, ledgertest.Ref))
		require.NoError(b, err)
		decisions := make([]ledger.Decision, len(waiting))
		for i := range waiting {
			decisions[i] = ledgertest.Decision(&waiting[i], newID(), config.RouteAuto)
		}
		return decisions
	}
	perBatch(b, prepare, func(decisions []ledger.Decision) {
		moved, err := bench.Policy.Decide(b.Context(), decisions, func(*ledger.Decision, error) {})
		require.NoError(b, err)
		require.Equal(b, benchBatch, moved)
	})
}

func benchLease(b *testing.B, bench *ledgertest.Bench) {
	perBatch(b, func() []ledger.EffectKey { return bench.Approved(keys()...) }, func(effects []ledger.EffectKey) {
		require.Len(b, bench.Lease(time.Minute, effects...), benchBatch)
	})
}

func benchSettle(b *testing.B, bench *ledgertest.Bench) {
	prepare := func() []ledger.Settlement {
		return column(bench.Lease(time.Minute, bench.Approved(keys()...)...), func(e ledger.Leased) ledger.Settlement { return succeed(e, "ext-1") })
	}
	perBatch(b, prepare, func(settlements []ledger.Settlement) {
		moved, err := bench.Dispatcher.Settle(b.Context(), "record_outcomes", settlements)
		require.NoError(b, err)
		require.True(b, moved[0])
	})
}

// BenchmarkVote times decisions of people that each end their approval, in batches as large as a service's decisions of one
// moment. HOLDPOINT_TEST_POSTGRES_URL and HOLDPOINT_BENCH_RUNS count as for BenchmarkCommands; HOLDPOINT_BENCH_WAITING is how many
// requests wait besides.
func BenchmarkVote(b *testing.B) {
	shared := ledgertest.New(b)
	if n, _ := strconv.Atoi(os.Getenv("HOLDPOINT_BENCH_WAITING")); n > 0 {
		shared.SeedWaiting(n)
	}
	if n, _ := strconv.Atoi(os.Getenv("HOLDPOINT_BENCH_RUNS")); n > 0 {
		shared.Seed(n)
	}
	for _, size := range []int{1, 16, benchBatch} {
		b.Run("Batch"+strconv.Itoa(size), func(b *testing.B) { benchVote(b, shared.For(b), size) })
	}
}

func benchVote(b *testing.B, bench *ledgertest.Bench, size int) {
	prepare := func() []ledger.Vote {
		return column(bench.Asked(keys()[:size]...), func(a ledgertest.Asked) ledger.Vote { return a.Vote("nora", ledger.Approve) })
	}
	perBatchOf(b, size, "decisions/s", prepare, func(votes []ledger.Vote) {
		for _, v := range bench.Vote(votes...) {
			require.Equal(b, ledger.VoteApproved, v.Result)
		}
	})
}

// benchSweep looks for overdue runs among many that are not.
func benchSweep(b *testing.B, bench *ledgertest.Bench) {
	for range 10 {
		bench.Claim(proposals(keys())...)
	}
	bench.Exec(`update runs set next_check_at = clock_timestamp() + interval '1 hour' where next_check_at is not null`)
	bench.Exec(`delete from pending`)
	for b.Loop() {
		queued, err := bench.Relay.Sweep(b.Context(), 500)
		require.NoError(b, err)
		require.Zero(b, queued)
	}
}

// benchLeaseByTime looks for due effects among many that are not.
func benchLeaseByTime(b *testing.B, bench *ledgertest.Bench) {
	for range 10 {
		bench.Approved(keys()...)
	}
	bench.Exec(`update effects set next_check_at = clock_timestamp() + interval '1 hour' where state = 'pending'`)
	for b.Loop() {
		leased, err := bench.Dispatcher.Lease(b.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
			Free: map[string]int{target: 16}, Due: true})
		require.NoError(b, err)
		require.Empty(b, leased)
	}
}
