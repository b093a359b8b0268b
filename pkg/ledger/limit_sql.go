package ledger

const (
	// lockLimitsSQL takes the locks in one order. They come after those of near duplicates and before those of runs.
	lockLimitsSQL = `
select pg_advisory_xact_lock(k) from (
  select distinct hashtextextended('limit ' || tenant_id || ' ' || limit_id || ' ' || encode(scope, 'hex'), 0) as k
  from unnest($1::text[], $2::text[], $3::bytea[]) as t(tenant_id, limit_id, scope) order by 1
) l`

	// stepOf is how wide a step of a window is, in seconds. A step counts as long as any of it lies in the window, so that what is
	// counted is never less than what was drawn.
	stepOf = `greatest(i.seconds / 60, 1)`

	// usageSQL is a statement of its own, so that it sees all that was drawn before the locks were granted.
	usageSQL = `
select i.ord, w.count, w.amount::text
from unnest($1::text[], $2::text[], $3::bytea[], $4::float8[]) with ordinality as i(tenant_id, limit_id, scope, seconds, ord)
cross join lateral (
  select coalesce(sum(w.count), 0)::bigint as count, coalesce(sum(w.amount), 0) as amount from limit_windows w
  where w.tenant_id = i.tenant_id and w.limit_id = i.limit_id and w.scope = i.scope
    and w.step > clock_timestamp() - make_interval(secs => i.seconds + ` + stepOf + `)
) w`

	// drawSQL stores a draw once for each effect and limit: an intent that is approved again has drawn already.
	drawSQL = `
with input as (
  select i.*, date_bin(make_interval(secs => ` + stepOf + `), clock_timestamp(), 'epoch') as step
  from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::bytea[], $7::float8[], $8::text[])
    as i(tenant_id, run_id, revision, ordinal, limit_id, scope, seconds, amount)
), drawn as (
  insert into limit_draws (tenant_id, run_id, revision, ordinal, limit_id, scope, step, amount)
  select tenant_id, run_id, revision, ordinal, limit_id, scope, step, amount::numeric from input
  order by run_id, tenant_id, revision, ordinal, limit_id
  on conflict do nothing
  returning tenant_id, limit_id, scope, step, amount
)
insert into limit_windows as w (tenant_id, limit_id, scope, step, count, amount)
select tenant_id, limit_id, scope, step, count(*), sum(amount) from drawn
group by limit_id, scope, step, tenant_id order by limit_id, scope, step, tenant_id
on conflict (limit_id, scope, step, tenant_id) do update
set count = w.count + excluded.count, amount = w.amount + excluded.amount`

	// returnDrawsSQL looks at draws whose effect has ended. Only what was certainly not carried out is given back. Steps that no
	// window reaches any more are forgotten.
	returnDrawsSQL = `
with ended as materialized (
  select d.run_id, d.tenant_id, d.revision, d.ordinal, d.limit_id, e.state <> 'completed' as failed
  from limit_draws d join effects e using (run_id, tenant_id, revision, ordinal)
  where d.open and not e.open
  order by d.run_id, d.tenant_id, d.revision, d.ordinal, d.limit_id limit $1
  for no key update of d skip locked
), closed as (
  update limit_draws d set open = false, returned = k.failed from ended k
  where d.run_id = k.run_id and d.tenant_id = k.tenant_id and d.revision = k.revision and d.ordinal = k.ordinal
    and d.limit_id = k.limit_id
  returning d.run_id, d.tenant_id, d.limit_id, d.scope, d.step, d.amount, d.returned
), back as (
  select tenant_id, limit_id, scope, step, count(*) as count, sum(amount) as amount from closed where returned
  group by limit_id, scope, step, tenant_id
), locked as materialized (
  select w.limit_id, w.scope, w.step, w.tenant_id, b.count, b.amount
  from back b join limit_windows w using (limit_id, scope, step, tenant_id)
  order by w.limit_id, w.scope, w.step, w.tenant_id for no key update of w
), forgotten as (
  delete from limit_windows where ctid = any(array(
    select ctid from limit_windows where step < clock_timestamp() - make_interval(secs => $2) limit $1))
), given as (
  update limit_windows w set count = w.count - k.count, amount = w.amount - k.amount from locked k
  where w.limit_id = k.limit_id and w.scope = k.scope and w.step = k.step and w.tenant_id = k.tenant_id
)
select run_id from closed`
)
