package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// natsDoor consumes one tenant's ingress stream.
type natsDoor struct {
	in *Intake
	t  *tenant
}

// Run consumes until the context ends, then commits and acknowledges what it holds.
func (d natsDoor) Run(ctx context.Context) error {
	return bus.Consume(ctx, d.in.env.Bus, bus.ConsumeConfig{
		Service: ledger.Intake, Stream: bus.IngressStream(d.t.ID), Durable: bus.IntakeConsumer, Logger: d.in.env.Log,
		Handle: d.handle, IdleWait: d.in.settings.idleWait,
	})
}

// fetched is a batch of a tenant's events on its way. Its lists name items by their place.
type fetched struct {
	items    []bus.Item
	verdicts []bus.Verdict
	claims   []ledger.Claim
	claimed  []int // the items of claims
	refused  []refusal
}

// refusal is an item that becomes no run. detail is what its publisher is told; an operator may see more.
type refusal struct {
	item    int
	problem *contracts.Problem
	detail  string
}

// handle claims a fetched batch. What cannot be admitted is parked and told to the tenant; everything is acknowledged
// and answered only after its commit (BUS-04). Which run an event belongs to is decided by its key alone, never by ids
// or delivery counts of the broker (B2).
func (d natsDoor) handle(ctx context.Context, items []bus.Item) []bus.Verdict {
	b := &fetched{items: items, verdicts: make([]bus.Verdict, len(items))}
	for i := range items {
		claim, problem := d.admit(&items[i])
		if problem != nil && problem.Code == contracts.CodeUnavailable {
			continue // nothing is wrong with the event: it comes again
		}
		if problem != nil {
			b.refused = append(b.refused, refusal{i, problem, problem.Detail})
			continue
		}
		b.claims, b.claimed = append(b.claims, claim), append(b.claimed, i)
	}
	d.claim(ctx, b)
	d.park(ctx, b)
	return b.verdicts
}

// admit reads a message of the tenant's. Nobody else's can be here: the broker keeps each tenant in an account of its
// own, with what it writes at the tenant's request (B7).
func (d natsDoor) admit(item *bus.Item) (ledger.Claim, *contracts.Problem) {
	s, problem := d.t.source(lastToken(item.Subject))
	if problem != nil {
		return ledger.Claim{}, problem
	}
	delivered := &delivery{raw: item.Data, headers: newHeaders(item.Header), taken: item.Stored}
	if len(delivered.headers[headerOwner]) > 0 {
		return ledger.Claim{}, newProblem(contracts.CodeForbidden,
			"A lease is claimed over HTTP or request/reply, not by publishing.")
	}
	return d.t.admit(s, delivered)
}

// claim stores what was admitted. What meets an outage stays in the stream.
func (d natsDoor) claim(ctx context.Context, b *fetched) {
	if len(b.claims) == 0 {
		return
	}
	answers, err := service.Waking(d.in.env, d.in.env.Ledger.Claim)(ctx, b.claims)
	if err != nil {
		d.in.env.Log.Error("events could not be stored now; they stay in the stream",
			"tenant", d.t.ID, "events", len(b.claims), "error", err)
		return
	}
	for n, i := range b.claimed {
		switch err := answers[n].Err; {
		case err == nil:
			d.reply(ctx, &b.items[i], d.in.claimed(ctx, answers[n], nil, uuid.Nil))
			b.verdicts[i] = bus.Ack
		case errors.Is(err, ledger.ErrNoOriginal), errors.Is(err, ledger.ErrOriginalOpen):
			problem := uncorrectable(err)
			b.refused = append(b.refused, refusal{i, problem, problem.Detail})
		case errors.Is(err, ledger.ErrStaleRules) || b.items[i].NumDelivered <= bus.ParkAfter:
			d.in.env.Log.Warn("an event could not be stored; it comes again",
				"tenant", d.t.ID, "delivery", b.items[i].NumDelivered, "error", err)
		default:
			problem := newProblem(contracts.CodeInternal, "The event could not be stored; an operator has it.")
			b.refused = append(b.refused, refusal{i, problem, err.Error()})
		}
	}
}

// park keeps what was refused where an operator sees it (B5), and tells the publishers.
func (d natsDoor) park(ctx context.Context, b *fetched) {
	if len(b.refused) == 0 {
		return
	}
	rows := make([]ledger.Parked, len(b.refused))
	for n, r := range b.refused {
		rows[n] = d.parked(&b.items[r.item], r)
	}
	if err := d.in.env.Ledger.Park(ctx, rows); err != nil {
		d.in.env.Log.Error("refused events could not be parked now; they stay in the stream",
			"tenant", d.t.ID, "error", err)
		return
	}
	d.in.env.Log.Warn("events were refused and parked",
		"tenant", d.t.ID, "events", len(rows), "first", rows[0].Reason, "detail", rows[0].Detail)
	for _, r := range b.refused {
		d.reply(ctx, &b.items[r.item], refuse(r.problem))
		b.verdicts[r.item] = bus.Ack
	}
}

// maxMessageID bounds what of a publisher's id is told back, in bytes.
const maxMessageID = 255

func (d natsDoor) parked(item *bus.Item, r refusal) ledger.Parked {
	sent := newHeaders(item.Header)
	id, _ := sent.one("Nats-Msg-Id")
	key, _ := sent.one("Idempotency-Key")
	if id = sound(id); id == "" || len(id) > maxMessageID {
		id = fmt.Sprintf("%s:%d", item.Stream, item.StreamSeq)
	}
	return ledger.Parked{Message: item.Place(), Consumer: ledger.Intake, TenantID: d.t.ID, Subject: item.Subject, Reason: r.problem.Code,
		Detail: clip(r.detail), Headers: sent.parked(), Body: item.Data, Deliveries: item.NumDelivered,
		Refusal: &contracts.RunRefused{TenantID: d.t.ID, Source: clip(lastToken(item.Subject)), Reason: r.problem.Code,
			MessageID: id, Detail: r.problem.Detail, IdempotencyKey: clip(key)}}
}

// reply counts an answer and sends it to a publisher that asked to be told (K14). Nobody may be listening; the event
// stream tells it as well.
func (d natsDoor) reply(ctx context.Context, item *bus.Item, r reply) {
	d.in.counters.answer(ctx, counted{d.t.ID, doorNATS, "event", r.result})
	if item.ReplySubject == "" {
		return
	}
	if err := d.in.env.Bus.Reply(d.t.ID, item.ReplySubject, r.encode()); err != nil {
		d.in.env.Log.Warn("an answer could not be sent", "tenant", d.t.ID, "error", err)
	}
}
