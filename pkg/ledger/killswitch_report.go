package ledger

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// SwitchState is a switch as people are shown it, by the database's clock.
type SwitchState struct {
	Switch
	Epoch int64 // that its last change raised
	Now   time.Time
}

// Names of a switch's states.
const (
	SwitchOpen    = "open"
	SwitchClosed  = "closed"
	SwitchOpening = "opening" // in stages
)

// State is SwitchOpen, SwitchClosed or SwitchOpening.
func (s *SwitchState) State() string {
	switch {
	case s.Closed:
		return SwitchClosed
	case s.Now.Before(s.OpenAt()):
		return SwitchOpening
	}
	return SwitchOpen
}

// OpenAt is when all may go again after an opening.
func (s *SwitchState) OpenAt() time.Time { return s.ChangedAt.Add(s.Ramp) }

// Share is how many of the effects that it covers it lets go: 0 closed, 1 open, between while it opens.
func (s *SwitchState) Share() float64 {
	switch s.State() {
	case SwitchClosed:
		return 0
	case SwitchOpen:
		return 1
	}
	return s.Now.Sub(s.ChangedAt).Seconds() / s.Ramp.Seconds()
}

const switchStatesSQL = `
select s.scope, s.scope_key, s.closed, s.changed_by, s.reason, s.changed_at,
  coalesce(extract(epoch from s.open_at - s.changed_at), 0)::float8, s.epoch, clock_timestamp()
from kill_switches s where s.scope = 'global' or split_part(s.scope_key, '/', 1) = any($1) order by s.scope, s.scope_key`

// SwitchStates lists the switches of tenants that were ever changed, and the global one if it was. What is not listed is open.
func (l *Ledger) SwitchStates(ctx context.Context, tenants []string) ([]SwitchState, error) {
	rows, err := l.pool.Query(ctx, switchStatesSQL, tenants)
	if err != nil {
		return nil, unread("list the kill switches", err)
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s SwitchState, err error) {
		var ramp float64
		err = row.Scan(&s.Scope, &s.Key, &s.Closed, &s.ChangedBy, &s.Reason, &s.ChangedAt, &ramp, &s.Epoch, &s.Now)
		s.Ramp = time.Duration(ramp * float64(time.Second))
		return s, err
	})
	return states, unreadOf("list the kill switches", err)
}

// SwitchEntry is one change of a switch.
type SwitchEntry struct {
	Epoch     int64
	Closed    bool
	ChangedBy string
	Reason    string
	Channel   string
	ChangedAt time.Time
	OpenAt    *time.Time // of an opening in stages
}

// SwitchHistory lists the last changes of a switch, the latest first.
func (l *Ledger) SwitchHistory(ctx context.Context, s Switch, limit int) ([]SwitchEntry, error) {
	rows, err := l.pool.Query(ctx, `select epoch, closed, changed_by, reason, channel, changed_at, open_at
from kill_switch_changes where scope = $1 and scope_key = $2 order by change_id desc limit $3`, s.Scope, s.Key, limit)
	if err != nil {
		return nil, unread("read what was done to the switch", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SwitchEntry])
	return entries, unreadOf("read what was done to the switch", err)
}

// Drain counts what a switch covers: what it stopped, what is being sent now, and what is unknown (D15).
type Drain struct {
	Stopped  int `json:"stopped"`
	InFlight int `json:"in_flight"`
	Unknown  int `json:"unknown"`
}

// DrainReport is what a switch covers, by the database's clock. Counts end at DrainBound for each connector and state.
type DrainReport struct {
	Drain
	Windowed int         `json:"windowed"`                 // of those stopped, the ones that people can still take back
	Retrying int         `json:"retrying"`                 // of those stopped, the ones that were tried before
	Accepted int         `json:"accepted"`                 // the provider has taken them and works on them by itself
	Until    time.Time   `json:"in_flight_until,omitzero"` // when the last call has ended at the latest; zero where none is in flight
	Calls    []DrainCall `json:"calls"`                    // in flight, and what is unknown: the first of each, those in flight before
	Cut      bool        `json:"at_least"`                 // there are more than are counted
	Now      time.Time   `json:"now"`
}

