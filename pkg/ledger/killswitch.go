package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
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

// SwitchChange is what somebody does to a switch.
type SwitchChange struct {
	Switch
	// CommandID makes a repeated command one change; a command without one is another each time.
	CommandID uuid.UUID
	Channel   string // web or api; "" is the command line
	Authority []byte // JSON: what the person's right to it rests on; needed but for the command line
	// Seen is the epoch of the switch as it was shown to whoever changes it; 0 changes it whatever has become of it. Where somebody
	// has changed it since, it stays as it is and the error is ErrSwitchChanged.
	Seen int64
}

// ErrSwitchChanged means that somebody has changed the switch since it was shown.
var ErrSwitchChanged = errors.New("the switch has been changed since it was shown")

func (c *SwitchChange) validate() error {
	switch {
	case c.ChangedBy == "" || c.Reason == "":
		return errors.New("a kill switch is changed by somebody and for a reason: give both")
	case c.Ramp < 0 || c.Closed && c.Ramp > 0:
		return errors.New("only opening takes a time, and none below 0: closing is at once")
	}
	return nil
}

// SetSwitch is ChangeSwitch by the command line.
func (l *Ledger) SetSwitch(ctx context.Context, s Switch) (epoch int64, err error) {
	return l.ChangeSwitch(ctx, SwitchChange{Switch: s})
}

// ChangeSwitch closes or opens a switch and raises the epoch. It takes the lock that leasing shares, so when it returns no lease
// that has not seen it can still commit (D15). Who and why are required (D9).
func (l *Ledger) ChangeSwitch(ctx context.Context, c SwitchChange) (epoch int64, err error) {
	if err := c.validate(); err != nil {
		return 0, err
	}
	if c.CommandID == uuid.Nil {
		c.CommandID = uuid.New()
	}
	err = l.command(ctx, "set_kill_switch", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("set_kill_switch"), nil, func(tx pgx.Tx) error {
			if err := lockSending(ctx, tx); err != nil {
				return err
			}
			epoch, err = c.before(ctx, tx)
			if err != nil || epoch > 0 {
				return err
			}
			return tx.QueryRow(ctx, changeSwitchSQL, c.Scope, c.Key, c.Closed, c.ChangedBy, c.Reason, seconds(c.Ramp), c.CommandID,
				cmp.Or(c.Channel, ChannelCommand), jsonOrNull(c.Authority)).Scan(&epoch)
		})
	})
	return epoch, err
}

// before is the epoch of the same command where it was made before, else 0; and an error where the switch is not the one that was
// shown any more. Nobody else changes it meanwhile: the lock is held.
func (c *SwitchChange) before(ctx context.Context, tx pgx.Tx) (made int64, err error) {
	var now int64
	err = tx.QueryRow(ctx, `select coalesce((select epoch from kill_switch_changes where command_id = $3), 0),
  coalesce((select epoch from kill_switches where scope = $1 and scope_key = $2), 0)`, c.Scope, c.Key, c.CommandID).Scan(&made, &now)
	if err == nil && made == 0 && c.Seen != 0 && c.Seen != now {
		return 0, ErrSwitchChanged
	}
	return made, err
}

func jsonOrNull(text []byte) *string {
	if len(text) == 0 {
		return nil
	}
	s := string(text)
	return &s
}

const changeSwitchSQL = `
with raised as (update kill_switch_epoch set epoch = epoch + 1 returning epoch),
clock as materialized (select clock_timestamp() as now),
input as materialized (
  select r.epoch, t.now, case when $6 > 0 then t.now + make_interval(secs => $6) end as open_at from raised r, clock t
), changed as (
  insert into kill_switches (scope, scope_key, closed, changed_by, reason, changed_at, open_at, epoch)
  select $1, $2, $3, $4, $5, now, open_at, epoch from input
  on conflict (scope, scope_key) do update set closed = excluded.closed, changed_by = excluded.changed_by,
    reason = excluded.reason, changed_at = excluded.changed_at, open_at = excluded.open_at, epoch = excluded.epoch
), kept as (
  insert into kill_switch_changes (scope, scope_key, closed, changed_by, reason, epoch, changed_at, open_at, command_id, channel, authority)
  select $1, $2, $3, $4, $5, epoch, now, open_at, $7, $8, $9::jsonb from input
)
select epoch from raised`

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
