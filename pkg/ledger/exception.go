package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// windowMargin is how much longer an effect is held than people are told, so that who takes it back in the last moment is not too
// late (D14).
const windowMargin = 5 * time.Second

// Class is what one rule lets act with no person asked on the strength of one evaluation (P4).
type Class struct {
	Rule, Evaluation string
	OneIn            int           // one case in so many is looked at afterwards
	ReviewWithin     time.Duration // how long people have for it
}

// ExceptionCheck has a decision of route auto stand only as long as its classes do.
type ExceptionCheck struct {
	Classes []Class
	Review  func(*Stopped) Decision // what is decided where one of them lets nothing act now
}

// Stopped is a class that lets nothing act: a sample was wrong, or nobody looked at one in time.
type Stopped struct {
	Class
	By, Reason string // "" where samples are overdue
	Overdue    int    // how many of them
}

// classNamespace makes ids of classes. It is stored by way of them and never changes.
var classNamespace = uuid.MustParse("6f1a2b0e-3c52-4a86-9d6d-2f9d2c1c7b54")

func classID(tenant string, c Class) uuid.UUID {
	return uuid.NewSHA1(classNamespace, []byte(tenant+"\x00"+c.Rule+"\x00"+c.Evaluation))
}

const (
	// shareClassesSQL keeps classes from being stopped until the commit: who stops one takes its lock alone.
	shareClassesSQL = `
select pg_advisory_xact_lock_shared(k) from (
  select distinct hashtextextended('exception ' || class_id::text, 0) as k from unnest($1::uuid[]) as t(class_id) order by 1
) l`
	stopClassSQL = `select pg_advisory_xact_lock(hashtextextended('exception ' || $1::uuid::text, 0))`

	knownClassesSQL = `
insert into exception_classes (class_id, tenant_id, rule_id, evaluation_id)
select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as i(class_id, tenant_id, rule_id, evaluation_id)
order by class_id on conflict do nothing`

	// classesSQL is a statement of its own, so that it sees what was stopped before the locks were granted.
	classesSQL = `
select c.class_id, c.seed, coalesce(c.stopped_by, ''), coalesce(c.stop_reason, ''), (
  select count(*) from exception_uses u where u.class_id = c.class_id and u.sample_id is not null and u.verdict is null
    and u.review_by <= clock_timestamp())
from exception_classes c where c.class_id = any($1)`

	usesSQL = `
insert into exception_uses (tenant_id, run_id, intent_hash, class_id, sample_id, review_by, audience)
select tenant_id, run_id, intent_hash, class_id, sample_id,
  case when sample_id is not null then clock_timestamp() + make_interval(secs => review_seconds) end,
  case when sample_id is not null then array(select jsonb_array_elements_text(audience)) end
from unnest($1::text[], $2::uuid[], $3::bytea[], $4::uuid[], $5::uuid[], $6::float8[], $7::jsonb[])
  as i(tenant_id, run_id, intent_hash, class_id, sample_id, review_seconds, audience)
order by run_id, tenant_id, intent_hash, class_id on conflict do nothing`
)

// class is one as it stands under its lock.
type class struct {
	seed       uuid.UUID
	by, reason string
	overdue    int
}

func (d *decision) excepted() bool {
	return d.authorization != nil && d.Exceptions != nil && len(d.Exceptions.Classes) > 0
}

// withinClasses is the batch with those decisions replaced whose class lets nothing act now.
func withinClasses(ctx context.Context, tx pgx.Tx, batch []*decision) ([]*decision, map[uuid.UUID]class, error) {
	var ids []uuid.UUID
	var tenants, rules, evaluations []string
	for _, d := range batch {
		if !d.excepted() {
			continue
		}
		for _, c := range d.Exceptions.Classes {
			ids, tenants = append(ids, classID(d.Intent.TenantID, c)), append(tenants, d.Intent.TenantID)
			rules, evaluations = append(rules, c.Rule), append(evaluations, c.Evaluation)
		}
	}
	if len(ids) == 0 {
		return batch, nil, nil
	}
	classes, err := lockClasses(ctx, tx, ids, tenants, rules, evaluations)
	if err != nil {
		return nil, nil, err
	}
	out := make([]*decision, len(batch))
	for i, d := range batch {
		out[i] = d
		stopped := d.stopped(classes)
		if stopped == nil {
			continue
		}
		if out[i], err = d.instead(d.Exceptions.Review(stopped)); err != nil {
			return nil, nil, err
		}
	}
	return out, classes, nil
}

func lockClasses(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, tenants, rules, evaluations []string) (map[uuid.UUID]class, error) {
	if _, err := tx.Exec(ctx, shareClassesSQL, ids); err != nil {
		return nil, fmt.Errorf("lock classes of exceptions: %w", err)
	}
	if _, err := tx.Exec(ctx, knownClassesSQL, ids, tenants, rules, evaluations); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, classesSQL, ids)
	if err != nil {
		return nil, err
	}
	classes := map[uuid.UUID]class{}
	var id uuid.UUID
	var c class
	_, err = pgx.ForEachRow(rows, []any{&id, &c.seed, &c.by, &c.reason, &c.overdue}, func() error {
		classes[id] = c
		return nil
	})
	return classes, err
}

// stopped names the first of the decision's classes that lets nothing act.
func (d *decision) stopped(classes map[uuid.UUID]class) *Stopped {
	if !d.excepted() {
		return nil
	}
	for _, c := range d.Exceptions.Classes {
		now := classes[classID(d.Intent.TenantID, c)]
		if now.reason != "" || now.overdue > 0 {
			return &Stopped{Class: c, By: now.by, Reason: now.reason, Overdue: now.overdue}
		}
	}
	return nil
}

// sampled chooses one case in so many by its intent hash. Who proposes knows the hash and not the seed, and cannot choose.
func (c class) sampled(hash []byte, oneIn int) bool {
	sum := sha256.Sum256(append(c.seed[:], hash...))
	return binary.BigEndian.Uint64(sum[:8])%uint64(max(oneIn, 1)) == 0
}

// useClasses stores what the classes let act, and which of it people look at.
func useClasses(ctx context.Context, tx pgx.Tx, batch []*decision, moved []uuid.UUID, classes map[uuid.UUID]class) error {
	has := setOf(moved)
	type use struct {
		*decision
		Class
		sample *uuid.UUID
	}
	var uses []use
	for _, d := range batch {
		if !d.excepted() || !has[d.Intent.RunID] {
			continue
		}
		for _, c := range d.Exceptions.Classes {
			u := use{decision: d, Class: c}
			if classes[classID(d.Intent.TenantID, c)].sampled(d.Intent.IntentHash[:], c.OneIn) {
				id := uuid.New()
				u.sample = &id
			}
			uses = append(uses, u)
		}
	}
	if len(uses) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, usesSQL, column(uses, func(u use) string { return u.Intent.TenantID }),
		column(uses, func(u use) uuid.UUID { return u.Intent.RunID }),
		column(uses, func(u use) []byte { return u.Intent.IntentHash[:] }),
		column(uses, func(u use) uuid.UUID { return classID(u.Intent.TenantID, u.Class) }),
		column(uses, func(u use) *uuid.UUID { return u.sample }),
		column(uses, func(u use) float64 { return u.ReviewWithin.Seconds() }),
		column(uses, func(u use) string { return listJSON(u.Audience) }))
	return err
}

func setOf(ids []uuid.UUID) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
