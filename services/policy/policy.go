// Package policy routes intents: it reads what was submitted, decides by the tenant's rules, and stores the decision with all that
// follows from it in one transaction (P2).
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Clocks of an approval for action types that declare none, such as unregistered ones that still reach a person.
const (
	defaultDecideWithin  = 24 * time.Hour
	defaultExecuteWithin = time.Hour
)

// Policy is the service.
type Policy struct {
	env     *service.Env
	tenants map[string]*tenant
	decided metric.Int64Counter
}

type tenant struct {
	*config.Tenant
	engine  *engine.Engine
	actions map[string]*config.Action
}

// New compiles every tenant's rules; an error in any of them refuses the start.
func New(env *service.Env) (*Policy, error) {
	p := &Policy{env: env, tenants: map[string]*tenant{}}
	var problems []error
	for _, declared := range env.Config.Tenants {
		compiled, err := engine.New(declared)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		t := &tenant{Tenant: declared, engine: compiled, actions: map[string]*config.Action{}}
		for _, a := range declared.Actions {
			t.actions[a.Type] = a
		}
		p.tenants[declared.ID] = t
		env.Log.Info("policy loaded", "tenant", declared.ID, "policy_version", declared.PolicyVersion, "rules", len(declared.Rules))
	}
	counter, err := env.Meter.Int64Counter("holdpoint_policy_decisions_total")
	p.decided = counter
	return p, errors.Join(append(problems, err)...)
}

// Run decides until the context ends.
func (p *Policy) Run(ctx context.Context) error {
	return bus.Consume(ctx, p.env.Bus, bus.ConsumeConfig{Service: ledger.Policy, Stream: bus.InternalStream, Durable: bus.PolicyConsumer,
		Handle: p.handle, Logger: p.env.Log})
}

// handle decides a fetched batch.
func (p *Policy) handle(ctx context.Context, items []bus.Item) []bus.Verdict {
	verdicts := make([]bus.Verdict, len(items))
	var refs []ledger.IntentRef
	var at []int
	var unreadable []ledger.Parked
	var unreadableAt []int
	for i := range items {
		ref, err := readEvent(items[i].Data)
		if err != nil {
			unreadable, unreadableAt = append(unreadable, parked(&items[i], err)), append(unreadableAt, i)
			continue
		}
		refs, at = append(refs, ref), append(at, i)
	}
	if len(unreadable) > 0 {
		if err := p.env.Ledger.Park(ctx, unreadable); err != nil {
			p.env.Log.Error("events that cannot be read could not be parked now", "error", err)
		} else {
			p.env.Log.Error("events that cannot be read were parked", "events", len(unreadable), "first", unreadable[0].Detail)
			ack(verdicts, unreadableAt)
		}
	}
	failed, err := p.decide(ctx, refs)
	if err != nil {
		p.env.Log.Error("intents could not be decided now; they come again", "intents", len(refs), "error", err)
		return verdicts
	}
	for n, i := range at {
		if !failed[refs[n].EventID] {
			verdicts[i] = bus.Ack
		} else if items[i].NumDelivered > bus.ParkAfter && p.env.Ledger.Park(ctx, []ledger.Parked{parked(&items[i], errNotStorable)}) == nil {
			verdicts[i] = bus.Ack
		}
	}
	return verdicts
}

var errNotStorable = errors.New("the decision cannot be stored; the log says why")

func ack(verdicts []bus.Verdict, at []int) {
	for _, i := range at {
		verdicts[i] = bus.Ack
	}
}

func readEvent(data []byte) (ledger.IntentRef, error) {
	event, err := contracts.Decode(data)
	if err != nil {
		return ledger.IntentRef{}, err
	}
	submitted, ok := event.Data.(*contracts.IntentSubmitted)
	if !ok {
		return ledger.IntentRef{}, fmt.Errorf("%s is not for policy", event.Data.Type())
	}
	id, err1 := uuid.Parse(event.ID)
	run, err2 := uuid.Parse(submitted.RunID)
	hash, err3 := canonical.ParseDigest(submitted.IntentHash)
	return ledger.IntentRef{EventID: id, TenantID: submitted.TenantID, RunID: run, IntentHash: hash}, errors.Join(err1, err2, err3)
}

