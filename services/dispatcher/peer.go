package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
)

// peerSubject is where one replica answers the others: holdpoint.exec-instance.<instance>.<verb>.<tenant>.<connector>. No
// tenant may publish there, and no stream takes it.
func peerSubject(instance uuid.UUID, verb, tenant, connector string) string {
	return "holdpoint.exec-instance." + instance.String() + "." + verb + "." + tenant + "." + connector
}

// peerDoor answers for this replica what others were asked.
type peerDoor struct{ d *Dispatcher }

// Run serves until the context ends.
func (p peerDoor) Run(ctx context.Context) error {
	at := func(verb *executorVerb) string { return peerSubject(p.d.executors.instance, verb.name, "*", "*") }
	return bus.Serve(ctx, p.d.env.Bus, bus.ServeConfig{
		Name: "holdpoint-exec-instance", Version: executorVersion, Description: "What other replicas were asked",
		Endpoints: []bus.Endpoint{
			{Name: leaveVerb.name, Subject: at(&leaveVerb), Handle: p.answers(&leaveVerb)},
			{Name: receiptVerb.name, Subject: at(&receiptVerb), Handle: p.answers(&receiptVerb)},
		},
		Overloaded: overloaded, DrainTimeout: doorDrain, Logger: p.d.env.Log,
	})
}

func (p peerDoor) answers(verb *executorVerb) func(context.Context, bus.Request) bus.Reply {
	return func(ctx context.Context, r bus.Request) bus.Reply {
		parts := strings.Split(r.Subject, ".")
		w := &words{tenant: parts[len(parts)-2], connector: parts[len(parts)-1], text: r.Data}
		if problem := w.read(verb); problem != nil {
			return reply(nil, problem)
		}
		return reply(p.d.here(ctx, verb, w))
	}
}

// forward asks the replica that made the command. What it answers is the answer.
func (d *Dispatcher) forward(ctx context.Context, verb *executorVerb, w *words) (any, *contracts.Problem) {
	asking, cancel := context.WithTimeout(ctx, verb.within)
	defer cancel()
	text, err := d.executors.peers.Request(asking, peerSubject(w.token.instance, verb.name, w.tenant, w.connector), w.text)
	if err == nil && !json.Valid(text) {
		err = errors.New("its answer cannot be read")
	}
	if err != nil {
		d.env.Log.Warn("the dispatcher that made a command does not answer", "operation", w.token.operation,
			"attempt", w.token.attempt, "asked", verb.name, "error", err)
		return verb.gone(ctx, d, w)
	}
	var problem contracts.Problem
	if json.Unmarshal(text, &problem) == nil && problem.Code != "" {
		return nil, &problem
	}
	return json.RawMessage(text), nil
}
