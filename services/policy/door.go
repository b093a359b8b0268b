package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
)

// handle decides a fetched batch. What cannot be read is parked at once; what cannot be decided comes again, and is
// parked after ParkAfter deliveries (B5).
func (p *Policy) handle(ctx context.Context, items []bus.Item) []bus.Verdict {
	verdicts := make([]bus.Verdict, len(items))
	var refs []ledger.IntentRef
	var readable, toPark []int
	var unprocessable []ledger.Parked
	for i := range items {
		ref, err := readEvent(items[i].Data)
		if err != nil {
			toPark, unprocessable = append(toPark, i), append(unprocessable, parked(&items[i], ref.EventID, err))
			continue
		}
		refs, readable = append(refs, ref), append(readable, i)
	}
	failed, err := p.decide(ctx, refs)
	if err != nil {
		p.env.Log.Error("intents could not be decided now; they come again", "intents", len(refs), "error", err)
		readable = nil
	}
	for n, i := range readable {
		cause := failed[refs[n].EventID]
		switch {
		case cause == nil:
			verdicts[i] = bus.Ack
		case errors.Is(cause, active.ErrUnusable): // nothing is wrong with the event: it waits for a policy (POL-02)
		case items[i].NumDelivered > bus.ParkAfter:
			toPark, unprocessable = append(toPark, i), append(unprocessable, parked(&items[i], refs[n].EventID, cause))
		}
	}
	if p.park(ctx, unprocessable) {
		for _, i := range toPark {
			verdicts[i] = bus.Ack
		}
	}
	return verdicts
}

func (p *Policy) park(ctx context.Context, messages []ledger.Parked) bool {
	if len(messages) == 0 {
		return true
	}
	if err := p.env.Ledger.Park(ctx, messages); err != nil {
		p.env.Log.Error("events that cannot be processed could not be parked now", "error", err)
		return false
	}
	p.env.Log.Error("events that cannot be processed were parked", "events", len(messages), "first", messages[0].Detail)
	return true
}

func parked(item *bus.Item, event uuid.UUID, err error) ledger.Parked {
	return ledger.Parked{
		Message:  item.Place(),
		Consumer: ledger.Policy, Subject: item.Subject, EventID: event, Reason: "unprocessable", Detail: err.Error(),
		Body: item.Data, Deliveries: item.NumDelivered,
	}
}

// readEvent is the intent that an event names. The event's id is returned with an error too, where it can be read.
func readEvent(data []byte) (ref ledger.IntentRef, err error) {
	event, err := contracts.Decode(data)
	if err != nil {
		return ref, err
	}
	if ref.EventID, err = uuid.Parse(event.ID); err != nil {
		return ref, fmt.Errorf("the event's id: %w", err)
	}
	submitted, ok := event.Data.(*contracts.IntentSubmitted)
	if !ok {
		return ref, fmt.Errorf("%s is not for policy", event.Data.Type())
	}
	run, err1 := uuid.Parse(submitted.RunID)
	hash, err2 := canonical.ParseDigest(submitted.IntentHash)
	ref.TenantID, ref.RunID, ref.IntentHash = submitted.TenantID, run, hash
	return ref, errors.Join(err1, err2)
}

// failures are the events whose intent could not be decided, or whose decision could not be stored, and why.
type failures map[uuid.UUID]error

func (p *Policy) fail(failed failures, event uuid.UUID, u *ledger.Undecided, cause error) {
	failed[event] = cause
	p.env.Log.Error("an intent cannot be decided", "tenant", u.TenantID, "run", u.RunID, "error", cause)
}

// rounds bounds how often a batch is decided anew because another version of the policy became active meanwhile. Who activates
// faster than that has the intents come again.
const rounds = 5

// decide reads the intents that still wait, decides them, and stores the decisions. Those that have moved on are done. What was
// decided under a version that was no longer active at the commit is decided again under the one that is (P7).
func (p *Policy) decide(ctx context.Context, refs []ledger.IntentRef) (failures, error) {
	failed := failures{}
	for round := 1; len(refs) > 0; round++ {
		outdated, err := p.decideOnce(ctx, refs, failed)
		if err != nil {
			return nil, err
		}
		if len(outdated) > 0 {
			p.env.Log.Info("another policy became active; deciding again", "intents", len(outdated))
			err = p.policies.Refresh(ctx)
		}
		if len(outdated) > 0 && round == rounds {
			err = errors.Join(err, fmt.Errorf("%d intents: %w, %d times", len(outdated), ledger.ErrOutdatedPolicy, rounds))
		}
		if err != nil {
			return nil, err
		}
		refs = outdated
	}
	return failed, nil
}

// decideOnce returns those whose decision was outdated when it was to be stored.
func (p *Policy) decideOnce(ctx context.Context, refs []ledger.IntentRef, failed failures) ([]ledger.IntentRef, error) {
	waiting, err := p.env.Ledger.Undecided(ctx, refs)
	if err != nil {
		return nil, err
	}
	byRun := make(map[uuid.UUID]*ledger.Undecided, len(waiting))
	for i := range waiting {
		byRun[waiting[i].RunID] = &waiting[i]
	}
	var decisions []ledger.Decision
	asked := make(map[uuid.UUID]ledger.IntentRef, len(refs))
	for _, ref := range refs {
		u := byRun[ref.RunID]
		if u == nil || u.TenantID != ref.TenantID {
			continue
		}
		if d, err := p.decideOne(u, ref.EventID); err != nil {
			p.fail(failed, ref.EventID, u, err)
		} else {
			decisions, asked[ref.EventID] = append(decisions, d), ref
		}
	}
	late, err := p.store(ctx, decisions, failed)
	outdated := make([]ledger.IntentRef, len(late))
	for i, event := range late {
		outdated[i] = asked[event]
	}
	return outdated, err
}

// store returns the events whose decisions were outdated.
func (p *Policy) store(ctx context.Context, decisions []ledger.Decision, failed failures) (outdated []uuid.UUID, err error) {
	if len(decisions) == 0 {
		return nil, nil
	}
	unstored := map[uuid.UUID]bool{}
	_, err = p.env.Ledger.Decide(ctx, decisions, func(d *ledger.Decision, cause error) {
		unstored[d.EventID] = true
		if errors.Is(cause, ledger.ErrOutdatedPolicy) {
			outdated = append(outdated, d.EventID)
			return
		}
		p.fail(failed, d.EventID, d.Intent, fmt.Errorf("its decision cannot be stored: %w", cause))
	})
	if err != nil {
		return nil, err
	}
	p.env.WakeRelay()
	for i := range decisions {
		if !unstored[decisions[i].EventID] {
			p.decided.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", decisions[i].Intent.TenantID),
				attribute.String("route", decisions[i].Route)))
		}
	}
	return outdated, nil
}