func parked(item *bus.Item, err error) ledger.Parked {
	p := ledger.Parked{Consumer: ledger.Policy, Subject: item.Subject, Reason: "unprocessable", Detail: err.Error(), Body: item.Data,
		Deliveries: item.NumDelivered}
	if event, decodeErr := contracts.Decode(item.Data); decodeErr == nil {
		p.EventID, _ = uuid.Parse(event.ID)
	}
	return p
}

// decide reads the intents that still wait, decides them, and stores the decisions. failed names the events whose decision could
// not be stored.
func (p *Policy) decide(ctx context.Context, refs []ledger.IntentRef) (failed map[uuid.UUID]bool, err error) {
	failed = map[uuid.UUID]bool{}
	if len(refs) == 0 {
		return failed, nil
	}
	waiting, err := p.env.Ledger.Undecided(ctx, refs)
	if err != nil {
		return nil, err
	}
	byRun := make(map[uuid.UUID]*ledger.Undecided, len(waiting))
	for i := range waiting {
		byRun[waiting[i].RunID] = &waiting[i]
	}
	var decisions []ledger.Decision
	for _, ref := range refs {
		if u := byRun[ref.RunID]; u != nil && u.TenantID == ref.TenantID {
			decisions = append(decisions, p.decideOne(u, ref.EventID))
		}
	}
	if len(decisions) == 0 {
		return failed, nil
	}
	_, err = p.env.Ledger.Decide(ctx, decisions, func(d *ledger.Decision, err error) {
		failed[d.EventID] = true
		p.env.Log.Error("a decision cannot be stored", "tenant", d.Intent.TenantID, "run", d.Intent.RunID, "error", err)
	})
	for i := range decisions {
		p.decided.Add(ctx, 1, metric.WithAttributes(attribute.String("route", decisions[i].Route)))
	}
	return failed, err
}

// decideOne is the pure part: from an intent to a decision.
func (p *Policy) decideOne(u *ledger.Undecided, event uuid.UUID) ledger.Decision {
	d := ledger.Decision{EventID: event, DecisionID: uuid.New(), Intent: u, DecideWithin: defaultDecideWithin, ExecuteWithin: defaultExecuteWithin}
	t := p.tenants[u.TenantID]
	if t == nil {
		return refuse(d, "unknown_tenant", "The tenant is not configured here.")
	}
	snapshot, err := intent.Read(u.Canonical, u.IntentHash)
	if err != nil {
		d.PolicyVersion = t.PolicyVersion
		return refuse(d, "intent_unreadable", err.Error())
	}
	verdict := t.engine.Decide(snapshot.Input(u.Now))
	d.Route, d.PolicyVersion, d.InputsHash = verdict.Route, verdict.PolicyVersion+"/"+verdict.EngineVersion, verdict.InputsHash
	reasons := verdict.Reasons
	a := t.actions[snapshot.ActionType]
	if a != nil {
		d.DecideWithin, d.ExecuteWithin, d.Audience = a.DecideWithin, a.ExecuteWithin, a.Audience
		if (a.Connector != snapshot.Connector || a.Operation != snapshot.Operation) && engine.Stricter(config.RouteHumanReview, d.Route) {
			d.Route = config.RouteHumanReview
			reasons = append(reasons, engine.Reason{Code: "registry_changed", Message: "The action type names another connector or operation since this was submitted."})
		}
	}
	d.Effect = ledger.EffectRequest{Connector: snapshot.Connector, Operation: snapshot.Operation, TargetSystem: snapshot.TargetSystem,
		TargetRecord: snapshot.TargetRecord}
	return withReasons(d, reasons)
}

func refuse(d ledger.Decision, code, message string) ledger.Decision {
	d.Route = config.RouteReject
	return withReasons(d, []engine.Reason{{Code: code, Message: message}})
}

func withReasons(d ledger.Decision, reasons []engine.Reason) ledger.Decision {
	d.Reasons, _ = json.Marshal(reasons) // structs of strings always marshal
	var messages []string
	seen := map[string]bool{}
	for _, r := range reasons {
		if !seen[r.Code] {
			seen[r.Code] = true
			d.ReasonCodes = append(d.ReasonCodes, r.Code)
		}
		messages = append(messages, r.Message)
	}
	d.Summary = strings.Join(messages, " ")
	return d
}
