package ledger_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// race claims from several ledgers at the same moment and counts the answers by result.
func race(t *testing.T, b *ledgertest.Bench, replicas, callers int, claim func(int) ledger.Claim) (map[string]int, []ledger.Claimed) {
	t.Helper()
	ledgers := make([]*ledger.Ledger, replicas)
	for i := range ledgers {
		ledgers[i] = b.Replica(ledger.Intake)
	}
	start := make(chan struct{})
	answers := make([]ledger.Claimed, callers)
	var group errgroup.Group
	for i := range callers {
		group.Go(func() error {
			<-start
			got, err := ledgers[i%replicas].Claim(t.Context(), []ledger.Claim{claim(i)})
			if err == nil {
				answers[i], err = got[0], got[0].Err
			}
			return err
		})
	}
	close(start)
	require.NoError(t, group.Wait())
	counts := map[string]int{}
	for _, a := range answers {
		counts[a.Result]++
	}
	return counts, answers
}

func TestClaimRace(t *testing.T) { // K2, K3
	t.Parallel()

	t.Run("ThousandDeliveriesOfOneKeyHaveOneWinner", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		counts, answers := race(t, b, 4, 1000, func(int) ledger.Claim { return ledgertest.Proposal("k1") })
		require.Equal(t, map[string]int{contracts.ResultAccepted: 1, contracts.ResultDuplicate: 999}, counts)
		for _, a := range answers {
			require.Equal(t, ledger.RunID(ledgertest.Tenant, "k1"), a.Run.RunID)
			require.Equal(t, ledger.RunProcessing, a.Run.State)
		}
		for _, table := range []string{"runs", "run_payloads", "intents", "event_log", "pending", "audit_events"} {
			require.Equal(t, 1, b.Count(`select count(*) from `+table), table)
		}
	})

	t.Run("HundredWorkersOfOneKeyGetOneLease", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		counts, answers := race(t, b, 4, 100, func(int) ledger.Claim { return ledgertest.Worker("k1", time.Minute) })
		require.Equal(t, map[string]int{contracts.ResultAccepted: 1, contracts.ResultDuplicate: 99}, counts)
		owner := b.Run("k1").LeaseOwner
		winner := slices.IndexFunc(answers, func(a ledger.Claimed) bool { return a.Result == contracts.ResultAccepted })
		require.Equal(t, owner, answers[winner].Run.LeaseOwner)
		require.Equal(t, 0, b.Run("k1").Takeovers)
	})

	t.Run("HundredPayloadsOfOneKeyHaveOneOwner", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		counts, _ := race(t, b, 4, 100, func(i int) ledger.Claim {
			return ledgertest.Other(ledgertest.Proposal("k1"), `{"n":`+strconv.Itoa(i)+`}`)
		})
		require.Equal(t, map[string]int{contracts.ResultAccepted: 1, contracts.ResultPayloadMismatch: 99}, counts)
		require.Equal(t, 99, b.Count(`select count(*) from run_conflicts`))
		require.Equal(t, 100, b.Count(`select count(*) from event_log`))
	})
}

// deadlocks counts those that Postgres resolved in this database. Sessions report when they end, so all others must have.
func deadlocks(t *testing.T, b *ledgertest.Bench) int {
	t.Helper()
	require.Eventually(t, func() bool {
		return b.Count(`select count(*) from pg_stat_activity where datname = current_database() and application_name = 'racer'`) == 0
	}, 30*time.Second, 5*time.Millisecond)
	return b.Count(`select deadlocks from pg_stat_database where datname = current_database()`)
}

func TestBatchesNeverDeadlock(t *testing.T) { // STO-02
	t.Parallel()
	b := ledgertest.New(t)
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	const rounds = 15
	var group errgroup.Group
	var mu sync.Mutex
	accepted := 0
	for racer := range 4 {
		pool := racerPool(t, b)
		l, err := ledger.New(ledger.Config{Pool: pool, Service: ledger.Intake})
		require.NoError(t, err)
		group.Go(func() error {
			defer pool.Close()
			random := rand.New(rand.NewPCG(uint64(racer), 7))
			for round := range rounds {
				order := slices.Clone(keys)
				switch racer {
				case 0:
				case 1:
					slices.Reverse(order)
				default:
					random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
				}
				batch := make([]ledger.Claim, len(order))
				for i, key := range order {
					batch[i] = ledgertest.Proposal(strconv.Itoa(round) + "-" + key)
				}
				answers, err := l.Claim(t.Context(), batch)
				if err != nil {
					return err
				}
				mu.Lock()
				for _, a := range answers {
					if a.Result == contracts.ResultAccepted {
						accepted++
					}
				}
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, rounds*len(keys), accepted)
	require.Zero(t, deadlocks(t, b))
}

func TestLoserOfAnOpenClaim(t *testing.T) { // STO-03
	t.Parallel()
	// claimed inserts the row of a claim in a transaction that stays open.
	claimed := func(t *testing.T, b *ledgertest.Bench, c ledger.Claim) pgx.Tx {
		t.Helper()
		tx, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // It may have ended.
		_, err = tx.Exec(t.Context(), `insert into runs (tenant_id, run_id, idempotency_key, source, rules_version, payload_hash,
hash_version, state, command_id, correlation_id) values ($1, $2, $3, $4, 1, $5, 1, 'processing', $6, 'the winner')`,
			c.TenantID, ledger.RunID(c.TenantID, c.Key), c.Key, c.Source, c.PayloadHash[:], c.CommandID)
		require.NoError(t, err)
		return tx
	}
	for name, c := range map[string]struct {
		loser  func(winner ledger.Claim) ledger.Claim
		end    func(context.Context, pgx.Tx) error
		result string
	}{
		"WaitsAndIsADuplicateOfTheWinner": {func(ledger.Claim) ledger.Claim { return ledgertest.Event("k1") },
			func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, contracts.ResultDuplicate},
		"WaitsAndConflictsWithTheWinner": {func(w ledger.Claim) ledger.Claim { return ledgertest.Other(w, `{"other":1}`) },
			func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, contracts.ResultPayloadMismatch},
		"WaitsAndClaimsWhenTheOtherGivesUp": {func(ledger.Claim) ledger.Claim { return ledgertest.Event("k1") },
			func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, contracts.ResultAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := ledgertest.New(t)
			winner := ledgertest.Event("k1")
			tx := claimed(t, b, winner)
			done := make(chan []ledger.Claimed, 1)
			go func() {
				answers, err := b.Intake.Claim(t.Context(), []ledger.Claim{c.loser(winner)})
				if err != nil {
					answers = []ledger.Claimed{{Err: err}}
				}
				done <- answers
			}()
			b.AwaitBlocked(1)
			require.Empty(t, done, "nothing is answered while the winner is open")
			require.NoError(t, c.end(t.Context(), tx))
			answer := (<-done)[0]
			require.NoError(t, answer.Err)
			require.Equal(t, c.result, answer.Result)
			if c.result != contracts.ResultAccepted {
				require.Equal(t, "the winner", answer.Run.CorrelationID)
				require.Equal(t, winner.PayloadHash, answer.Run.PayloadHash)
			}
		})
	}
}
