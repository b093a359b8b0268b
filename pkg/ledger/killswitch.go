package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Scopes of a kill switch. The key is empty, a tenant, or "tenant/action type" and "tenant/connector".
const (
	ScopeGlobal     = "global"
	ScopeTenant     = "tenant"
	ScopeActionType = "action_type"
	ScopeConnector  = "connector"
)

// Switch is one kill switch.
type Switch struct {
	Scope     string
	Key       string
	Closed    bool
	ChangedBy string
	Reason    string
	ChangedAt time.Time
	// Ramp is how long opening takes: the share of effects that may be sent grows from none to all in it. 0 opens at once.
	Ramp time.Duration
}

// Switches is the state of all kill switches at one moment.
type Switches struct {
	Epoch   int64
	Closed  []Switch
	Opening []Switch // in stages; ChangedAt and Ramp say how far
}

// Stops is the closed switch that covers an effect, or nil.
func (s Switches) Stops(tenant, actionType, connector string) *Switch {
	for i, c := range s.Closed {
		switch {
		case c.Scope == ScopeGlobal,
			c.Scope == ScopeTenant && c.Key == tenant,
			c.Scope == ScopeActionType && c.Key == tenant+"/"+actionType,
			c.Scope == ScopeConnector && c.Key == tenant+"/"+connector:
			return &s.Closed[i]
		}
	}
	return nil
}

// SetSwitch closes or opens a switch and raises the epoch. It takes the lock that leasing shares, so when it returns no lease
// that has not seen it can still commit (D15). Who and why are required (D9).
func (l *Ledger) SetSwitch(ctx context.Context, s Switch) (epoch int64, err error) {
	switch {
	case s.ChangedBy == "" || s.Reason == "":
		return 0, errors.New("a kill switch is changed by somebody and for a reason: give both")
	case s.Ramp < 0 || s.Closed && s.Ramp > 0:
		return 0, errors.New("only opening takes a time, and none below 0: closing is at once")
	}
	err = l.command(ctx, "set_kill_switch", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("set_kill_switch"), nil, func(tx pgx.Tx) error {
			if err := lockSending(ctx, tx); err != nil {
				return err
			}
			row := tx.QueryRow(ctx, `
with raised as (update kill_switch_epoch set epoch = epoch + 1 returning epoch),
changed as (
  insert into kill_switches (scope, scope_key, closed, changed_by, reason, changed_at, open_at)
  select $1, $2, $3, $4, $5, t.now, case when $6 > 0 then t.now + make_interval(secs => $6) end
  from (select clock_timestamp() as now) t
  on conflict (scope, scope_key) do update set closed = excluded.closed, changed_by = excluded.changed_by,
    reason = excluded.reason, changed_at = excluded.changed_at, open_at = excluded.open_at
), kept as (
  insert into kill_switch_changes (scope, scope_key, closed, changed_by, reason, epoch)
  select $1, $2, $3, $4, $5, epoch from raised
)
select epoch from raised`, s.Scope, s.Key, s.Closed, s.ChangedBy, s.Reason, seconds(s.Ramp))
			return row.Scan(&epoch)
		})
	})
	return epoch, err
}

// lockSending takes alone, until the transaction ends, what leasing and asking leave share.
func lockSending(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", killSwitchLock)
	return err
}

// Switches reads the kill switches as they are now.
func (l *Ledger) Switches(ctx context.Context) (Switches, error) {
	rows, err := l.pool.Query(ctx, `select p.epoch, s.scope, s.scope_key, s.changed_by, s.reason, s.changed_at,
  extract(epoch from s.open_at - s.changed_at)::float8
from kill_switch_epoch p left join kill_switches s on s.closed or s.open_at > clock_timestamp() order by s.scope, s.scope_key`)
	if err != nil {
		return Switches{}, fmt.Errorf("read the kill switches: %w", err)
	}
	var state Switches
	var scope, key, by, reason *string
	var at *time.Time
	var ramp *float64
	_, err = pgx.ForEachRow(rows, []any{&state.Epoch, &scope, &key, &by, &reason, &at, &ramp}, func() error {
		switch {
		case scope == nil: // no row but the epoch
		case ramp != nil:
			state.Opening = append(state.Opening, Switch{*scope, *key, false, *by, *reason, *at,
				time.Duration(*ramp * float64(time.Second))})
		default:
			state.Closed = append(state.Closed, Switch{*scope, *key, true, *by, *reason, *at, 0})
		}
		return nil
	})
	if err == nil && state.Epoch == 0 {
		err = errors.New("no epoch: the database is not migrated")
	}
	if err != nil {
		return Switches{}, fmt.Errorf("read the kill switches: %w", err)
	}
	return state, nil
}

// SentSince counts the attempts of effects that a switch covers which began after a time and were sent, or are not reported yet. After
// a switch was closed there are none (D9, D15).
func (l *Ledger) SentSince(ctx context.Context, s Switch, since time.Time) (n int, err error) {
	err = l.pool.QueryRow(ctx, `
select count(*) from effect_attempts t join effects e using (tenant_id, run_id, revision, ordinal)
where t.started_at > $3 and (t.class is null or t.sent) and `+coveredSQL, s.Scope, s.Key, since).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count what was sent in spite of the switch: %w", err)
	}
	return n, nil
}

// coveredSQL is true of an effect that the switch with the scope $1 and the key $2 covers.
const coveredSQL = `($1 = 'global' or $1 = 'tenant' and tenant_id = $2
  or $1 = 'action_type' and tenant_id || '/' || action_type = $2 or $1 = 'connector' and tenant_id || '/' || connector = $2)`

// Drain counts what a switch covers: what it stopped, what is being sent now, and what is unknown (D15).
type Drain struct {
	Stopped, InFlight, Unknown int
}

// Drain counts the open effects that a switch covers.
func (l *Ledger) Drain(ctx context.Context, s Switch) (d Drain, err error) {
	err = l.pool.QueryRow(ctx, `
select count(*) filter (where state = 'pending'), count(*) filter (where state = 'sending'), count(*) filter (where state = 'unknown')
from effects where open and `+coveredSQL, s.Scope, s.Key).Scan(&d.Stopped, &d.InFlight, &d.Unknown)
	if err != nil {
		return d, fmt.Errorf("count what the switch covers: %w", err)
	}
	return d, nil
}
