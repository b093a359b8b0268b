package intake

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// apiVersion is the version of the request/reply interface.
const apiVersion = "1.0.0"

// microDoor answers one tenant's requests over NATS, for integrators without HTTP: the same verbs, bodies and answers,
// given after the commit. Who may call is the broker's business: a tenant's credentials reach its own subjects alone
// (B7).
type microDoor struct {
	in *Intake
	t  *tenant
}

// Run serves until the context ends, then answers what it has taken.
func (d microDoor) Run(ctx context.Context) error {
	subject := func(verb string) string { return bus.APISubject(d.t.ID, verb) }
	endpoints := []bus.Endpoint{
		{Name: "claim", Subject: subject("claim.*"), Handle: d.counted("claim", d.delivered(d.in.claim))},
		{Name: "work", Subject: subject("work.*"), Handle: d.counted("work", d.delivered(d.in.work))},
		{Name: "get", Subject: subject("get"), Handle: d.counted("get", d.get)},
	}
	for _, verb := range []*workerVerb{&renewal, &submission, &giveUp} {
		endpoints = append(endpoints, bus.Endpoint{Name: verb.name, Subject: subject(verb.name),
			Handle: d.counted(verb.name, func(ctx context.Context, r bus.Request) reply {
				return d.in.own(ctx, d.t, "", &delivery{raw: r.Data, headers: newHeaders(r.Header)}, verb)
			})})
	}
	return bus.Serve(ctx, d.in.env.Bus, bus.ServeConfig{
		Name: "holdpoint-" + d.t.ID, Version: apiVersion, Description: "Leases and runs of tenant " + d.t.ID,
		Tenant: d.t.ID, Endpoints: endpoints, Overloaded: overBus(refuse(newProblem(contracts.CodeUnavailable, "Send it again."))),
		Logger: d.in.env.Log,
	})
}

// microHandler answers a request of the door's tenant.
type microHandler func(context.Context, bus.Request) reply

func (d microDoor) counted(verb string, answer microHandler) func(context.Context, bus.Request) bus.Reply {
	return func(ctx context.Context, request bus.Request) bus.Reply {
		r, over := d.t.overRate(1)
		if !over {
			r = answer(ctx, request)
		}
		d.in.counters.answer(ctx, counted{d.t.ID, doorMicro, verb, r.result})
		return overBus(r)
	}
}

// delivered reads what is about the source that ends the subject.
func (d microDoor) delivered(take func(context.Context, *tenant, *source, *delivery) reply) microHandler {
	return func(ctx context.Context, r bus.Request) reply {
		s, problem := d.t.source(lastToken(r.Subject))
		if problem != nil {
			return refuse(problem)
		}
		return take(ctx, d.t, s, &delivery{raw: r.Data, headers: newHeaders(r.Header)})
	}
}

// get tells where a run stands. Body: {"run_id"} or {"key"}.
func (d microDoor) get(ctx context.Context, r bus.Request) reply {
	body, err := canonical.Parse(r.Data)
	if err != nil {
		return refuse(newProblem(contracts.CodeMalformed, err.Error()))
	}
	if problem := knownMembers(body, []string{"run_id", "key"}); problem != nil {
		return refuse(problem)
	}
	key, text := textOf(body, "key"), textOf(body, "run_id")
	if (key == "") == (text == "") {
		return refuse(newProblem(contracts.CodeSchemaInvalid, `Ask for a run by its "run_id" or by its "key".`))
	}
	if key != "" {
		return d.in.get(ctx, d.t, ledger.RunID(d.t.ID, key))
	}
	id, problem := runID(text)
	if problem != nil {
		return refuse(problem)
	}
	return d.in.get(ctx, d.t, id)
}

// overBus is a reply as NATS carries it. The status is an error code only where it is one.
func overBus(r reply) bus.Reply {
	out := bus.Reply{Header: map[string]string{"Content-Type": r.contentType}, Data: r.encode()}
	if r.retryAfter != "" {
		out.Header["Retry-After"] = r.retryAfter
	}
	if p, isProblem := r.body.(*contracts.Problem); isProblem {
		out.ErrorCode, out.Error = strconv.Itoa(p.Status), fmt.Sprintf("%s (%s)", p.Title, p.Code)
	}
	return out
}

// lastToken is what follows the last dot of a subject.
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
