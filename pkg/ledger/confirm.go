package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Fence is what a lease holder shows right before the first byte.
type Fence struct {
	EffectKey
	Attempt int
	Owner   uuid.UUID
}

// Leave says whether a first byte may leave now.
type Leave struct {
	Granted bool
	Reason  string // where it is not granted, for people
	// AskedAt is when leave was asked for. The first byte leaves within a second of it or not at all (D15).
	AskedAt time.Time
}

var confirmSQL = `
select i.ord,
  coalesce(e.state = $7 and e.lease_owner = i.owner and e.attempts = i.attempt and e.lease_expires_at > clock_timestamp() + interval '1 second', false),
  (select s.scope || ' ' || s.scope_key || ' (' || s.changed_by || ': ' || s.reason || ')' from kill_switches s where s.closed and (
    s.scope = 'global' or s.scope = 'tenant' and s.scope_key = i.tenant_id
    or s.scope = 'action_type' and s.scope_key = i.tenant_id || '/' || e.action_type
    or s.scope = 'connector' and s.scope_key = i.tenant_id || '/' || e.connector) limit 1), ` + standingRecallSQL("e") + `
from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $5::int[], $6::uuid[]) with ordinality
  as i(tenant_id, run_id, revision, ordinal, attempt, owner, ord)
left join effects e using (tenant_id, run_id, revision, ordinal)`

// Confirm asks leave to send: is the lease still the caller's, is every switch open, and has nobody recalled the draft (D16)? It
// shares the lock that closing a switch takes alone, so leave that was granted before a switch closed is known to that switch's
// second of grace, and none is granted after. If it cannot be read, nothing is sent (D9).
func (l *Ledger) Confirm(ctx context.Context, fences []Fence) ([]Leave, error) {
	leaves := make([]Leave, len(fences))
	asked := time.Now()
	keys := column(fences, func(f Fence) EffectKey { return f.EffectKey })
	batch := &pgx.Batch{}
	batch.Queue("select pg_advisory_xact_lock_shared($1)", killSwitchLock)
	batch.Queue(confirmSQL, append(keyColumns(keys), column(fences, func(f Fence) int32 { return int32(f.Attempt) }),
		column(fences, func(f Fence) uuid.UUID { return f.Owner }), effectMove("lease").To)...)
	results := l.pool.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	var ord int
	var owned bool
	var stopped, recalled *string
	_, err = pgx.ForEachRow(rows, []any{&ord, &owned, &stopped, &recalled}, func() error {
		leaves[ord-1] = Leave{Granted: owned && stopped == nil && recalled == nil, AskedAt: asked}
		switch {
		case recalled != nil:
			leaves[ord-1].Reason = "its draft was recalled by " + *recalled
		case stopped != nil:
			leaves[ord-1].Reason = "the kill switch is closed: " + *stopped
		case !owned:
			leaves[ord-1].Reason = "the lease has ended or is another's"
		}
		return nil
	})
	return leaves, err
}
