package ledger

import (
	"context"
	"errors"
	"slices"

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

// The statements of minting lock the approval first, as a decision does before it spends tokens.
const (
	lockForTokensSQL = `
select from unnest($1::text[], $2::uuid[], $3::uuid[]) as i(tenant_id, run_id, approval_id)
cross join lateral (
  select from approvals a where a.approval_id = i.approval_id and a.tenant_id = i.tenant_id and a.run_id = i.run_id for key share
) a`

	revokeTokensSQL = `
update approval_tokens t set spent_at = clock_timestamp()
from unnest($1::uuid[], $2::text[], $3::bytea[]) as i(approval_id, recipient, token_hash)
where t.approval_id = i.approval_id and t.recipient = i.recipient and t.spent_at is null and t.token_hash <> i.token_hash`

	mintTokensSQL = `
with minted as (
  insert into approval_tokens (token_hash, tenant_id, run_id, approval_id, recipient, decisions, expires_at)
  select i.token_hash, i.tenant_id, i.run_id, i.approval_id, i.recipient, array(select jsonb_array_elements_text(i.decisions)), a.decide_by
  from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::bytea[], $6::jsonb[])
    as i(tenant_id, run_id, approval_id, recipient, token_hash, decisions)
  join approvals a on a.approval_id = i.approval_id and a.tenant_id = i.tenant_id and a.run_id = i.run_id
  where a.state = 'pending' and a.decide_by > clock_timestamp()
  on conflict (token_hash) do nothing
)
select i.ord from unnest($3::uuid[]) with ordinality as i(approval_id, ord) join approvals a using (approval_id)
where a.state = 'pending' and a.decide_by > statement_timestamp()`
)

// MintTokens stores new tokens, each of another recipient or approval, and revokes those before them. A token ends with the
// approval's decide-by. The answers say, in order, which were minted: an approval that does not wait any more gets none.
func (l *Ledger) MintTokens(ctx context.Context, tokens []Token) ([]bool, error) {
	order := make([]int, len(tokens))
	for i := range order {
		order[i] = i
	}
	// In the order in which decisions lock (A7).
	slices.SortFunc(order, func(a, b int) int {
		return runKey{tokens[a].TenantID, tokens[a].RunID}.compare(runKey{tokens[b].TenantID, tokens[b].RunID})
	})
	sorted := column(order, func(i int) Token { return tokens[i] })
	minted := make([]bool, len(tokens))
	err := l.command(ctx, "mint tokens", func(ctx context.Context) error {
		clear(minted)
		return l.transaction(ctx, l.site("mint_token"), column(sorted, func(t Token) string { return t.RunID.String() }), func(tx pgx.Tx) error {
			rows, err := mint(ctx, tx, sorted)
			for _, ord := range rows {
				minted[order[ord-1]] = true
			}
			return err
		})
	})
	return minted, err
}

func mint(ctx context.Context, tx pgx.Tx, tokens []Token) ([]int64, error) {
	tenants := column(tokens, func(t Token) string { return t.TenantID })
	runs := column(tokens, func(t Token) uuid.UUID { return t.RunID })
	approvals := column(tokens, func(t Token) uuid.UUID { return t.ApprovalID })
	recipients := column(tokens, func(t Token) string { return t.Recipient })
	hashes := column(tokens, func(t Token) []byte { return t.Hash })
	b := &pgx.Batch{}
	b.Queue(lockForTokensSQL, tenants, runs, approvals)
	b.Queue(revokeTokensSQL, approvals, recipients, hashes)
	b.Queue(mintTokensSQL, tenants, runs, approvals, recipients, hashes, column(tokens, func(t Token) string { return listJSON(t.Decisions) }))
	results := tx.SendBatch(ctx, b)
	defer results.Close()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	minted, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	return minted, errors.Join(err, results.Close())
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
		return Token{}, unread("look a link up", err)
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

// RecordRefusal keeps that somebody was turned away, once, also where the answer to the COMMIT is lost. It moves nothing.
func (l *Ledger) RecordRefusal(ctx context.Context, r Refused) error {
	id := uuid.New()
	return l.command(ctx, "record refusal", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("record_refusal"), []string{r.RunID.String()}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into audit_events (tenant_id, run_id, actor, move, detail)
select $1, $2, $3, 'refuse_vote', jsonb_build_object('approval_id', $4::uuid, 'issuer', $5::text, 'subject', $6::text, 'decision', $7::text,
  'code', $8::text, 'channel', $9::text, 'refusal_id', $10::uuid)
where not exists (select from audit_events a where a.tenant_id = $1 and a.run_id = $2 and a.detail->>'refusal_id' = $10::uuid::text)`, r.TenantID, r.RunID, r.By, r.ApprovalID, r.Issuer, r.Subject, storable(r.Decision), r.Code, r.Channel, id)
			return err
		})
	})
}
