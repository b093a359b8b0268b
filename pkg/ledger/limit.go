package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Draw is what one effect takes of a limit (P8). It is stored with the authorization, in the same transaction, and given back when
// the effect fails.
type Draw struct {
	Ordinal int              // of the effect; 0 is 1
	Limit   string           // action type and limit, as in payment.refund/daily
	Scope   canonical.Digest // of the values that the limit is counted per
	Window  time.Duration
	Count   int    // the largest number of effects; 0 bounds none
	Max     string // exact decimal, the largest sum; "" bounds none
	Amount  string // exact decimal, what this effect adds; "" is nothing
}

// LimitCheck has a decision that would let an effect be sent stay within limits.
type LimitCheck struct {
	Draws  []Draw
	Review func(*Exceeded) Decision // what is decided where one would be exceeded
}

// Exceeded is a limit that an effect would exceed.
type Exceeded struct {
	Draw
	UsedCount  int64
	UsedAmount string // exact decimal
}

func (d *decision) draws() bool {
	return d.authorization != nil && d.Limits != nil && len(d.Limits.Draws) > 0
}

// budget is a limit's sums, one for each combination of what it is counted per.
type budget struct {
	tenant, limit string
	scope         canonical.Digest
}

// usage is what was drawn of a budget lately.
type usage struct {
	count  int64
	amount *big.Rat
}

// withinLimits is the batch with those decisions replaced that would exceed a limit, which is counted from committed rows and
// from the decisions before it in the batch. Whoever draws on a budget without a person asked holds its lock until the commit, so
// that no two of them can take the same rest.
func withinLimits(ctx context.Context, tx pgx.Tx, batch []*decision) ([]*decision, error) {
	budgets, windows := budgetsOf(batch)
	if len(budgets) == 0 {
		return batch, nil
	}
	used, err := lockUsage(ctx, tx, budgets, windows)
	if err != nil {
		return nil, err
	}
	out := make([]*decision, len(batch))
	for i, d := range batch {
		out[i] = d
		if !d.draws() {
			continue
		}
		over, err := d.exceeds(used)
		if err != nil {
			return nil, err
		}
		if over == nil {
			continue
		}
		if out[i], err = d.instead(d.Limits.Review(over)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func budgetsOf(batch []*decision) (budgets []budget, windows []time.Duration) {
	seen := map[budget]bool{}
	for _, d := range batch {
		if !d.draws() {
			continue
		}
		for _, draw := range d.Limits.Draws {
			if b := (budget{d.Intent.TenantID, draw.Limit, draw.Scope}); !seen[b] {
				seen[b] = true
				budgets, windows = append(budgets, b), append(windows, draw.Window)
			}
		}
	}
	return budgets, windows
}

func lockUsage(ctx context.Context, tx pgx.Tx, budgets []budget, windows []time.Duration) (map[budget]*usage, error) {
	tenants := column(budgets, func(b budget) string { return b.tenant })
	limits := column(budgets, func(b budget) string { return b.limit })
	scopes := column(budgets, func(b budget) []byte { return b.scope[:] })
	if _, err := tx.Exec(ctx, lockLimitsSQL, tenants, limits, scopes); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, usageSQL, tenants, limits, scopes, column(windows, time.Duration.Seconds))
	if err != nil {
		return nil, err
	}
	used := map[budget]*usage{}
	var ord int
	var count int64
	var amount string
	_, err = pgx.ForEachRow(rows, []any{&ord, &count, &amount}, func() error {
		sum, err := decimal(amount)
		used[budgets[ord-1]] = &usage{count, sum}
		return err
	})
	return used, err
}

// exceeds names the first limit that the effects would exceed, one after the other. Where there is none, what they draw is counted for
// those after them.
func (d *decision) exceeds(used map[budget]*usage) (*Exceeded, error) {
	var counted []func()
	for _, draw := range d.Limits.Draws {
		u := used[budget{d.Intent.TenantID, draw.Limit, draw.Scope}]
		amount, err := decimal(draw.Amount)
		if err != nil {
			return nil, fmt.Errorf("limit %s: %w", draw.Limit, err)
		}
		most, err := decimal(draw.Max)
		if err != nil {
			return nil, fmt.Errorf("limit %s: %w", draw.Limit, err)
		}
		before := usage{u.count, u.amount}
		sum := new(big.Rat).Add(u.amount, amount)
		if draw.Count > 0 && u.count >= int64(draw.Count) || draw.Max != "" && sum.Cmp(most) > 0 {
			over := &Exceeded{Draw: draw, UsedCount: u.count, UsedAmount: plain(u.amount)}
			for _, undo := range slices.Backward(counted) {
				undo()
			}
			return over, nil
		}
		u.count, u.amount = u.count+1, sum
		counted = append(counted, func() { *u = before })
	}
	return nil, nil
}

// decimal reads an exact decimal; "" is zero.
func decimal(text string) (*big.Rat, error) {
	if text == "" {
		return new(big.Rat), nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("%q is no decimal number", text)
	}
	return r, nil
}

// plain writes a sum of decimals exactly.
func plain(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

// drawn are the draws of a batch, as columns of drawSQL.
type drawn struct {
	effects []EffectKey
	draws   []Draw
}

func (d *drawn) add(effect EffectKey, draws []Draw) {
	for _, draw := range draws {
		effect.Ordinal = max(draw.Ordinal, 1)
		d.effects, d.draws = append(d.effects, effect), append(d.draws, draw)
	}
}

func (d *drawn) args() []any {
	return append(keyColumns(d.effects),
		column(d.draws, func(d Draw) string { return d.Limit }),
		column(d.draws, func(d Draw) []byte { return d.Scope[:] }),
		column(d.draws, func(d Draw) float64 { return d.Window.Seconds() }),
		column(d.draws, func(d Draw) string { return cmp.Or(d.Amount, "0") }))
}

// draw stores what the decisions that moved their runs take of their limits.
func draw(ctx context.Context, tx pgx.Tx, batch []*decision, moved []uuid.UUID) error {
	has := setOf(moved)
	var all drawn
	for _, d := range batch {
		if d.draws() && has[d.Intent.RunID] {
			all.add(EffectKey{TenantID: d.Intent.TenantID, RunID: d.Intent.RunID, Revision: d.Intent.Revision}, d.Limits.Draws)
		}
	}
	if len(all.draws) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, drawSQL, all.args()...)
	return err
}

// ReturnDraws closes the draws of up to limit effects that have ended, and gives back what failed ones had taken (P8). Sums older than
// keep, which is longer than every window, are forgotten. It returns how many draws it closed.
func (l *Ledger) ReturnDraws(ctx context.Context, limit int, keep time.Duration) (closed int, err error) {
	err = l.command(ctx, "return_draws", func(ctx context.Context) error {
		runs, err := collect(ctx, l, l.site("return_draws"), nil, pgx.RowTo[uuid.UUID], returnDrawsSQL, limit, keep.Seconds())
		closed = len(runs)
		return err
	})
	return closed, err
}
