// Package dispatcher sends authorized effects: it leases them, checks everything once more, asks leave right before
// the first byte, makes one call, and records what it came to. A crash anywhere leaves an attempt row that says what
// may have happened (D3).
//
// The life of one attempt, by file: door.go (an event asks) or lease.go (the poll finds it due; slots.go and tap.go: as far as they let
// it; heard.go: in a database that was not put back in time), attempt.go, recheck.go (what has changed since it was authorized), the
// connector's call, follow.go (what the outcome means), record.go.
//
// Where a program of the tenant's makes the call: executor.go (the command), call.go (leave), receipt.go (what it came to),
// leave.go and peer.go (how its words come in), late.go (a receipt that nobody waits for any more).
package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Rhythm of leasing: by event as effects are requested, and by a poll for what is due again, what found no free slot,
// and what no event told of.
const (
	pollPause = 100 * time.Millisecond
	// pollSpacing lets freed slots gather, so that a backlog is leased in batches and not one by one.
	pollSpacing = 10 * time.Millisecond
	// leaseMargin is what a lease lasts beyond the slowest attempt (see target.lasts): the commits before and after.
	leaseMargin = 20 * time.Second
	// sendWithin is how long after leave was granted the first byte may leave (D15).
	sendWithin = time.Second
	// drainFor is how long a stop waits for calls in flight. A call is never cut off by a stop: what outlasts this is
	// unknown. Kubernetes' default grace is 30 s.
	drainFor = 20 * time.Second
)

// Settings of the dispatcher (HOLDPOINT_DISPATCHER_…).
type Settings struct {
	// Enabled is AI_ACTIONS_ENABLED, which has no prefix: nothing is sent unless it is positively true (D9).
	Enabled bool `ignored:"true"`
	// LeaseMargin replaces leaseMargin; crash tests shorten it.
	LeaseMargin time.Duration `split_words:"true"`
	// Drain replaces drainFor: raise it, and the grace of the platform, where a provider's calls last longer.
	Drain time.Duration `split_words:"true"`
}

// Dispatcher is the service.
type Dispatcher struct {
	env      *service.Env
	settings Settings
	policies *active.Policies[*tenant]
	targets  map[string]*target // by "tenant/connector"
	forms    map[string][]byte  // likewise, how each makes its requests
	confirm  *ledger.Group[ledger.Fence, ledger.Leave]
	outcomes *ledger.Group[ledger.Settlement, recorded]
	wake     chan struct{}
	leasing  sync.Mutex // one lease at a time, so that each sees every free slot
	slots    slots
	heard    heard

	executors *executors
	inFlight  sync.WaitGroup
	stopping  atomic.Bool   // nothing is leased any more
	drained   chan struct{} // closed when the stop waits for nothing any more

	attempts metric.Int64Counter
	reviews  metric.Int64Counter
	breakers breakers
}

// The boundaries around a provider: the first byte of a request, and its answer.
var (
	sendSite   = fault.NewSite(ledger.Dispatcher, "send", fault.KindProviderSend)
	answerSite = fault.NewSite(ledger.Dispatcher, "answer", fault.KindProviderAnswer)
)

// New compiles every tenant's connectors and the rules of its active policy.
func New(ctx context.Context, env *service.Env, settings Settings) (*Dispatcher, error) {
	settings.LeaseMargin = cmp.Or(settings.LeaseMargin, leaseMargin)
	settings.Drain = cmp.Or(settings.Drain, drainFor)
	d := &Dispatcher{
		env: env, settings: settings, targets: map[string]*target{}, forms: map[string][]byte{},
		wake: make(chan struct{}, 1), drained: make(chan struct{}),
	}
	var problems []error
	var err1, err2, err3, err4 error
	d.breakers, err4 = newBreakers(env.Meter)
	d.executors = newExecutors(env.Bus, len(tenantsWithExecutors(env.Config)) > 0)
	for _, declared := range env.Config.Tenants {
		problems = append(problems, d.addTargets(declared))
	}
	d.policies, err3 = active.New(ctx, active.Config[*tenant]{Env: env, Make: newTenant})
	d.attempts, err1 = env.Meter.Int64Counter("holdpoint_dispatch_attempts_total")
	d.reviews, err2 = env.Meter.Int64Counter("holdpoint_returned_to_review_total")
	if err := errors.Join(append(problems, err1, err2, err3, err4)...); err != nil {
		return nil, err
	}
	if !settings.Enabled {
		env.Log.Warn("AI_ACTIONS_ENABLED is not true: effects are kept and nothing is sent")
	}
	d.confirm = ledger.NewGroup(ledger.GroupConfig[ledger.Fence, ledger.Leave]{Run: env.Ledger.Confirm, Workers: 1})
	d.outcomes = ledger.NewGroup(ledger.GroupConfig[ledger.Settlement, recorded]{Run: service.Waking(env, d.settle), Workers: 1})
	return d, nil
}

// Run leases and sends until the context ends, then takes nothing more and waits for the calls in flight.
func (d *Dispatcher) Run(ctx context.Context) error {
	var stopped atomic.Int64
	ctx, endDoors := d.openDoors(ctx)
	halt := context.AfterFunc(ctx, func() {
		stopped.Store(time.Now().UnixNano())
		d.stopping.Store(true)
		d.executors.stop()
	})
	defer halt()
	err := service.RunAll(ctx, d.env.Log, d.settings.Drain,
		service.Named{Name: "dispatcher events", Runner: eventDoor{d}},
		service.Named{Name: "dispatcher policy versions", Runner: d.policies},
		service.Named{Name: "dispatcher marks", Runner: service.Loop{
			Name: "marks", Log: d.env.Log, Pause: heardPause, Once: d.hearMark,
		}},
		service.Named{Name: "dispatcher poll", Runner: service.Loop{
			Name: "poll", Log: d.env.Log, Pause: pollPause, Gap: pollSpacing, Wake: d.wake, Once: d.poll,
		}},
	)
	d.stopping.Store(true)
	d.executors.stop()
	left := d.settings.Drain
	if at := stopped.Load(); at > 0 {
		left -= time.Since(time.Unix(0, at))
	}
	err = errors.Join(err, d.drain(left))
	return errors.Join(err, endDoors())
}

// drain waits for the calls in flight, at most so long.
func (d *Dispatcher) drain(longest time.Duration) error {
	defer close(d.drained)
	done := make(chan struct{})
	go func() { d.inFlight.Wait(); close(done) }()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-done:
		d.confirm.Close()
		d.outcomes.Close()
		return nil
	case <-timer.C:
		return errors.New("calls are still in flight; the reconciler will find out what became of them")
	}
}
