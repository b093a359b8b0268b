package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Verdicts of a person about what was done without them: a sample of what a rule let act, or what somebody approved alone.
const (
	VerdictRight = "right"
	VerdictWrong = "wrong"
)

// Judgement is what a person says of a case that a rule let act (P4).
type Judgement struct {
	CommandID  uuid.UUID // one that is sent twice is one judgement
	TenantID   string
	RunID      uuid.UUID
	SampleID   uuid.UUID
	Verdict    string
	Reason     string
	Channel    string
	PageDigest []byte // of the page that was shown, nil through the API
	Reviewer   Reviewer
}

// Judged is what became of a judgement.
type Judged struct {
	Stored  bool // this judgement stands, also where it was stored before
	Verdict string
	By      string
	At      time.Time
	Class   SampleClass
	Stopped bool // the class lets nothing act any more
}

// SampleClass names the rule and the evaluation that let a case act.
type SampleClass struct {
	ID               uuid.UUID
	Rule, Evaluation string
}

// ErrNoSample means that no sample has that id.
var ErrNoSample = errors.New("there is no such sample")

const (
	judgeSQL = `
update exception_uses u set verdict = $3, command_id = $4, issuer = $5, subject = $6, reviewer_id = $7, authority = $8, reason = $9,
  channel = $10, page_digest = $11, judged_at = clock_timestamp()
where u.tenant_id = $1 and u.sample_id = $2 and u.verdict is null`

	// stoppedSQL stops the class of a wrong sample. The first one stands.
	stoppedSQL = `
update exception_classes c set stopped_at = clock_timestamp(), stopped_by = $2, stop_reason = $3
where c.class_id = $1 and c.stopped_at is null`

	judgedSQL = `
select u.command_id = $3, u.verdict, u.reviewer_id, u.judged_at, c.rule_id, c.evaluation_id, c.stopped_at is not null
from exception_uses u join exception_classes c using (class_id) where u.tenant_id = $1 and u.sample_id = $2`

	judgedAuditSQL = `
insert into audit_events (tenant_id, run_id, actor, move, detail)
select $1, $2, $3, 'judge_sample', jsonb_build_object('sample_id', $4::uuid, 'verdict', $5::text, 'reason', $6::text, 'rule', c.rule_id,
  'evaluation', c.evaluation_id, 'stopped', $5 = 'wrong')
from exception_classes c where c.class_id = $7`
)

// JudgeSample stores a judgement. A wrong case stops its class in the same transaction, under the lock that every authorization by
// the class shares: once it returns, nothing more is authorized by that rule and evaluation (P4).
func (l *Ledger) JudgeSample(ctx context.Context, j Judgement) (done Judged, err error) {
	err = l.command(ctx, "judge_sample", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("judge_sample"), []string{j.RunID.String()}, func(tx pgx.Tx) (err error) {
			done, err = judgeSample(ctx, tx, &j)
			return err
		})
	})
	return done, err
}

func judgeSample(ctx context.Context, tx pgx.Tx, j *Judgement) (done Judged, err error) {
	err = tx.QueryRow(ctx, `select class_id from exception_uses where tenant_id = $1 and sample_id = $2 and run_id = $3`, j.TenantID,
		j.SampleID, j.RunID).Scan(&done.Class.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return done, ErrNoSample
	}
	if err != nil {
		return done, err
	}
	if _, err = tx.Exec(ctx, stopClassSQL, done.Class.ID); err != nil {
		return done, err
	}
	tag, err := tx.Exec(ctx, judgeSQL, j.TenantID, j.SampleID, j.Verdict, j.CommandID, j.Reviewer.Issuer, j.Reviewer.Subject,
		j.Reviewer.ID, modelJSON(j.Reviewer.Authority), j.Reason, j.Channel, j.PageDigest)
	if err != nil {
		return done, err
	}
	if tag.RowsAffected() == 1 {
		if err = storeJudged(ctx, tx, j, done.Class.ID); err != nil {
			return done, err
		}
	}
	err = tx.QueryRow(ctx, judgedSQL, j.TenantID, j.SampleID, j.CommandID).Scan(&done.Stored, &done.Verdict, &done.By, &done.At,
		&done.Class.Rule, &done.Class.Evaluation, &done.Stopped)
	return done, err
}

func storeJudged(ctx context.Context, tx pgx.Tx, j *Judgement, class uuid.UUID) error {
	if j.Verdict == VerdictWrong {
		why := fmt.Sprintf("sample %s was wrong: %s", j.SampleID, j.Reason)
		if _, err := tx.Exec(ctx, stoppedSQL, class, j.Reviewer.ID, why); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, judgedAuditSQL, j.TenantID, j.RunID, j.Reviewer.ID, j.SampleID, j.Verdict, j.Reason, class)
	return err
}
