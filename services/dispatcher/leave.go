package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// executorVersion is the version of the request/reply interface of executors.
const executorVersion = "1.0.0"

// executorDoor answers one tenant's executors, on every replica.
type executorDoor struct {
	d      *Dispatcher
	tenant string
}

// Run serves until the context ends.
func (e executorDoor) Run(ctx context.Context) error {
	subject := func(verb string) string { return bus.APISubject(e.tenant, verb) }
	return bus.Serve(ctx, e.d.env.Bus, bus.ServeConfig{
		Name: "holdpoint-exec-" + e.tenant, Version: executorVersion,
		Description: "Leave and receipts of executors of tenant " + e.tenant, Tenant: e.tenant,
		Endpoints: []bus.Endpoint{
			{Name: leaveVerb.name, Subject: subject("leave.*"), Handle: e.answers(&leaveVerb)},
			{Name: receiptVerb.name, Subject: subject("receipt.*"), Handle: e.answers(&receiptVerb)},
		},
		Overloaded: overloaded, DrainTimeout: doorDrain, Logger: e.d.env.Log,
	})
}

func (e executorDoor) answers(verb *executorVerb) func(context.Context, bus.Request) bus.Reply {
	return func(ctx context.Context, r bus.Request) bus.Reply {
		connector := r.Subject[strings.LastIndexByte(r.Subject, '.')+1:]
		return reply(e.d.answer(ctx, verb, &words{tenant: e.tenant, connector: connector, text: r.Data}))
	}
}

// doorDrain is how long the doors wait for answers at the end, when all that they could wait for has been stored.
const doorDrain = 2 * time.Second

var overloaded = reply(nil, contracts.NewProblem(contracts.CodeUnavailable, "Send it again."))

// reply is an answer as NATS carries it, as intake's doors give it.
func reply(body any, problem *contracts.Problem) bus.Reply {
	if problem == nil {
		text, _ := json.Marshal(body) // answers are structs of texts and numbers
		return bus.Reply{Header: map[string]string{"Content-Type": "application/json"}, Data: text}
	}
	text, _ := json.Marshal(problem)
	return bus.Reply{
		Header: map[string]string{"Content-Type": contracts.ProblemContentType}, Data: text,
		ErrorCode: strconv.Itoa(problem.Status), Error: fmt.Sprintf("%s (%s)", problem.Title, problem.Code),
	}
}

// answer takes an executor's words to the replica that waits for them.
func (d *Dispatcher) answer(ctx context.Context, verb *executorVerb, w *words) (any, *contracts.Problem) {
	if problem := w.read(verb); problem != nil {
		return nil, problem
	}
	if t := d.targets[w.tenant+"/"+w.connector]; t == nil || !t.declared.Executor() {
		return nil, contracts.NewProblem(contracts.CodeNotFound, "There is no such connector of kind executor.")
	}
	if w.token.instance != d.executors.instance {
		return d.forward(ctx, verb, w)
	}
	return d.here(ctx, verb, w)
}

// here answers at the replica that made the command.
func (d *Dispatcher) here(ctx context.Context, verb *executorVerb, w *words) (any, *contracts.Problem) {
	c := d.executors.find(w.token)
	if c != nil && (c.tenant != w.tenant || c.connector != w.connector) {
		return nil, foreignToken()
	}
	ctx, cancel := context.WithTimeout(ctx, verb.within)
	defer cancel()
	return verb.handle(ctx, d, c, w)
}

// openDoors answers executors until the returned function is called: longer than the context lasts, since calls in flight
// are waited for. The new context ends with the old one, or when a door fails.
func (d *Dispatcher) openDoors(ctx context.Context) (context.Context, func() error) {
	tenants := tenantsWithExecutors(d.env.Config)
	if len(tenants) == 0 {
		return ctx, func() error { return nil }
	}
	parts := []service.Named{{Name: "executors of this replica", Runner: peerDoor{d}}}
	for _, tenant := range tenants {
		parts = append(parts, service.Named{Name: "executors of " + tenant, Runner: executorDoor{d, tenant}})
	}
	ctx, failed := context.WithCancel(ctx)
	open, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		defer failed()
		ended <- service.RunAll(open, d.env.Log, 2*doorDrain, parts...)
	}()
	return ctx, func() error {
		end()
		return <-ended
	}
}

func tenantsWithExecutors(c *config.Config) []string {
	var ids []string
	for _, t := range c.Tenants {
		for _, k := range t.Connectors {
			if k.Executor() {
				ids = append(ids, t.ID)
				break
			}
		}
	}
	return ids
}

// foreignToken refuses a token that is none of this tenant's and connector's.
func foreignToken() *contracts.Problem {
	return contracts.NewProblem(contracts.CodeForbidden,
		"The token is not one of a command of this connector. Send it as it came.")
}

// problemOf is the problem that an error is, or the one that says that it may be asked again.
func problemOf(err error) *contracts.Problem {
	var problem *contracts.Problem
	if errors.As(err, &problem) {
		return problem
	}
	return contracts.NewProblem(contracts.CodeUnavailable, "It could not be stored now. Send it again.")
}
