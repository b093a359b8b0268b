package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Token is the trace of a link that was sent to somebody: it says which request the link belongs to and never who follows it
// (A3). Only its SHA-256 is known here (A2).
type Token struct {
	Hash       []byte // 32 bytes
	TenantID   string
	RunID      uuid.UUID
	ApprovalID uuid.UUID
	Recipient  string   // channel and address
	Decisions  []string // what it may be used for
}

// lockForTokenSQL holds the approval first: a decision locks approval and then tokens too.
const lockForTokenSQL = `select decide_by from approvals
where tenant_id = $1 and run_id = $2 and approval_id = $3 and state = 'pending' and decide_by > clock_timestamp() for key share`

// MintToken stores a new token for a recipient and revokes the one before. It ends with the approval's decide-by. False means that
// the approval does not wait any more, and nothing was stored.
func (l *Ledger) MintToken(ctx context.Context, t Token) (minted bool, err error) {
	err = l.command(ctx, "mint token", func(ctx context.Context) error {
		minted = false
		return l.transaction(ctx, l.site("mint_token"), []string{t.RunID.String()}, func(tx pgx.Tx) error {
			var expires time.Time
			err := tx.QueryRow(ctx, lockForTokenSQL, t.TenantID, t.RunID, t.ApprovalID).Scan(&expires)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `update approval_tokens set spent_at = clock_timestamp()
where approval_id = $1 and recipient = $2 and spent_at is null and token_hash <> $3`, t.ApprovalID, t.Recipient, t.Hash); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `insert into approval_tokens (token_hash, tenant_id, run_id, approval_id, recipient, decisions, expires_at)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (token_hash) do nothing`, t.Hash, t.TenantID, t.RunID, t.ApprovalID, t.Recipient,
				t.Decisions, expires)
			minted = err == nil
			return err
		})
	})
	return minted, err
}

// ErrNoToken means that a token is unknown, spent or expired. Which of them is nobody's business who does not know more.
var ErrNoToken = errors.New("the link is not valid, or not valid any more")

// FindToken is the live token with that hash.
func (l *Ledger) FindToken(ctx context.Context, hash []byte) (Token, error) {
	t := Token{Hash: hash}
	err := l.pool.QueryRow(ctx, `select tenant_id, run_id, approval_id, recipient, decisions from approval_tokens
where token_hash = $1 and spent_at is null and expires_at > clock_timestamp()`, hash).
		Scan(&t.TenantID, &t.RunID, &t.ApprovalID, &t.Recipient, &t.Decisions)
	if errors.Is(err, pgx.ErrNoRows) {
		return Token{}, ErrNoToken
	}
	if err != nil {
		return Token{}, fmt.Errorf("look a link up: %w", err)
	}
	return t, nil
}

// Refused is a decision that somebody asked to make and may not.
type Refused struct {
	TenantID          string
	RunID, ApprovalID uuid.UUID
	By                string // how records name the person
	Issuer, Subject   string
	Decision          string
	Code              string // why
	Channel           string
}

// RecordRefusal keeps that somebody was turned away. It moves nothing.
func (l *Ledger) RecordRefusal(ctx context.Context, r Refused) error {
	return l.command(ctx, "record refusal", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("record_refusal"), []string{r.RunID.String()}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into audit_events (tenant_id, run_id, actor, move, detail)
values ($1, $2, $3, 'refuse_vote', jsonb_build_object('approval_id', $4::uuid, 'issuer', $5::text, 'subject', $6::text, 'decision', $7::text,
  'code', $8::text, 'channel', $9::text))`, r.TenantID, r.RunID, r.By, r.ApprovalID, r.Issuer, r.Subject, storable(r.Decision), r.Code, r.Channel)
			return err
		})
	})
}