// DrainCall is one effect that may be, or have been, written.
type DrainCall struct {
	OperationID string    `json:"operation_id"`
	TenantID    string    `json:"tenant_id"`
	ActionType  string    `json:"action_type"`
	Connector   string    `json:"connector"`
	State       string    `json:"state"`
	At          time.Time `json:"at"` // of one in flight: when its lease ends; else since when it is unknown
}

const (
	// DrainBound is how many effects of one connector and state are counted.
	DrainBound = 10_000
	// drainCalls is how many calls in flight, and how many unknown effects, are named.
	drainCalls = 20
)

// drainSQL goes along effects_due, connector by connector and state by state, so that what has ended costs nothing and a backlog no
// more than its bound.
const drainSQL = `
with recursive connectors as (
  (select connector from effects where open order by connector limit 1)
  union all
  select (select e.connector from effects e where e.open and e.connector > c.connector order by e.connector limit 1)
  from connectors c where c.connector is not null
), clock as materialized (select clock_timestamp() as now),
covered as materialized (
  select e.*, count(*) over (partition by e.connector, e.state) as many from connectors c
  cross join unnest(array['pending', 'sending', 'unknown', 'accepted']) as s(state)
  cross join lateral (
    select e.operation_id, e.tenant_id, e.action_type, e.connector, e.state, e.attempts, e.not_before, e.lease_expires_at, e.unknown_since
    from effects e
    where e.open and e.connector = c.connector and e.state = s.state and ($1 = 'global' or e.tenant_id = $2)
      and ($1 <> 'action_type' or e.action_type = $3)
    order by e.next_check_at limit $4
  ) e
  where c.connector is not null and ($1 <> 'connector' or c.connector = $3)
)
select count(*) filter (where v.state = 'pending'), count(*) filter (where v.state = 'sending'),
  count(*) filter (where v.state = 'unknown'), count(*) filter (where v.state = 'pending' and v.not_before > k.now),
  count(*) filter (where v.state = 'pending' and v.attempts > 0), count(*) filter (where v.state = 'accepted'),
  max(v.lease_expires_at) filter (where v.state = 'sending'), coalesce(bool_or(v.many = $4), false), k.now,
  (select coalesce(jsonb_agg(jsonb_build_object('operation_id', n.operation_id, 'tenant_id', n.tenant_id, 'action_type', n.action_type,
      'connector', n.connector, 'state', n.state, 'at', n.at) order by n.state, n.at, n.operation_id), '[]')
    from (select u.*, coalesce(u.lease_expires_at, u.unknown_since) as at, row_number() over (partition by u.state
        order by coalesce(u.lease_expires_at, u.unknown_since), u.operation_id) as place
      from covered u where u.state in ('sending', 'unknown')) n where n.place <= $5)
from clock k left join covered v on true group by k.now`

// DrainReport tells what a switch covers, whether it is closed or not: what waits because of it or would, what is in flight until when,
// and what is unknown (D15).
func (l *Ledger) DrainReport(ctx context.Context, s Switch) (r DrainReport, err error) {
	tenant, name, _ := strings.Cut(s.Key, "/")
	var until *time.Time
	var calls []byte
	err = l.pool.QueryRow(ctx, drainSQL, s.Scope, tenant, name, DrainBound, drainCalls).Scan(&r.Stopped, &r.InFlight, &r.Unknown,
		&r.Windowed, &r.Retrying, &r.Accepted, &until, &r.Cut, &r.Now, &calls)
	if err == nil {
		r.Until = orZero(until)
		err = json.Unmarshal(calls, &r.Calls)
	}
	return r, unreadOf("count what the switch covers", err)
}

// Drain counts the open effects that a switch covers.
func (l *Ledger) Drain(ctx context.Context, s Switch) (Drain, error) {
	r, err := l.DrainReport(ctx, s)
	return r.Drain, err
}
