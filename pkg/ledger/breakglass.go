package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Glass is what follows where somebody breaks the glass: approves alone.
type Glass struct {
	ReviewWithin time.Duration // how long others have to look at it; above 0
	Roles        []string      // that may break the glass; they look at it besides the request's audience
	To           []Address     // where people are told at once
}

// GlassReview is an approval that somebody gave alone, and what somebody else said of it afterwards (A16).
type GlassReview struct {
	Issuer     string     `json:"issuer"` // of whoever approved alone, as is Subject
	Subject    string     `json:"subject"`
	BrokenBy   string     `json:"broken_by"` // how people know them
	Reason     string     `json:"broken_reason"`
	BrokenAt   time.Time  `json:"broken_at"`
	ReviewBy   time.Time  `json:"review_by"`
	Audience   []string   `json:"audience"` // roles of which one may judge
	Verdict    string     `json:"verdict"`  // VerdictRight or VerdictWrong; "" while it waits, as are the rest
	ReviewerID string     `json:"reviewer_id"`
	Said       string     `json:"reason"`    // by the reviewer
	JudgedAt   *time.Time `json:"judged_at"` // nil while it waits
}

// glassView is one row as JSON.
const glassView = `jsonb_build_object('issuer', b.broken_by_issuer, 'subject', b.broken_by_subject, 'broken_by', b.broken_by_id,
  'broken_reason', b.broken_reason, 'broken_at', b.broken_at, 'review_by', b.review_by, 'audience', b.audience, 'verdict', b.verdict,
  'reviewer_id', b.reviewer_id, 'reason', b.reason, 'judged_at', b.judged_at)`

const (
	glassBrokenSQL = `
insert into glass_reviews (tenant_id, run_id, approval_id, broken_by_issuer, broken_by_subject, broken_by_id, broken_reason, broken_at,
  review_by, audience)
select i.tenant_id, i.run_id, i.approval_id, i.issuer, i.subject, i.id, i.reason, i.at, i.at + make_interval(secs => i.within),
  a.audience || array(select r from jsonb_array_elements_text(i.roles) as r where r <> all(a.audience))
from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::float8[],
  $10::jsonb[]) as i(tenant_id, run_id, approval_id, issuer, subject, id, reason, at, within, roles)
join approvals a using (approval_id, tenant_id)`

	// What was on its way was made moot by the decision before, in the same transaction.
	glassToldSQL = `
insert into notifications as n (tenant_id, approval_id, channel, recipient, kind)
select tenant_id, approval_id, channel, recipient, 'break_glass'
from unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) as i(tenant_id, approval_id, channel, recipient)
order by approval_id, channel, recipient
on conflict (approval_id, channel, recipient) do update set state = 'waiting', kind = 'break_glass', attempts = 0,
  next_at = clock_timestamp(), last_error = null, sent_at = null`
)

// broken flags the approvals that somebody gave alone, and has people told.
func (w *rulingWriter) broken(alone []*ruling) {
	if len(alone) == 0 {
		return
	}
	w.batch.Queue(glassBrokenSQL, rulingTenants(alone), rulingIDs(alone), rulingApprovals(alone),
		column(alone, func(r *ruling) string { return r.vote.Reviewer.Issuer }),
		column(alone, func(r *ruling) string { return r.vote.Reviewer.Subject }),
		column(alone, func(r *ruling) string { return r.vote.Reviewer.ID }),
		column(alone, func(r *ruling) string { return r.vote.Reason }), column(alone, func(r *ruling) time.Time { return r.locked.now }),
		column(alone, func(r *ruling) float64 { return seconds(r.vote.Glass.ReviewWithin) }),
		column(alone, func(r *ruling) string { return listJSON(r.vote.Glass.Roles) }))
	var to []Address
	for _, r := range alone {
		to = append(to, r.vote.Glass.To...)
	}
	if len(to) > 0 {
		w.batch.Queue(glassToldSQL, column(to, func(a Address) string { return a.TenantID }),
			column(to, func(a Address) uuid.UUID { return a.ApprovalID }), column(to, func(a Address) string { return a.Channel }),
			column(to, func(a Address) string { return a.Recipient }))
	}
}

// GlassJudgement is what a person says of an approval that somebody else gave alone. Who may is checked before, by the approval
// service.
type GlassJudgement struct {
	CommandID  uuid.UUID // one that is sent twice is one judgement
	TenantID   string
	RunID      uuid.UUID
	ApprovalID uuid.UUID
	Verdict    string // VerdictRight or VerdictWrong
	Reason     string // at most 2,000 characters; needed with VerdictWrong
	Channel    string // web or api
	PageDigest []byte // of the page that was shown, nil through the API (A17)
	Reviewer   Reviewer
}

// GlassJudged is what stands after a judgement.
type GlassJudged struct {
	Stored  bool // this judgement stands, also where it was stored before
	Verdict string
	By      string
	At      time.Time
}

// Errors of JudgeGlass.
var (
	ErrNoGlass  = errors.New("nobody has approved that alone")
	ErrOwnGlass = errors.New("whoever approved alone cannot judge it")
)

