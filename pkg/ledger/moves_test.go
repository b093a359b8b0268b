package ledger_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestMoves(t *testing.T) {
	t.Parallel()

	t.Run("StatesAreThoseOfTheDatabase", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		for record, constraint := range map[ledger.Record]string{ledger.RunRecord: "runs_state", ledger.ApprovalRecord: "approvals_state",
			ledger.EffectRecord: "effects_state"} {
			definition := b.Text(`select pg_get_constraintdef(oid) from pg_constraint where conname = $1`, constraint)
			var states []string
			for _, quoted := range regexp.MustCompile(`'[a-z_]+'`).FindAllString(definition, -1) {
				states = append(states, strings.Trim(quoted, "'"))
			}
			slices.Sort(states)
			require.Equal(t, reachable(record), states)
		}
	})

	t.Run("NoMoveLeavesAFinalState", func(t *testing.T) { // K9
		t.Parallel()
		for _, m := range ledger.Moves {
			for _, final := range []string{ledger.RunCompleted, ledger.RunFailedTerminal, ledger.EffectCompleted, ledger.EffectFailed, ledger.EffectCancelled} {
				require.False(t, m.Allowed(final), "%s from %s", m.Name, final)
			}
		}
	})

	t.Run("NamesAreUniqueAndEveryMoveIsSomebodys", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, m := range ledger.Moves {
			name := string(m.Record) + "/" + m.Name
			require.False(t, seen[name], name)
			seen[name] = true
			require.NotEmpty(t, m.By, name)
		}
	})

	t.Run("DiagramDrawsEveryMove", func(t *testing.T) {
		t.Parallel()
		for _, m := range ledger.Moves {
			diagram := ledger.Diagram(m.Record)
			for _, from := range m.From {
				require.Contains(t, diagram, "  "+from+" --> "+m.To+": "+m.Name+"\n")
			}
			if len(m.From) == 0 {
				require.Contains(t, diagram, "  [*] --> "+m.To+": "+m.Name+"\n")
			}
		}
	})
}

// reachable is every state that the table knows, of which cancelled belongs to stages that come later.
func reachable(record ledger.Record) []string {
	states := ledger.States(record)
	if record == ledger.EffectRecord && !slices.Contains(states, ledger.EffectCancelled) {
		states = append(states, ledger.EffectCancelled)
	}
	slices.Sort(states)
	return states
}

// TestEffectMoves makes every move from every state against the database: it is made exactly where the table allows it.
func TestEffectMoves(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	type try struct {
		move   ledger.Move
		from   string
		effect ledger.EffectKey
	}
	var tries []try
	var keys []string
	for _, m := range ledger.Moves {
		if m.Record != ledger.EffectRecord || len(m.From) == 0 {
			continue
		}
		for _, from := range reachable(ledger.EffectRecord) {
			tries = append(tries, try{move: m, from: from})
			keys = append(keys, m.Name+"-"+from)
		}
	}
	for i, e := range b.Approved(keys...) {
		tries[i].effect = e
		b.Exec(`update effects set state = $2, open = $2 not in ('completed', 'failed', 'cancelled'),
hold_reason = case when $2 = 'held' then 'recalled' end, lease_owner = case when $2 = 'sending' then gen_random_uuid() end,
lease_expires_at = case when $2 = 'sending' then clock_timestamp() end where run_id = $1`, e.RunID, tries[i].from)
	}

	moves := map[string]func(*testing.T, []try) []bool{}
	for service, by := range map[string]struct {
		ledger  *ledger.Ledger
		command string
	}{
		ledger.Dispatcher: {b.Dispatcher, "record_outcomes"}, ledger.Reconciler: {b.Reconciler, "record_lookups"}, ledger.Operator: {b.Operator, "resolve"},
	} {
		moves[service] = func(t *testing.T, tries []try) []bool {
			settlements := make([]ledger.Settlement, len(tries))
			for i, try := range tries {
				settlements[i] = ledger.Settlement{EffectKey: try.effect, Move: try.move.Name, RunKey: "k", CorrelationID: "c"}
				if try.move.To == ledger.EffectHeld {
					settlements[i].HoldReason = ledger.HoldDisputed
				}
			}
			moved, err := by.ledger.Settle(t.Context(), by.command, settlements)
			require.NoError(t, err)
			return moved
		}
	}
	lease := func(t *testing.T, tries []try) []bool {
		effects := make([]ledger.EffectKey, len(tries))
		for i, try := range tries {
			effects[i] = try.effect
		}
		leased := b.For(t).Lease(time.Minute, effects...)
		moved := make([]bool, len(tries))
		for i, e := range effects {
			moved[i] = slices.ContainsFunc(leased, func(l ledger.Leased) bool { return l.EffectKey == e })
		}
		return moved
	}
	for service, run := range moves {
		t.Run("Of_"+service, func(t *testing.T) {
			t.Parallel()
			for _, m := range ledger.Moves {
				mine := slices.DeleteFunc(slices.Clone(tries), func(try try) bool { return try.move.Name != m.Name })
				switch {
				case len(mine) == 0 || m.By[0] != service:
					continue
				case m.Name == "lease":
					check(t, b, mine[0].move, column(mine, func(try try) string { return try.from }),
						column(mine, func(try try) uuid.UUID { return try.effect.RunID }), lease(t, mine), "effects")
				default:
					check(t, b, mine[0].move, column(mine, func(try try) string { return try.from }),
						column(mine, func(try try) uuid.UUID { return try.effect.RunID }), run(t, mine), "effects")
				}
			}
		})
	}
}

