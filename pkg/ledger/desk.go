package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// DeskKinds are the kinds of what waits for an operator, the most urgent first: EffectUnknown, EffectAccepted past its deadline, or why
// the effect is held (R6).
var DeskKinds = []string{EffectUnknown, HoldIncident, HoldMismatch, HoldUnauthorized, HoldExhausted, HoldDisputed, HoldRecalled,
	EffectAccepted}

// DeskScope is what somebody may see of a tenant's desk.
type DeskScope struct {
	TenantID   string
	ActionType string // "" is all of them
}

// DeskFilter narrows the desk. The zero value of a field but Scopes does not narrow.
type DeskFilter struct {
	Scopes    []DeskScope
	Kind      string // one of DeskKinds
	Connector string
	// UnknownFor and AcceptedFor leave out what is younger: the reconciler is about to settle it. What it has put off for long is the
	// desk's at once.
	UnknownFor, AcceptedFor time.Duration
	ByAmount                bool // the most comes first, whatever its currency; else the oldest
	After                   *DeskMark
	Limit                   int // at most so many; less than 1 is DefaultListed
}

// DeskMark is a place in a list of one order.
type DeskMark struct {
	Amount      string // "0" where there is none
	Since       time.Time
	OperationID string
}

// DeskItem is one effect that a person has to settle.
type DeskItem struct {
	EffectKey
	Key           string
	CorrelationID string
	ActionType    string
	Connector     string
	Operation     string
	TargetSystem  string
	TargetRecord  string
	Kind          string // one of DeskKinds where it waits, else its state
	State         string
	HoldReason    string
	Since         time.Time // when it became unknown, succeeded, or was held
	Attempts      int
	Lookups       int
	LastClass     string // of the last attempt, "" where it never reported
	LastDetail    string
	LastVerdict   string // of the last lookup
	ExecuteBy     time.Time
	ExternalID    string
	MaybeSent     bool
	FirstSentAt   time.Time // the zero time where nothing may have been sent
	Amount        string    // what the intent moves, a plain decimal; "" where it has no amount and currency
	Currency      string
	Now           time.Time // the database's clock
}

// Mark is where the item stands in a list.
func (i *DeskItem) Mark() DeskMark {
	amount := i.Amount
	if amount == "" {
		amount = "0"
	}
	return DeskMark{amount, i.Since, i.OperationID()}
}

// Seen names what a resolution is about: it changes with the state and with each attempt, but not with a lookup.
func (i *DeskItem) Seen() string { return seenOf(i.Kind, i.Attempts) }

func seenOf(kind string, attempts int) string { return fmt.Sprintf("%s.%d", kind, attempts) }

// Waits reports whether a person can settle it now.
func (i *DeskItem) Waits() bool {
	return i.HoldReason != HoldReview && (effectMove("confirm_done").Allowed(i.State))
}

// columns are where deskColumns are read into.
func (i *DeskItem) columns(firstSent **time.Time) []any {
	return []any{&i.TenantID, &i.RunID, &i.Revision, &i.Ordinal, &i.Key, &i.CorrelationID, &i.ActionType, &i.Connector, &i.Operation,
		&i.TargetSystem, &i.TargetRecord, &i.Kind, &i.State, &i.HoldReason, &i.Since, &i.Attempts, &i.Lookups, &i.LastClass, &i.LastDetail,
		&i.LastVerdict, &i.ExecuteBy, &i.ExternalID, &i.MaybeSent, firstSent, &i.Amount, &i.Currency, &i.Now}
}

// Desk lists what waits for an operator.
func (l *Ledger) Desk(ctx context.Context, f DeskFilter) ([]DeskItem, error) {
	sql, args, err := f.query()
	if err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, sql, args...)
	if err == nil {
		var list []DeskItem
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i DeskItem, err error) {
			var firstSent *time.Time
			err = row.Scan(i.columns(&firstSent)...)
			i.FirstSentAt = orZero(firstSent)
			return i, err
		})
		if err == nil {
			return list, nil
		}
	}
	return nil, unread("list what waits for an operator", err)
}

// DeskSum is what waits of one kind, action type, connector and currency of a tenant.
type DeskSum struct {
	TenantID   string
	Kind       string
	ActionType string
	Connector  string
	Currency   string // "" where the intents move no amount
	Count      int
	Oldest     time.Time // since when the oldest waits
	Amount     string    // exact sum, "" without a currency
	Now        time.Time // the database's clock
}

// DeskSums counts and adds up what the filter leaves, whatever its order, place and limit (R9).
func (l *Ledger) DeskSums(ctx context.Context, f DeskFilter) ([]DeskSum, error) {
	sql, args := f.sums()
	rows, err := l.pool.Query(ctx, sql, args...)
	if err == nil {
		var sums []DeskSum
		if sums, err = pgx.CollectRows(rows, pgx.RowToStructByPos[DeskSum]); err == nil {
			return sums, nil
		}
	}
	return nil, unread("add up what waits for an operator", err)
}