const (
	lockGlassSQL = `
select (broken_by_issuer = $4 and broken_by_subject = $5) or broken_by_id = $6
from glass_reviews where tenant_id = $1 and run_id = $2 and approval_id = $3 for update`

	judgeGlassSQL = `
with judged as (
  update glass_reviews g set verdict = $3, command_id = $4, issuer = $5, subject = $6, reviewer_id = $7, authority = $8, reason = $9,
    channel = $10, page_digest = $11, judged_at = clock_timestamp()
  where g.tenant_id = $1 and g.approval_id = $2 and g.verdict is null
  returning g.*
)
insert into audit_events (tenant_id, run_id, actor, move, detail)
select tenant_id, run_id, reviewer_id, 'judge_glass', jsonb_build_object('approval_id', approval_id, 'verdict', verdict, 'reason', reason,
  'broken_by', broken_by_id, 'channel', channel) from judged`

	judgedGlassSQL = `
select command_id = $3, verdict, reviewer_id, judged_at from glass_reviews where tenant_id = $1 and approval_id = $2`
)

// JudgeGlass stores what somebody else says of an approval that was given alone. The first verdict stands; it changes nothing of
// what was sent. ErrNoGlass where nobody broke the glass, ErrOwnGlass where the judge did.
func (l *Ledger) JudgeGlass(ctx context.Context, j GlassJudgement) (done GlassJudged, err error) {
	j.Reason = storable(j.Reason)
	err = l.command(ctx, "judge_glass", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("judge_glass"), []string{j.RunID.String()}, func(tx pgx.Tx) (err error) {
			done, err = judgeGlass(ctx, tx, &j)
			return err
		})
	})
	return done, err
}

func judgeGlass(ctx context.Context, tx pgx.Tx, j *GlassJudgement) (done GlassJudged, err error) {
	var own bool
	err = tx.QueryRow(ctx, lockGlassSQL, j.TenantID, j.RunID, j.ApprovalID, j.Reviewer.Issuer, j.Reviewer.Subject, j.Reviewer.ID).Scan(&own)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return done, ErrNoGlass
	case err != nil:
		return done, err
	case own:
		return done, ErrOwnGlass
	}
	if _, err = tx.Exec(ctx, judgeGlassSQL, j.TenantID, j.ApprovalID, j.Verdict, j.CommandID, j.Reviewer.Issuer, j.Reviewer.Subject,
		j.Reviewer.ID, modelJSON(j.Reviewer.Authority), j.Reason, j.Channel, j.PageDigest); err != nil {
		return done, err
	}
	err = tx.QueryRow(ctx, judgedGlassSQL, j.TenantID, j.ApprovalID, j.CommandID).Scan(&done.Stored, &done.Verdict, &done.By, &done.At)
	return done, err
}

// BrokenGlass is an approval that somebody gave alone, as lists show it.
type BrokenGlass struct {
	Listed // without its votes
	Glass  GlassReview
}

// The list is cut along an index before anything is joined.
const brokenGlassSQL = `
select ` + summaryColumns + `, r.sent_by,
  coalesce((select c.corrected_by from corrections c where c.run_id = a.run_id and c.tenant_id = a.tenant_id), ''), ` + glassView + `
from (
  select * from glass_reviews where verdict is null and tenant_id = any($1) and audience && $2 order by review_by limit $3
) b
join approvals a using (approval_id, tenant_id) join runs r on r.run_id = a.run_id and r.tenant_id = a.tenant_id
join intents n on n.run_id = a.run_id and n.tenant_id = a.tenant_id and n.intent_hash = a.intent_hash
order by b.review_by`

// BrokenGlass lists up to limit approvals that were given alone and that people of the audience have to look at, the most urgent first.
func (l *Ledger) BrokenGlass(ctx context.Context, tenants, audience []string, limit int) ([]BrokenGlass, error) {
	rows, err := l.pool.Query(ctx, brokenGlassSQL, tenants, audience, limit)
	if err == nil {
		var list []BrokenGlass
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b BrokenGlass, err error) {
			return b, row.Scan(append(b.columns(), &b.SentBy, &b.CorrectedBy, &b.Glass)...)
		})
		if err == nil {
			return list, nil
		}
	}
	return nil, unread("list what was approved alone", err)
}

// OverdueGlass is what of a tenant nobody has looked at in time.
type OverdueGlass struct {
	TenantID string
	Count    int
	Approval uuid.UUID // the oldest
	ReviewBy time.Time // of the oldest
}

const overdueGlassSQL = `
select distinct on (tenant_id) tenant_id, count(*) over (partition by tenant_id)::int, approval_id, review_by
from glass_reviews where verdict is null and review_by <= clock_timestamp() order by tenant_id, review_by`

// OverdueGlass says of each tenant that has any how many approvals that were given alone nobody has looked at in time.
func (l *Ledger) OverdueGlass(ctx context.Context) ([]OverdueGlass, error) {
	rows, err := l.pool.Query(ctx, overdueGlassSQL)
	if err == nil {
		var list []OverdueGlass
		if list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[OverdueGlass]); err == nil {
			return list, nil
		}
	}
	return nil, unread("look for approvals given alone that nobody has looked at", err)
}
