package ledger

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// maxCallbacks is how many addresses one run may call: a redelivery may come with another one, as from a second execution of
// the same workflow, and each is waiting.
const maxCallbacks = 20

// askCallbacksSQL keeps where to call. The address may be new though the event is not.
const askCallbacksSQL = `
insert into callbacks (tenant_id, run_id, callback_id, url)
select i.tenant_id, i.run_id, i.callback_id, i.url
from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[]) with ordinality as i(tenant_id, run_id, callback_id, url, ord)
where (select count(*) from callbacks c where c.run_id = i.run_id and c.tenant_id = i.tenant_id) < $5
order by i.ord
on conflict do nothing returning callback_id`

// askCallbacks is a commit of its own after the claim's. When a process dies between them nobody was answered, and the event
// comes again.
func (l *Ledger) askCallbacks(ctx context.Context, items []*claim) error {
	asking := slices.DeleteFunc(slices.Clone(items), func(c *claim) bool {
		return c.Callback == "" || c.answer.Err != nil || c.answer.Result == contracts.ResultPayloadMismatch
	})
	if len(asking) == 0 {
		return nil
	}
	asking = inOrder(asking, (*claim).found)
	return l.command(ctx, "ask callbacks", func(ctx context.Context) error {
		_, err := collect(ctx, l, l.site("ask_callbacks"), column(asking, func(c *claim) string { return c.answer.Run.RunID.String() }),
			pgx.RowTo[uuid.UUID], askCallbacksSQL,
			column(asking, func(c *claim) string { return c.TenantID }),
			column(asking, func(c *claim) uuid.UUID { return c.answer.Run.RunID }),
			column(asking, func(c *claim) uuid.UUID { return callbackID(c.answer.Run.RunID, c.Callback) }),
			column(asking, func(c *claim) string { return c.Callback }), maxCallbacks)
		return err
	})
}

func callbackID(run uuid.UUID, address string) uuid.UUID {
	sum := sha256.Sum256(append(run[:], address...))
	return uuid.UUID(sum[:16])
}

// Callback is one call that is due: its run has ended.
type Callback struct {
	ID      uuid.UUID
	URL     string
	Attempt int // from 1
	MadeAt  time.Time
	Run     Run
}

// takeCallbacksSQL puts off what it takes, so that a process that dies with it is followed by another. What it finds before its
// run's end is looked at again the later the longer it waits, up to half a minute.
const takeCallbacksSQL = `
with due as materialized (
  select tenant_id, run_id, callback_id, made_at from callbacks where state = 'waiting' and next_at <= statement_timestamp()
  order by next_at limit $1 for update skip locked
), seen as materialized (
  select d.*, r.ended_at is not null as ended from due d
  cross join lateral (select ended_at from runs r where r.tenant_id = d.tenant_id and r.run_id = d.run_id limit 1) r
), put_off as (
  update callbacks c set attempts = c.attempts + s.ended::int, next_at = clock_timestamp() + case when s.ended
      then make_interval(secs => $2) else least(interval '30 seconds', interval '200 milliseconds' + (clock_timestamp() - s.made_at) / 10) end
  from seen s where c.tenant_id = s.tenant_id and c.run_id = s.run_id and c.callback_id = s.callback_id
  returning c.tenant_id, c.run_id, c.callback_id, c.url, c.attempts, c.made_at, s.ended
)
select tenant_id, run_id, callback_id, url, attempts, made_at from put_off where ended`

// TakeCallbacks takes up to limit calls that are due. What is not recorded as sent within hold is due again.
func (l *Ledger) TakeCallbacks(ctx context.Context, limit int, hold time.Duration) ([]Callback, error) {
	var taken []Callback
	err := l.command(ctx, "take callbacks", func(ctx context.Context) (err error) {
		taken, err = collect(ctx, l, l.site("take_callbacks"), nil, scanCallback, takeCallbacksSQL, limit, seconds(hold))
		return err
	})
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	runs, err := l.readRuns(ctx, column(taken, func(c Callback) runKey { return runKey{c.Run.TenantID, c.Run.RunID} }))
	if err != nil {
		return nil, unread("read runs that are called about", err)
	}
	for i := range taken {
		if run := runs[runKey{taken[i].Run.TenantID, taken[i].Run.RunID}]; run != nil {
			taken[i].Run = *run
		}
	}
	return taken, nil
}

func scanCallback(row pgx.CollectableRow) (c Callback, err error) {
	err = row.Scan(&c.Run.TenantID, &c.Run.RunID, &c.ID, &c.URL, &c.Attempt, &c.MadeAt)
	return c, err
}

// CallbackResult is what became of one attempt to call.
type CallbackResult struct {
	*Callback
	Err   error         // nil: it was taken
	Again time.Duration // after an error: when to call again, 0 for never
}

const recordCallbacksSQL = `
update callbacks c set state = i.state, last_error = nullif(i.error, ''),
  sent_at = case when i.state = 'sent' then clock_timestamp() end, next_at = clock_timestamp() + make_interval(secs => i.again)
from (select * from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::float8[])
  as t(tenant_id, run_id, callback_id, state, error, again) offset 0) i
where c.tenant_id = i.tenant_id and c.run_id = i.run_id and c.callback_id = i.callback_id and c.state = 'waiting'
returning c.callback_id`

// RecordCallbacks keeps the results of attempts.
func (l *Ledger) RecordCallbacks(ctx context.Context, results []CallbackResult) error {
	slices.SortFunc(results, func(a, b CallbackResult) int {
		return runKey{a.Run.TenantID, a.Run.RunID}.compare(runKey{b.Run.TenantID, b.Run.RunID})
	})
	return l.command(ctx, "record callbacks", func(ctx context.Context) error {
		_, err := collect(ctx, l, l.site("record_callbacks"), column(results, func(r CallbackResult) string { return r.Run.RunID.String() }),
			pgx.RowTo[uuid.UUID], recordCallbacksSQL,
			column(results, func(r CallbackResult) string { return r.Run.TenantID }),
			column(results, func(r CallbackResult) uuid.UUID { return r.Run.RunID }),
			column(results, func(r CallbackResult) uuid.UUID { return r.ID }),
			column(results, (CallbackResult).state), column(results, (CallbackResult).text),
			column(results, func(r CallbackResult) float64 { return seconds(r.Again) }))
		return err
	})
}

func (r CallbackResult) state() string {
	switch {
	case r.Err == nil:
		return "sent"
	case r.Again == 0:
		return "failed"
	}
	return "waiting"
}

func (r CallbackResult) text() string {
	if r.Err == nil {
		return ""
	}
	return storable(r.Err.Error())
}
