// Package dispatcher sends authorized effects: it leases them, checks everything once more, asks leave right before the first byte,
// makes one call, and records what it came to. A crash anywhere leaves an attempt row that says what may have happened (D3).
package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Rhythm of leasing: by event as effects are requested, and by a poll for what is due again, what found no free slot, and what no
// event told of.
const (
	pollPause = 100 * time.Millisecond
	// leaseMargin is what a lease lasts beyond the connector's own timeout: the checks before, and the commit after.
	leaseMargin = 20 * time.Second
	// sendWithin is how long after leave was granted the first byte may leave (D15).
	sendWithin = time.Second
	// drainFor is how long a stop waits for calls in flight. A call is never cut off by a stop: what outlasts this is unknown.
	drainFor = 20 * time.Second
)

// Settings of the dispatcher (HOLDPOINT_DISPATCHER_…).
type Settings struct {
	// Enabled is AI_ACTIONS_ENABLED, which has no prefix: nothing is sent unless it is positively true (D9).
	Enabled bool `ignored:"true"`
	// LeaseMargin replaces leaseMargin; crash tests shorten it.
	LeaseMargin time.Duration `split_words:"true"`
}

// Dispatcher is the service.
type Dispatcher struct {
	env      *service.Env
	settings Settings
	tenants  map[string]*tenant
	targets  map[string]*target // by "tenant/connector"
	confirm  *ledger.Group[ledger.Fence, ledger.Leave]
	outcomes *ledger.Group[ledger.Settlement, bool]
	wake     chan struct{}
	inFlight sync.WaitGroup
	leasing  sync.Mutex // one lease at a time, so that each sees every free slot
	slots    slots

	attempts metric.Int64Counter
	reviews  metric.Int64Counter
}

// The boundaries around a provider: the first byte of a request, and its answer.
var (
	sendSite   = fault.NewSite(ledger.Dispatcher, "send", fault.KindProviderSend)
	answerSite = fault.NewSite(ledger.Dispatcher, "answer", fault.KindProviderAnswer)
)

// New compiles every tenant's connectors and rules.
func New(env *service.Env, settings Settings) (*Dispatcher, error) {
	d := &Dispatcher{env: env, settings: settings, tenants: map[string]*tenant{}, targets: map[string]*target{}, wake: make(chan struct{}, 1)}
	var problems []error
	for _, declared := range env.Config.Tenants {
		problems = append(problems, d.addTenant(declared))
	}
	var err1, err2 error
	d.attempts, err1 = env.Meter.Int64Counter("holdpoint_dispatch_attempts_total")
	d.reviews, err2 = env.Meter.Int64Counter("holdpoint_returned_to_review_total")
	if err := errors.Join(append(problems, err1, err2)...); err != nil {
		return nil, err
	}
	if !settings.Enabled {
		env.Log.Warn("AI_ACTIONS_ENABLED is not true: effects are kept and nothing is sent")
	}
	d.confirm = ledger.NewGroup(ledger.GroupConfig[ledger.Fence, ledger.Leave]{Run: env.Ledger.Confirm})
	d.outcomes = ledger.NewGroup(ledger.GroupConfig[ledger.Settlement, bool]{Run: func(ctx context.Context, items []ledger.Settlement) ([]bool, error) {
		return env.Ledger.Settle(ctx, "record_outcomes", items)
	}})
	return d, nil
}

// Run leases and sends until the context ends, then waits for the calls in flight.
func (d *Dispatcher) Run(ctx context.Context) error {
	err := service.RunAll(ctx, d.env.Log, drainFor,
		service.Named{Name: "dispatcher events", Runner: eventDoor{d}},
		service.Named{Name: "dispatcher poll", Runner: service.Loop{Name: "poll", Log: d.env.Log, Pause: pollPause, Wake: d.wake, Once: d.poll}},
	)
	done := make(chan struct{})
	go func() { d.inFlight.Wait(); close(done) }()
	select {
	case <-done:
		d.confirm.Close()
		d.outcomes.Close()
	case <-time.After(drainFor):
		err = errors.Join(err, errors.New("calls are still in flight; the reconciler will find out what became of them"))
	}
	return err
}

type eventDoor struct{ d *Dispatcher }

