package reconciler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// BenchmarkVerify is what R7 adds to an update that its provider says is done: one read of the target, and one commit more, which ends the
// run. The sandbox provider is in this process, and its CPU is counted with it.
//
//	HOLDPOINT_TEST_POSTGRES_URL=postgres://… go test ./services/reconciler -run '^$' -bench Verify -benchtime 3000x
func BenchmarkVerify(b *testing.B) {
	service.TuneMemory(0) // as every service does
	w := setup(b, servicetest.Verified)
	for n := 0; n < b.N; n += 500 {
		claims := make([]ledger.Claim, min(500, b.N-n))
		for i := range claims {
			claims[i] = w.Contact(fmt.Sprint("k", n+i))
		}
		sentForReal(b, w, w.Authorize(claims...))
	}
	w.Exec("analyze")
	own, postgres := w.CPU(b)
	b.ReportAllocs()
	b.ResetTimer()
	stop := w.Start(w.Reconciler)
	w.Eventually(func() bool { return w.Count(`select count(*) from effects where state = 'accepted'`) == 0 }, "all are read")
	b.StopTimer()
	ownAfter, postgresAfter := w.CPU(b)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
	b.ReportMetric(float64((ownAfter-own).Microseconds())/float64(b.N), "go-µs/effect")
	b.ReportMetric(float64((postgresAfter-postgres).Microseconds())/float64(b.N), "postgres-µs/effect")
	require.Equal(b, b.N, w.Count(`select count(*) from effects where state = 'completed' and postcondition = 'matched'`))
	require.NoError(b, stop())
}

// sentForReal sends effects for real, and has them wait to be read.
func sentForReal(b *testing.B, w *bench, effects []ledger.EffectKey) {
	leased, err := w.World.Dispatcher.Lease(b.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Requested: effects,
		Free: map[string]int{"demo/" + servicetest.CRM: len(effects)}})
	require.NoError(b, err)
	require.Len(b, leased, len(effects))
	moves := make([]ledger.Settlement, len(leased))
	for i, e := range leased {
		result := w.write(e)
		moves[i] = ledger.Settlement{EffectKey: e.EffectKey, Attempt: e.Attempt, Owner: e.Owner, RunKey: e.RunKey, CorrelationID: e.CorrelationID,
			Move: "verify", MaybeSent: true, ExternalID: result.ExternalID, RecordVersion: result.RecordVersion,
			Outcome: &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: string(outcome.Succeeded), Sent: true}}
	}
	moved, err := w.World.Dispatcher.Settle(b.Context(), "record_outcomes", moves)
	require.NoError(b, err)
	require.False(b, slices.Contains(moved, false))
}
