package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NearCheck has a decision look for an intent of another key that wants nearly the same (K13).
type NearCheck struct {
	Within time.Duration        // how long ago the other may have been submitted
	Review func(*Twin) Decision // what is decided where there is one
}

// Twin is a run that wants, or did, nearly the same.
type Twin struct {
	RunID       uuid.UUID
	Key         string
	SubmittedAt time.Time
	OperationID string // of its newest effect, "" where it has none yet
	ExternalID  string // the provider's id, "" where it is not known
}

// checksNear tells whether a decision has to look for twins: only one that lets something happen, or that shows it to a person.
func (d *decision) checksNear() bool {
	return d.Near != nil && d.Intent.NearHash != nil && (d.authorization != nil || d.approval != nil)
}

const (
	// lockNearSQL lets one transaction at a time look for twins of an intent and authorize it: the second sees what the
	// first did. All take these locks first and in one order, and who holds a run never waits for one.
	lockNearSQL = `
select pg_advisory_xact_lock(k) from (
  select distinct hashtextextended('near ' || tenant_id || ' ' || encode(near_hash, 'hex'), 0) as k
  from unnest($1::text[], $2::bytea[]) as t(tenant_id, near_hash) order by 1
) l`

	// twinsSQL finds the newest other run that wants nearly the same and has not ended without doing it.
	twinsSQL = `
select i.ord, n.run_id, n.idempotency_key, n.created_at, coalesce(e.operation_id, ''), coalesce(e.external_id, '')
from unnest($1::text[], $2::bytea[], $3::uuid[], $4::float8[]) with ordinality as i(tenant_id, near_hash, run_id, within, ord)
cross join lateral (
  select n.run_id, n.created_at, r.idempotency_key from intents n join runs r using (run_id, tenant_id)
  where n.tenant_id = i.tenant_id and n.near_hash = i.near_hash and n.run_id <> i.run_id
    and n.created_at > clock_timestamp() - make_interval(secs => i.within)
    and r.state in ('awaiting_human', 'approved', 'completed')
  order by n.created_at desc limit 1
) n
left join lateral (
  select e.operation_id, e.external_id from effects e where e.tenant_id = i.tenant_id and e.run_id = n.run_id
  order by e.revision desc, e.ordinal desc limit 1
) e on true`
)

// withTwins is the batch with those decisions replaced that have a twin, in the database or earlier in the batch.
func withTwins(ctx context.Context, tx pgx.Tx, batch []*decision) ([]*decision, error) {
	var looking []int
	for i, d := range batch {
		if d.checksNear() {
			looking = append(looking, i)
		}
	}
	if len(looking) == 0 {
		return batch, nil
	}
	tenants := column(looking, func(i int) string { return batch[i].Intent.TenantID })
	hashes := column(looking, func(i int) []byte { return batch[i].Intent.NearHash })
	if _, err := tx.Exec(ctx, lockNearSQL, tenants, hashes); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, twinsSQL, tenants, hashes,
		column(looking, func(i int) uuid.UUID { return batch[i].Intent.RunID }),
		column(looking, func(i int) float64 { return batch[i].Near.Within.Seconds() }))
	if err != nil {
		return nil, err
	}
	twins := make([]*Twin, len(batch))
	var ord int
	var found Twin
	_, err = pgx.ForEachRow(rows, []any{&ord, &found.RunID, &found.Key, &found.SubmittedAt, &found.OperationID, &found.ExternalID},
		func() error {
			twin := found
			twins[looking[ord-1]] = &twin
			return nil
		})
	if err != nil {
		return nil, err
	}
	return reviewed(batch, twins)
}

func reviewed(batch []*decision, twins []*Twin) ([]*decision, error) {
	type wish struct{ tenant, hash string }
	first := map[wish]*decision{}
	out := make([]*decision, len(batch))
	for i, d := range batch {
		out[i] = d
		if !d.checksNear() {
			continue
		}
		wanted := wish{d.Intent.TenantID, string(d.Intent.NearHash)}
		twin := twins[i]
		if earlier := first[wanted]; earlier != nil && twin == nil {
			twin = &Twin{RunID: earlier.Intent.RunID, Key: earlier.Intent.Key, SubmittedAt: earlier.Intent.SubmittedAt}
			if earlier.authorization != nil {
				twin.OperationID = OperationID(earlier.Intent.RunID, earlier.Intent.Revision, 1)
			}
		}
		if twin != nil {
			instead := d.Near.Review(twin)
			item, err := newDecision(&instead)
			if err != nil {
				return nil, err
			}
			out[i] = item
		}
		if first[wanted] == nil {
			first[wanted] = d
		}
	}
	return out, nil
}