func (e eventDoor) Run(ctx context.Context) error {
	return bus.Consume(ctx, e.d.env.Bus, bus.ConsumeConfig{Service: ledger.Dispatcher, Stream: bus.InternalStream,
		Durable: bus.DispatchConsumer, Handle: e.d.handle, Logger: e.d.env.Log})
}

// handle puts a batch of requests into the inbox and leases what can be sent now (B3). The messages are done with that: effects
// live in Postgres, and no message is held while a provider is slow (BUS-06).
func (d *Dispatcher) handle(ctx context.Context, items []bus.Item) []bus.Verdict {
	verdicts := make([]bus.Verdict, len(items))
	var requested []ledger.EffectKey
	var events []uuid.UUID
	var readable, unreadable []int
	var parked []ledger.Parked
	for i := range items {
		event, key, err := readEvent(items[i].Data)
		if err != nil {
			unreadable = append(unreadable, i)
			parked = append(parked, ledger.Parked{Consumer: ledger.Dispatcher, Subject: items[i].Subject, Reason: "unprocessable",
				Detail: err.Error(), Body: items[i].Data, Deliveries: items[i].NumDelivered})
			continue
		}
		requested, events, readable = append(requested, key), append(events, event), append(readable, i)
	}
	if len(parked) > 0 && d.park(ctx, parked) {
		ack(verdicts, unreadable)
	}
	if len(requested) > 0 && d.lease(ctx, ledger.LeaseRequest{Requested: requested, Events: events}) == nil {
		ack(verdicts, readable)
	}
	return verdicts
}

func ack(verdicts []bus.Verdict, at []int) {
	for _, i := range at {
		verdicts[i] = bus.Ack
	}
}

func (d *Dispatcher) park(ctx context.Context, parked []ledger.Parked) bool {
	if err := d.env.Ledger.Park(ctx, parked); err != nil {
		d.env.Log.Error("events that cannot be read could not be parked now", "error", err)
		return false
	}
	d.env.Log.Error("events that cannot be read were parked", "events", len(parked), "first", parked[0].Detail)
	return true
}

func readEvent(data []byte) (event uuid.UUID, key ledger.EffectKey, err error) {
	decoded, err := contracts.Decode(data)
	if err != nil {
		return event, key, err
	}
	requested, ok := decoded.Data.(*contracts.EffectRequested)
	if !ok {
		return event, key, fmt.Errorf("%s is not for the dispatcher", decoded.Data.Type())
	}
	if event, err = uuid.Parse(decoded.ID); err != nil {
		return event, key, err
	}
	key.TenantID = requested.TenantID
	key.RunID, key.Revision, key.Ordinal, err = ledger.ParseOperationID(requested.OperationID)
	return event, key, err
}

// poll leases what is due, as far as there are free slots.
func (d *Dispatcher) poll(ctx context.Context) (bool, error) {
	return false, d.lease(ctx, ledger.LeaseRequest{Due: true})
}

// lease takes effects and starts a sender for each. Without AI_ACTIONS_ENABLED only the inbox is written.
func (d *Dispatcher) lease(ctx context.Context, req ledger.LeaseRequest) error {
	d.leasing.Lock()
	defer d.leasing.Unlock()
	req.Owner, req.Duration = uuid.New(), d.leaseDuration()
	req.Free = map[string]int{}
	if d.settings.Enabled {
		req.Free = d.slots.take(d.targets)
	}
	if len(req.Free) == 0 && req.Due {
		return nil
	}
	leased, err := d.env.Ledger.Lease(ctx, req)
	used := map[string]int{}
	for _, e := range leased {
		used[e.TenantID+"/"+e.Connector]++
	}
	d.slots.giveBack(req.Free, used)
	if err != nil {
		d.env.Log.Error("effects could not be leased now", "error", err)
		return err
	}
	for _, e := range leased {
		d.inFlight.Add(1)
		go d.send(context.WithoutCancel(ctx), e)
	}
	return nil
}

// leaseDuration outlasts the slowest connector's call.
func (d *Dispatcher) leaseDuration() time.Duration {
	longest := time.Duration(0)
	for _, t := range d.targets {
		longest = max(longest, t.declared.Timeout)
	}
	if d.settings.LeaseMargin > 0 {
		return longest + d.settings.LeaseMargin
	}
	return longest + leaseMargin
}
