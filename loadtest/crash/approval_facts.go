package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// people are the facts about decisions.
type people struct {
	approvals []approvalFact
	notices   []noticeFact
	tokens    []tokenFact
	messages  []messageFact // that the sandbox received
	leaks     []string      // tables that hold a token as it was sent
}

// approvalFact is one approval, and how often what may be there once is there.
type approvalFact struct {
	RunID          uuid.UUID
	ApprovalID     uuid.UUID
	State          string
	Announced      bool
	Votes          int
	Voters         int // different people among them
	Approving      int
	Rejecting      int
	SendingBack    int
	Authorizations int // that stand on it
	FinalAudits    int // audit rows of moves that decided it
	FinalEvents    int // events in the event log that tell of the vote that decided it
	LiveTokens     int
}

// noticeFact is one notification.
type noticeFact struct {
	RunID      uuid.UUID
	ApprovalID uuid.UUID
	Address    string // channel and recipient
	State      string
	// Timely means that it was recorded as sent while the approval waited. Later, nobody is sent anything.
	Timely bool
}

// tokenFact is the trace of one token.
type tokenFact struct {
	Hash       []byte
	ApprovalID uuid.UUID
	Address    string // channel and recipient
}

// messageFact is one message with a link, as somebody received it.
type messageFact struct {
	Token   string
	Address string // channel and recipient
}

func (m *messageFact) hash() string {
	sum := sha256.Sum256([]byte(m.Token))
	return string(sum[:])
}

const approvalFactsSQL = `
select p.run_id, p.approval_id, p.state, p.announced,
  (select count(*) from reviews v where v.approval_id = p.approval_id) as votes,
  (select count(distinct (v.issuer, v.subject)) from reviews v where v.approval_id = p.approval_id) as voters,
  (select count(*) from reviews v where v.approval_id = p.approval_id and v.decision in ('approve', 'break_glass')) as approving,
  (select count(*) from reviews v where v.approval_id = p.approval_id and v.decision = 'reject') as rejecting,
  (select count(*) from reviews v where v.approval_id = p.approval_id and v.decision = 'send_back') as sending_back,
  (select count(*) from authorizations a where a.approval_id = p.approval_id) as authorizations,
  (select count(*) from audit_events a where a.run_id = p.run_id and a.detail->>'approval_id' = p.approval_id::text
    and a.to_state in ('approved', 'failed_terminal', 'processing')) as final_audits,
  (select count(*) from event_log l where l.run_id = p.run_id and l.subject ~ '\.approval\.decided$'
    and convert_from(l.payload, 'UTF8')::jsonb #>> '{data,approval_id}' = p.approval_id::text
    and convert_from(l.payload, 'UTF8')::jsonb #>> '{data,final}' = 'true') as final_events,
  (select count(*) from approval_tokens t where t.approval_id = p.approval_id and t.spent_at is null) as live_tokens
from approvals p order by p.requested_at`

const noticeFactsSQL = `
select p.run_id, n.approval_id, n.channel || ' ' || n.recipient as address, n.state,
  coalesce(n.sent_at < least(p.decided_at, p.decide_by), false) as timely
from notifications n join approvals p using (approval_id)`

const tokenFactsSQL = `select token_hash as hash, approval_id, recipient as address from approval_tokens`

// read reads what Postgres says, in the transaction that reads the rest.
func (p *people) read(ctx context.Context, tx pgx.Tx) (err error) {
	if p.approvals, err = rowsOf(ctx, tx, pgx.RowToStructByName[approvalFact], approvalFactsSQL); err != nil {
		return err
	}
	if p.notices, err = rowsOf(ctx, tx, pgx.RowToStructByName[noticeFact], noticeFactsSQL); err != nil {
		return err
	}
	p.tokens, err = rowsOf(ctx, tx, pgx.RowToStructByName[tokenFact], tokenFactsSQL)
	return err
}

// gatherMessages reads what reached people, and looks for its tokens in Postgres.
func (w *world) gatherMessages(ctx context.Context, p *people) (err error) {
	if p.messages, err = w.messages(ctx); err != nil {
		return err
	}
	p.leaks, err = w.leaks(ctx, p.messages)
	return err
}

// Channels of the example configuration.
const (
	mailChannel = "support-mail"
	deskChannel = "help-desk"
)

// toldAlone begins the messages that decide nothing, and so have no token: somebody has approved alone.
const toldAlone = "Somebody has approved alone"

func (w *world) messages(ctx context.Context) ([]messageFact, error) {
	mails, err := w.provider.Mail(ctx, "")
	if err != nil {
		return nil, err
	}
	hooks, err := w.provider.Hooks(ctx, deskChannel)
	if err != nil {
		return nil, err
	}
	var all []messageFact
	for _, m := range mails {
		if strings.Contains(m.Text, toldAlone) {
			continue
		}
		all = append(all, messageFact{Token: tokenIn(m.Text), Address: mailChannel + " " + strings.Join(m.To, ", ")})
	}
	for _, h := range hooks {
		if strings.Contains(string(h.Body), toldAlone) {
			continue
		}
		link, err := linkOf(h)
		if err != nil {
			return nil, err
		}
		all = append(all, messageFact{Token: tokenIn(link), Address: deskChannel + " "})
	}
	return all, nil
}

func linkOf(h sandbox.Hook) (string, error) {
	var body struct{ Data struct{ Link string } }
	if err := json.Unmarshal(h.Body, &body); err != nil {
		return "", fmt.Errorf("read a webhook: %w", err)
	}
	return body.Data.Link, nil
}

const tablesSQL = `
select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition order by 1`

const holdingSQL = `
select count(*) from %s t where exists (select from unnest($1::text[]) as f(form) where position(form in t::text) > 0)`

// leaks are the tables of which a row, read as text, holds a token as it was sent. Bytes read as hex.
func (w *world) leaks(ctx context.Context, messages []messageFact) (found []string, err error) {
	var forms []string
	for _, m := range messages {
		if m.Token != "" {
			forms = append(forms, m.Token, hex.EncodeToString([]byte(m.Token)))
		}
	}
	err = pgx.BeginTxFunc(ctx, w.db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		tables, err := rowsOf(ctx, tx, pgx.RowTo[string], tablesSQL)
		for _, table := range tables {
			var rows int
			if err := tx.QueryRow(ctx, fmt.Sprintf(holdingSQL, table), forms).Scan(&rows); err != nil {
				return fmt.Errorf("look for tokens in %s: %w", table, err)
			}
			if rows > 0 {
				found = append(found, fmt.Sprintf("%d rows of %s", rows, table))
			}
		}
		return err
	})
	return found, err
}
