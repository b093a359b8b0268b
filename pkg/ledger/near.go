package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NearCheck has a decision look for an intent of another key that wants nearly the same (K13).
type NearCheck struct {
	Within time.Duration        // how long ago the other of the first action may have been submitted; 0 looks for none
	Others []NearWish           // what further actions want
	Review func(*Twin) Decision // what is decided where there is one
}

// NearWish is what an action wants, alike for those that want nearly the same, and how long ago another may have been submitted.
type NearWish struct {
	Hash   []byte
	Within time.Duration
}

// wishes are what twins of a decision would want.
func (d *decision) wishes() []NearWish {
	if d.Near == nil || d.authorization == nil && d.approval == nil {
		return nil
	}
	if d.Intent.NearHash == nil || d.Near.Within == 0 {
		return d.Near.Others
	}
	return append([]NearWish{{d.Intent.NearHash, d.Near.Within}}, d.Near.Others...)
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
func (d *decision) checksNear() bool { return len(d.wishes()) > 0 }

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
  select n.run_id, n.created_at, r.idempotency_key from (
    select n.tenant_id, n.run_id, n.created_at from intents n where n.tenant_id = i.tenant_id and n.near_hash = i.near_hash
    union all
    select n.tenant_id, n.run_id, n.created_at from near_effects n where n.tenant_id = i.tenant_id and n.near_hash = i.near_hash
  ) n join runs r using (run_id, tenant_id)
  where n.run_id <> i.run_id and n.created_at > clock_timestamp() - make_interval(secs => i.within)
    and r.state in ('awaiting_human', 'approved', 'completed')
  order by n.created_at desc limit 1
) n
left join lateral (
  select e.operation_id, e.external_id from effects e where e.tenant_id = i.tenant_id and e.run_id = n.run_id
  order by e.revision desc, e.ordinal desc limit 1
) e on true`
)

// wished is one wish of a decision of a batch.
type wished struct {
	NearWish
	at int // index of the decision
}

// withTwins is the batch with those decisions replaced that have a twin, in the database or earlier in the batch.
func withTwins(ctx context.Context, tx pgx.Tx, batch []*decision) ([]*decision, error) {
	var looking []wished
	for i, d := range batch {
		for _, wish := range d.wishes() {
			looking = append(looking, wished{wish, i})
		}
	}
	if len(looking) == 0 {
		return batch, nil
	}
	tenants := column(looking, func(w wished) string { return batch[w.at].Intent.TenantID })
	hashes := column(looking, func(w wished) []byte { return w.Hash })
	if _, err := tx.Exec(ctx, lockNearSQL, tenants, hashes); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, twinsSQL, tenants, hashes,
		column(looking, func(w wished) uuid.UUID { return batch[w.at].Intent.RunID }),
		column(looking, func(w wished) float64 { return w.Within.Seconds() }))
	if err != nil {
		return nil, err
	}
	twins := make([]*Twin, len(batch))
	var ord int
	var found Twin
	_, err = pgx.ForEachRow(rows, []any{&ord, &found.RunID, &found.Key, &found.SubmittedAt, &found.OperationID, &found.ExternalID},
		func() error {
			twin := found
			if at := looking[ord-1].at; twins[at] == nil {
				twins[at] = &twin
			}
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
		twin := twins[i]
		for _, w := range d.wishes() {
			wanted := wish{d.Intent.TenantID, string(w.Hash)}
			if earlier := first[wanted]; earlier != nil && earlier != d && twin == nil {
				twin = &Twin{RunID: earlier.Intent.RunID, Key: earlier.Intent.Key, SubmittedAt: earlier.Intent.SubmittedAt}
				if earlier.authorization != nil {
					twin.OperationID = OperationID(earlier.Intent.RunID, earlier.Intent.Revision, 1)
				}
			}
			if first[wanted] == nil {
				first[wanted] = d
			}
		}
		if twin != nil {
			item, err := d.instead(d.Near.Review(twin))
			if err != nil {
				return nil, err
			}
			out[i] = item
		}
	}
	return out, nil
}

// instead is another decision in the place of d. What its further actions want is stored with it all the same.
func (d *decision) instead(other Decision) (*decision, error) {
	other.Near = d.Near
	return newDecision(&other)
}
