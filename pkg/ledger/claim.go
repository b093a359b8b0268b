package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Claim asks for the run of one delivered event (K2).
type Claim struct {
	CommandID     uuid.UUID // random per delivery; a repeated command finds that it had won
	TenantID      string
	Key           string // 1 to 255 bytes
	PreviousKey   string // the key under the rules that are being replaced, or "" (K15)
	Source        string
	RulesVersion  int
	PayloadHash   canonical.Digest
	HashVersion   int
	HashUnder     func(rulesVersion int) (canonical.Digest, error) // the payload's hash under older rules (K15)
	Payload       []byte                                           // as received, byte for byte (K12)
	ContentType   string
	Headers       map[string]string
	CorrelationID string
	TraceParent   string
	RequestedBy   string      // the person who asked, as the event says it; "" where it does not
	SentBy        string      // the credential that brought it in
	Callback      string      // where to call when the run has ended; "" asks for no call
	Corrects      *Correction // nil where the event corrects no other
	Lease         *LeaseTerms // a worker wants to own the run
	Intent        *Intent     // the event carried its proposal
}

// LeaseTerms are what a worker asks for (K7).
type LeaseTerms struct {
	Owner       uuid.UUID // random per execution
	Duration    time.Duration
	MaxLifetime time.Duration
}

// Correction says that an event mends an earlier one, which has ended and stays as it is (K10).
type Correction struct {
	Key    string // the earlier event's idempotency key
	By     string // who answers for the correction
	Reason string
}

// left is what a new lease has left, in seconds.
func (t *LeaseTerms) left() *float64 {
	left := min(t.Duration, t.MaxLifetime).Seconds()
	return &left
}

// Intent is the immutable canonical snapshot of a proposal (A11).
type Intent struct {
	Revision   int // from 1
	Canonical  []byte
	Hash       canonical.Digest // of Canonical
	ActionType string
	Model      []byte // JSON: provider class, model, revision (M5)
	NearHash   []byte // alike for intents that want nearly the same (K13); nil where the type does not ask for it
}

// Claimed is the answer to one claim, in the order of the claims.
type Claimed struct {
	Result   string // a contracts.Result…
	Run      Run
	TookOver bool  // the claimant took the run from a worker whose lease had ended (K7)
	Err      error // this item alone could not be stored; Result is empty
}

// ErrStaleRules means that a newer version of the source's rules is active: this replica would claim under keys that its
// neighbours no longer use (K15).
var ErrStaleRules = errors.New("this replica's source rules are older than the active ones; restart it with the current configuration")

// ErrNoOriginal means that a correction names a key that the tenant never had.
var ErrNoOriginal = errors.New("there is no run of the key that the correction names")

// ErrOriginalOpen means that a correction names a run that has not ended: it may still do what it was asked, so nobody can say
// yet what has to be mended (K10).
var ErrOriginalOpen = errors.New("the run that the correction names has not ended")

// ErrKeyCollision means that another key of the tenant has the same 128-bit digest. Nobody can produce that by chance.
var ErrKeyCollision = errors.New("another key has the same digest")

// claim is a Claim on its way through the batch.
type claim struct {
	*Claim
	run      uuid.UUID
	previous *uuid.UUID
	original *uuid.UUID // of a correction
	event    outgoing
	answer   *Claimed
}

// Claim claims the runs of a batch of deliveries: each key once, the others are told where its run stands. The error means
// that nothing is known about any item; a single bad item has its own.
func (l *Ledger) Claim(ctx context.Context, claims []Claim) ([]Claimed, error) {
	answers := make([]Claimed, len(claims))
	items := make([]*claim, 0, len(claims))
	for i := range claims {
		item, err := newClaim(&claims[i], &answers[i])
		if err != nil {
			spoil(item, err)
			continue
		}
		items = append(items, item)
	}
	// The later items of a run can only be losers of the first.
	firsts, others := firstOfEach(inOrder(items, (*claim).key), (*claim).key)
	err := l.command(ctx, "claim", func(ctx context.Context) error {
		return split(firsts, func(batch []*claim) error { return l.claimBatch(ctx, batch) }, spoil)
	})
	if err == nil {
		rest := append(losers(firsts), others...)
		err = l.command(ctx, "claim", func(ctx context.Context) error { return l.answerLosers(ctx, rest) })
	}
	if err == nil {
		err = l.askCallbacks(ctx, items)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func newClaim(c *Claim, answer *Claimed) (*claim, error) {
	item := &claim{Claim: c, run: RunID(c.TenantID, c.Key), answer: answer}
	if c.PreviousKey != "" && c.PreviousKey != c.Key {
		previous := RunID(c.TenantID, c.PreviousKey)
		item.previous = &previous
	}
	if c.Corrects != nil {
		original := RunID(c.TenantID, c.Corrects.Key)
		item.original = &original
	}
	event, err := newOutgoing(c.TenantID, item.run, c.TraceParent, c.firstEvent(item.run))
	item.event = event
	return item, err
}

// firstEvent tells policy of an intent, or workers of a run that waits for one.
func (c *Claim) firstEvent(run uuid.UUID) contracts.Data {
	if c.Intent != nil {
		return &contracts.IntentSubmitted{TenantID: c.TenantID, RunID: run.String(), IntentRevision: c.Intent.Revision,
			IntentHash: c.Intent.Hash.String()}
	}
	return &contracts.RunAccepted{RunRef: c.ref(run), Source: c.Source, PayloadHash: c.PayloadHash.String()}
}

func (c *Claim) ref(run uuid.UUID) contracts.RunRef {
	return contracts.RunRef{TenantID: c.TenantID, RunID: run.String(), IdempotencyKey: c.Key, CorrelationID: c.CorrelationID}
}

func (c *claim) key() runKey { return runKey{c.TenantID, c.run} }

// found is the run that a loser was answered with: its own, or the one that older rules gave its event.
func (c *claim) found() runKey { return runKey{c.TenantID, c.answer.Run.RunID} }

func losers(items []*claim) []*claim {
	return slices.DeleteFunc(slices.Clone(items), func(c *claim) bool { return c.answer.Result != "" || c.answer.Err != nil })
}

func spoil(c *claim, err error) { c.answer.Err = fmt.Errorf("store the event: %w", err) }

// claimBatch inserts what is new. A row that comes back was won by this batch.
func (l *Ledger) claimBatch(ctx context.Context, batch []*claim) error {
	won, err := collect(ctx, l, l.site("claim"), keysOf(batch), scanWon, claimSQL, claimArgs(batch)...)
	if err != nil {
		return err
	}
	for _, w := range won {
		item := batch[w.ord-1]
		item.answer.Result = contracts.ResultAccepted
		item.answer.Run = Run{TenantID: item.TenantID, RunID: item.run, Key: item.Key, Source: item.Source,
			State: RunProcessing, Version: 1, PayloadHash: item.PayloadHash, RulesVersion: item.RulesVersion,
			CorrelationID: item.CorrelationID, IntentRevision: revisionOf(item.Intent), leaseExpiresAt: w.leaseExpiresAt}
		if item.Lease != nil {
			item.answer.Run.LeaseOwner, item.answer.Run.Attempts, item.answer.Run.leaseLeft = item.Lease.Owner, 1, item.Lease.left()
		}
	}
	return nil
}

func keysOf(batch []*claim) []string {
	return column(batch, func(c *claim) string { return c.run.String() })
}

func revisionOf(i *Intent) int {
	if i == nil {
		return 0
	}
	return i.Revision
}
