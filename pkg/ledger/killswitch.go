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
}

// Switches is the state of all kill switches at one moment.
type Switches struct {
	Epoch  int64
	Closed []Switch
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
	if s.ChangedBy == "" || s.Reason == "" {
		return 0, errors.New("a kill switch is changed by somebody and for a reason: give both")
	}
	err = l.command(ctx, "set_kill_switch", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("set_kill_switch"), nil, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", killSwitchLock); err != nil {
				return err
			}
			row := tx.QueryRow(ctx, `
with raised as (update kill_switch_epoch set epoch = epoch + 1 returning epoch),
changed as (
  insert into kill_switches (scope, scope_key, closed, changed_by, reason) values ($1, $2, $3, $4, $5)
  on conflict (scope, scope_key) do update set closed = excluded.closed, changed_by = excluded.changed_by,
    reason = excluded.reason, changed_at = clock_timestamp()
), kept as (
  insert into kill_switch_changes (scope, scope_key, closed, changed_by, reason, epoch)
  select $1, $2, $3, $4, $5, epoch from raised
)
select epoch from raised`, s.Scope, s.Key, s.Closed, s.ChangedBy, s.Reason)
			return row.Scan(&epoch)
		})
	})
	return epoch, err
}

// Switches reads the kill switches as they are now.
func (l *Ledger) Switches(ctx context.Context) (Switches, error) {
	rows, err := l.pool.Query(ctx, `select p.epoch, s.scope, s.scope_key, s.changed_by, s.reason, s.changed_at
from kill_switch_epoch p left join kill_switches s on s.closed order by s.scope, s.scope_key`)
	if err != nil {
		return Switches{}, fmt.Errorf("read the kill switches: %w", err)
	}
	var state Switches
	var scope, key, by, reason *string
	var at *time.Time
	_, err = pgx.ForEachRow(rows, []any{&state.Epoch, &scope, &key, &by, &reason, &at}, func() error {
		if scope != nil {
			state.Closed = append(state.Closed, Switch{*scope, *key, true, *by, *reason, *at})
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

// Drain counts what a switch covers: what it stopped, what is being sent now, and what is unknown (D15).
type Drain struct {
	Stopped, InFlight, Unknown int
}

// Drain counts the open effects that a switch covers.
func (l *Ledger) Drain(ctx context.Context, s Switch) (d Drain, err error) {
	err = l.pool.QueryRow(ctx, `
select count(*) filter (where state = 'pending'), count(*) filter (where state = 'sending'), count(*) filter (where state = 'unknown')
from effects where open and ($1 = 'global' or $1 = 'tenant' and tenant_id = $2
  or $1 = 'action_type' and tenant_id || '/' || action_type = $2 or $1 = 'connector' and tenant_id || '/' || connector = $2)`,
		s.Scope, s.Key).Scan(&d.Stopped, &d.InFlight, &d.Unknown)
	if err != nil {
		return d, fmt.Errorf("count what the switch covers: %w", err)
	}
	return d, nil
}