// DeskCase is all that is known about one effect.
type DeskCase struct {
	DeskItem
	IntentHash  canonical.Digest
	Canonical   []byte // the snapshot that was authorized, and nothing else is sent (A11)
	Source      string
	RequestedBy string // as the event says it
	SentBy      string // the credential that brought the event in
	CorrectedBy string // whoever made the correction that it is, "" where it is none
	RunState    string
	Tried       []DeskAttempt
	Looks       []DeskLookup
	Resolutions []ResolutionView // the latest first
	Told        []DeskEvent      // what the provider has told by itself about it (R4): the last 100, in the order in which they came
}

// DeskEvent is one event of a provider's that is about the effect.
type DeskEvent struct {
	EventID       string    `json:"event_id"`
	ReceivedAt    time.Time `json:"received_at"`
	Status        string    `json:"status"` // as the provider words it
	Verdict       string    `json:"verdict"`
	State         string    `json:"state"`
	ExternalID    string    `json:"external_id"` // as the event names it, "" where it does not; likewise the next
	RecordVersion string    `json:"record_version"`
	Detail        string    `json:"detail"` // why it moved nothing, or what it moved
}

// DeskAttempt is one attempt. Class and what follows are empty while nobody knows what came of it.
type DeskAttempt struct {
	Attempt           int        `json:"attempt"`
	StartedAt         time.Time  `json:"started_at"`
	FinishedAt        *time.Time `json:"finished_at"`
	Class             string     `json:"class"`
	Sent              bool       `json:"sent"`
	HTTPStatus        int        `json:"http_status"` // 0 where there was no answer
	ExternalID        string     `json:"external_id"`
	ProviderRequestID string     `json:"provider_request_id"`
	RequestDigest     string     `json:"request_digest"` // hex SHA-256
	Detail            string     `json:"detail"`
}

// DeskLookup is one read of the provider.
type DeskLookup struct {
	Lookup     int       `json:"lookup"`
	LookedAt   time.Time `json:"looked_at"`
	Verdict    string    `json:"verdict"`
	Conclusive bool      `json:"conclusive"`
	ExternalID string    `json:"external_id"`
	Evidence   string    `json:"evidence"`
}

// ErrNoOperation means that no effect has that operation id.
var ErrNoOperation = errors.New("there is no such operation")

// DeskCase reads one effect, whatever its tenant and state: who may see it is the caller's to check.
func (l *Ledger) DeskCase(ctx context.Context, operationID string) (*DeskCase, error) {
	run, revision, ordinal, err := ParseOperationID(operationID)
	if err != nil {
		return nil, ErrNoOperation
	}
	var c DeskCase
	var firstSent *time.Time
	var hash, tried, looks, resolutions, told []byte
	err = l.pool.QueryRow(ctx, deskCaseSQL, run, revision, ordinal).Scan(append(c.columns(&firstSent), &hash, &c.Canonical, &c.Source,
		&c.RequestedBy, &c.SentBy, &c.CorrectedBy, &c.RunState, &tried, &looks, &resolutions, &told)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoOperation
	}
	if err != nil {
		return nil, unread("read operation "+operationID, err)
	}
	c.FirstSentAt = orZero(firstSent)
	copy(c.IntentHash[:], hash)
	err = errors.Join(json.Unmarshal(tried, &c.Tried), json.Unmarshal(looks, &c.Looks), json.Unmarshal(resolutions, &c.Resolutions),
		json.Unmarshal(told, &c.Told))
	return &c, err
}

// ResolutionView is one resolution as people are shown it.
type ResolutionView struct {
	ID          uuid.UUID  `json:"resolution_id"`
	Move        string     `json:"move"`
	ExternalID  string     `json:"external_id"`
	Evidence    string     `json:"evidence"`
	Reason      string     `json:"reason"`
	Seen        string     `json:"seen"`
	Issuer      string     `json:"by_issuer"`
	Subject     string     `json:"by_subject"`
	By          string     `json:"by_id"`
	Channel     string     `json:"channel"`
	ProposedAt  time.Time  `json:"proposed_at"`
	LapsesAt    *time.Time `json:"lapses_at"` // nil where nobody else was needed
	WithdrawnAt *time.Time `json:"withdrawn_at"`
	WithdrawnBy *string    `json:"withdrawn_by"`
	Second      *string    `json:"second_id"`
	SecondSaid  *string    `json:"second_reason"`
	MadeAt      *time.Time `json:"made_at"`
}

// Stands reports whether it is a proposal that a second person can confirm, of an effect as it is.
func (v *ResolutionView) Stands(seen string, now time.Time) bool {
	return v.MadeAt == nil && v.WithdrawnAt == nil && v.Seen == seen && v.LapsesAt != nil && now.Before(*v.LapsesAt)
}

// Proposal is the one that waits for a second person, nil where none does.
func (c *DeskCase) Proposal() *ResolutionView {
	for i := range c.Resolutions {
		if c.Resolutions[i].Stands(c.Seen(), c.Now) {
			return &c.Resolutions[i]
		}
	}
	return nil
}

// Last is the latest resolution that was made, nil where none was.
func (c *DeskCase) Last() *ResolutionView {
	for i := range c.Resolutions {
		if c.Resolutions[i].MadeAt != nil {
			return &c.Resolutions[i]
		}
	}
	return nil
}