func column[T, V any](items []T, field func(T) V) []V {
	out := make([]V, len(items))
	for i, item := range items {
		out[i] = field(item)
	}
	return out
}

// check compares what moved with the table and with the rows.
func check(t *testing.T, b *ledgertest.Bench, m ledger.Move, from []string, runs []uuid.UUID, moved []bool, table string) {
	t.Helper()
	for i := range from {
		require.Equal(t, m.Allowed(from[i]), moved[i], "%s from %s", m.Name, from[i])
		want := from[i]
		if moved[i] {
			want = m.To
		}
		require.Equal(t, want, b.For(t).Text(`select state from `+table+` where run_id = $1`, runs[i]), "%s from %s", m.Name, from[i])
	}
}

// TestRunMoves does the same for runs, with the command of each move.
func TestRunMoves(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)
	// Each makes a run and is the command that would make the move.
	type arrange func(t *testing.T, b *ledgertest.Bench, key string) (command func())
	claim := func(again func(key string) ledger.Claim) arrange {
		return func(_ *testing.T, b *ledgertest.Bench, key string) func() {
			b.Claim(ledgertest.Event(key))
			return func() { b.Claim(again(key)) }
		}
	}
	owners := func(with func(key string, o *ledger.Owned)) arrange {
		return func(t *testing.T, b *ledgertest.Bench, key string) func() {
			o := owning(b, key)
			with(key, &o)
			return func() { own(t, b, o) }
		}
	}
	decision := func(route string) arrange {
		return func(t *testing.T, b *ledgertest.Bench, key string) func() {
			d := ledgertest.Decision(undecided(t, b, key), newID(), route)
			return func() { decide(t, b.Policy, d) }
		}
	}
	settlement := func(move, hold string, review *ledger.Review) arrange {
		return func(t *testing.T, b *ledgertest.Bench, key string) func() {
			s := succeed(b.Lease(time.Minute, b.Approved(key)...)[0], "")
			s.Move, s.HoldReason, s.Review = move, hold, review
			return func() {
				_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
				require.NoError(t, err)
			}
		}
	}
	ruling := func(with func(t *testing.T, b *ledgertest.Bench, a ledgertest.Asked)) arrange {
		return func(t *testing.T, b *ledgertest.Bench, key string) func() {
			asked := b.Asked(key)[0]
			return func() { with(t, b, asked) }
		}
	}
	vote := func(decision string) arrange {
		return ruling(func(_ *testing.T, b *ledgertest.Bench, a ledgertest.Asked) { b.Vote(a.Vote("nora", decision)) })
	}
	taker := func(attempts int) arrange {
		return func(t *testing.T, b *ledgertest.Bench, key string) func() {
			waiting(t, b, key, key)
			return func() { take(t, b.Intake, key, 1, attempts) }
		}
	}
	commands := map[string]arrange{
		"approve": vote(ledger.Approve),
		"reject":  vote(ledger.Reject),
		"expire": ruling(func(t *testing.T, b *ledgertest.Bench, a ledgertest.Asked) {
			b.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, a.ApprovalID)
			_, err := b.Approval.ExpireApprovals(t.Context(), 1000)
			require.NoError(t, err)
		}),
		"withdraw": ruling(func(t *testing.T, b *ledgertest.Bench, a ledgertest.Asked) {
			_, err := b.Approval.Withdraw(t.Context(), ledger.Withdrawal{TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
				ApprovalID: a.ApprovalID, By: "rita", Reason: "a mistake"})
			require.NoError(t, err)
		}),
		"repair": func(t *testing.T, b *ledgertest.Bench, key string) func() {
			u := undecided(t, b, key)
			return func() { repaired(t, b, u) }
		},
		"send_back": ruling(func(t *testing.T, b *ledgertest.Bench, a ledgertest.Asked) {
			v := a.Vote("nora", ledger.SendBack)
			v.Revisions = rounds
			b.Vote(v)
		}),
		"put_back": func(t *testing.T, b *ledgertest.Bench, key string) func() {
			task, owner := revisedBy(t, b, key)
			return func() {
				o := under(task, owner)
				o.Fail = &ledger.Failure{Retryable: true, Reason: "x"}
				ownOne(t, b, o)
			}
		},
		"lapse": func(t *testing.T, b *ledgertest.Bench, key string) func() {
			repaired(t, b, undecided(t, b, key))
			return func() {
				b.Exec(`update runs set revise_by = clock_timestamp() where run_id = $1 and state = 'processing'`,
					ledger.RunID(ledgertest.Tenant, key))
				_, err := b.Approval.Lapse(t.Context(), 1000)
				require.NoError(t, err)
			}
		},
		"take_back": func(t *testing.T, b *ledgertest.Bench, key string) func() {
			b.Approved(key)
			return func() { takeBack(t, b, key) }
		},
		"resume": func(t *testing.T, b *ledgertest.Bench, key string) func() {
			askedAboutTheRest(t, b, key, false)
			asked := b.Pending(key)
			return func() { b.Vote(asked.Vote("nora", ledger.Reject)) }
		},
		"end_partly": func(t *testing.T, b *ledgertest.Bench, key string) func() {
			askedAboutTheRest(t, b, key, true)
			asked := b.Pending(key)
			return func() { b.Vote(asked.Vote("nora", ledger.Reject)) }
		},
		"claim":          claim(ledgertest.Event),
		"reclaim":        claim(func(key string) ledger.Claim { return ledgertest.Worker(key, time.Minute) }),
		"renew":          owners(func(_ string, o *ledger.Owned) { o.Renew = time.Minute }),
		"submit":         owners(func(key string, o *ledger.Owned) { o.Submit = ledgertest.Intent(key, "c-1") }),
		"fail_retryable": owners(func(_ string, o *ledger.Owned) { o.Fail = &ledger.Failure{Retryable: true, Reason: "x"} }),
		"fail_terminal":  owners(func(_ string, o *ledger.Owned) { o.Fail = &ledger.Failure{Reason: "x"} }),
		"take":           taker(5),
		"exhaust":        taker(0),
		"authorize":      decision(config.RouteAuto),
		"ask_human":      decision(config.RouteHumanReview),
		"deny":           decision(config.RouteReject),
		"complete":       settlement("succeed", "", nil),
		"fail":           settlement("refuse", "", nil),
		"return_to_review": settlement("review", ledger.HoldReview, &ledger.Review{Audience: []string{"reviewer"}, ReasonCodes: []string{"changed"},
			DecideWithin: time.Hour, ExecuteWithin: time.Hour, IntentHash: strings.Repeat("0", 64), Revision: 1}),
	}
	for _, m := range ledger.Moves {
		if m.Record != ledger.RunRecord {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			require.Contains(t, commands, m.Name, "every move has its command here")
			for _, from := range ledger.States(ledger.RunRecord) {
				key := m.Name + "-" + from
				run := ledger.RunID(ledgertest.Tenant, key)
				command := commands[m.Name](t, b, key)
				b.Exec(`update runs set state = $2, outcome = case $2 when 'completed' then 'executed' when 'failed_terminal' then 'denied' end,
ended_at = case when $2 in ('completed', 'failed_terminal') then now() end,
intent_revision = case when $2 = 'failed_retryable' then 0 else intent_revision end,
revise_by = case when $2 = 'processing' then revise_by end,
lease_owner = case when $2 = 'processing' then lease_owner end where run_id = $1`, run, from)
				before := b.Run(key).Version
				command()
				check(t, b, m, []string{from}, []uuid.UUID{run}, []bool{b.Run(key).Version > before}, "runs")
			}
		})
	}
}
