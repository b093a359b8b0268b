package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// handle claims a fetched batch of a tenant's events. What cannot be admitted is parked and told to the tenant; a delivery is
// acknowledged only after the commit (BUS-04). Which run an event belongs to is decided by its key alone, never by ids or
// delivery counts of the broker (B2).
func (d natsDoor) handle(ctx context.Context, items []bus.Item) []bus.Verdict {
	verdicts := make([]bus.Verdict, len(items))
	var claims []ledger.Claim
	var claimed []int
	var refused []ledger.Parked
	var refusedAt []int
	for i := range items {
		claim, problem := d.admit(&items[i])
		if problem != nil {
			refused, refusedAt = append(refused, d.refusal(&items[i], problem)), append(refusedAt, i)
			d.reply(&items[i], problem)
			continue
		}
		claims, claimed = append(claims, claim), append(claimed, i)
	}
	answers, err := d.claim(ctx, claims)
	for n, i := range claimed {
		if err != nil || retryable(answers[n].Err) {
			continue // the verdict stays Retry
		}
		if answers[n].Err != nil && items[i].NumDelivered <= bus.ParkAfter {
			continue
		}
		if answers[n].Err != nil {
			problem := contracts.NewProblem(contracts.CodeInternal, answers[n].Err.Error())
			refused, refusedAt = append(refused, d.refusal(&items[i], problem)), append(refusedAt, i)
			continue
		}
		answer, problem := d.in.answer(ctx, answers[n], nil, uuid.Nil)
		if problem != nil {
			d.reply(&items[i], problem)
		} else {
			d.reply(&items[i], answer)
		}
		verdicts[i] = bus.Ack
	}
	if d.park(ctx, refused) {
		for _, i := range refusedAt {
			verdicts[i] = bus.Ack
		}
	}
	return verdicts
}

func (d natsDoor) claim(ctx context.Context, claims []ledger.Claim) ([]ledger.Claimed, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	answers, err := d.in.env.Ledger.Claim(ctx, claims)
	if err != nil {
		d.in.env.Log.Error("events could not be stored now; they stay in the stream", "tenant", d.t.ID, "events", len(claims), "error", err)
	}
	return answers, err
}

func retryable(err error) bool {
	return errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrStaleRules)
}

func (d natsDoor) admit(item *bus.Item) (ledger.Claim, *contracts.Problem) {
	name := item.Subject[strings.LastIndexByte(item.Subject, '.')+1:]
	s := d.t.sources[name]
	if s == nil {
		return ledger.Claim{}, contracts.NewProblem(contracts.CodeUnknownSource, fmt.Sprintf("No source is called %q.", name))
	}
	if s.Mode == config.ModeWorker && len(item.Header.Values("Holdpoint-Owner")) > 0 {
		return ledger.Claim{}, contracts.NewProblem(contracts.CodeForbidden, "A lease is claimed over HTTP or request/reply, not by publishing.")
	}
	return d.t.admit(s, &delivery{raw: item.Data, headers: item.Header})
}

func (d natsDoor) refusal(item *bus.Item, problem *contracts.Problem) ledger.Parked {
	id := item.Header.Get("Nats-Msg-Id")
	if id == "" {
		id = fmt.Sprintf("%s:%d", item.Stream, item.StreamSeq)
	}
	source := item.Subject[strings.LastIndexByte(item.Subject, '.')+1:]
	headers := map[string]string{}
	for name, values := range item.Header {
		headers[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
	}
	return ledger.Parked{Consumer: ledger.Intake, TenantID: d.t.ID, Subject: item.Subject, Reason: problem.Code, Detail: problem.Detail,
		Headers: headers, Body: item.Data, Deliveries: item.NumDelivered,
		Refusal: &contracts.RunRefused{TenantID: d.t.ID, Source: source, Reason: problem.Code,
			MessageID: strings.ToValidUTF8(id, "\uFFFD"), Detail: problem.Detail}}
}

func (d natsDoor) park(ctx context.Context, refused []ledger.Parked) bool {
	if len(refused) == 0 {
		return true
	}
	if err := d.in.env.Ledger.Park(ctx, refused); err != nil {
		d.in.env.Log.Error("refused events could not be parked now; they stay in the stream", "tenant", d.t.ID, "error", err)
		return false
	}
	d.in.env.Log.Warn("events were refused and parked", "tenant", d.t.ID, "events", len(refused), "first", refused[0].Reason, "detail", refused[0].Detail)
	return true
}

// reply answers a publisher that asked to be told (K14). Nobody may be listening; the event stream tells it as well.
func (d natsDoor) reply(item *bus.Item, body any) {
	if item.ReplySubject == "" {
		return
	}
	data, err := json.Marshal(body)
	if err == nil {
		err = d.in.env.Bus.Reply(item.ReplySubject, data)
	}
	if err != nil {
		d.in.env.Log.Warn("an answer could not be sent", "tenant", d.t.ID, "error", err)
	}
}
