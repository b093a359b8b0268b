// Package reconciler settles what is unknown by reading, and only by reading: the one thing it may cause to be
// written is a retry under the same idempotency key, where the provider's profile makes that safe (R1, D13).
// decide.go holds the decisions, scan.go what is due, look.go what is read and stored, verify.go what a target holds after a write,
// readings.go what is read for reviewers. What providers tell by themselves (R4) comes in by webhook.go, and is applied by events.go as
// events_decide.go says.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
	"github.com/holdpoint/holdpoint/pkg/service"
)

const (
	pollPause    = 200 * time.Millisecond
	overduePause = 5 * time.Second
	drawsPause   = time.Second
	drawsBatch   = 500
	batchSize    = 32 // of each connector and state
	atOnce       = 16 // lookups of one connector at the same time
	// longestRead bounds one lookup, whatever the connector's timeout.
	longestRead = 30 * time.Second
	// holdMargin is for storing what was read.
	holdMargin = 5 * time.Second
	drainFor   = 10 * time.Second
)

// Settings of the reconciler (HOLDPOINT_RECONCILER_…).
type Settings struct {
	Addr string `split_words:"true" default:":8083"` // where HTTP listens for providers' webhooks
}

// Reconciler is the service.
type Reconciler struct {
	env     *service.Env
	targets map[string]*target // by "tenant/connector"
	// policies say whom to ask where an effect goes back to people.
	policies *active.Policies[*config.Tenant]
	// hold is how long an effect that was taken up stays this replica's to look at: its batch is read in
	// batchSize / atOnce = 2 rounds of at most one timeout each.
	hold    time.Duration
	longest time.Duration // that one read can take
	wake    chan struct{}
	settled metric.Int64Counter
	// readable are the action types whose targets are read for reviewers, by "tenant/connector" (readings.go).
	readable     map[string][]ledger.ActionRef
	wakeReadings chan struct{}

	mu      sync.Mutex
	busy    map[string]bool // connectors whose last batch is still being read
	reading map[string]bool // likewise, for reviewers
	working sync.WaitGroup

	hooks      map[string]*hook // by "tenant/connector" (webhook.go)
	received   *ledger.Group[ledger.ProviderEvent, string]
	listener   net.Listener
	wakeEvents chan struct{}
	heard      eventCounters
}

// target is one connector of one tenant, to read from.
type target struct {
	conn    reader
	backoff *outcome.Backoff
}

// reader is what can be asked of a connector. Of an executor and of a mail server it is nothing: their operations declare no lookup.
type reader interface {
	Declared(operation string) (*config.Operation, bool)
	Reconcile(ctx context.Context, op connector.Operation) connector.LookupResult
	Verify(ctx context.Context, op connector.Operation, receipt string) connector.LookupResult
	ReadHeld(ctx context.Context, op connector.Operation) (connector.Reading, error)
}

func newReader(c *config.Connector) (reader, error) {
	if c.Executor() {
		return connector.NewExecutor(c)
	}
	if c.Mailer() {
		return connector.NewMailer(connector.Config{Connector: c})
	}
	return connector.New(connector.Config{Connector: c})
}

// New compiles every tenant's connectors, and listens.
func New(ctx context.Context, env *service.Env, settings Settings) (*Reconciler, error) {
	r := &Reconciler{env: env, targets: map[string]*target{}, busy: map[string]bool{}, wake: make(chan struct{}, 1),
		readable: readable(env.Config), reading: map[string]bool{}, wakeReadings: make(chan struct{}, 1),
		hooks: map[string]*hook{}, wakeEvents: make(chan struct{}, 1)}
	longest := time.Duration(0)
	for _, t := range env.Config.Tenants {
		for _, c := range t.Connectors {
			conn, err1 := newReader(c)
			backoff, err2 := outcome.NewBackoff(outcome.BackoffConfig{Declared: c.Backoff})
			if err := errors.Join(err1, err2, r.addHook(t.ID, c)); err != nil {
				return nil, fmt.Errorf("connector %s of tenant %s: %w", c.ID, t.ID, err)
			}
			r.targets[t.ID+"/"+c.ID] = &target{conn, backoff}
			if c.Lookups() {
				longest = max(longest, c.Longest())
			}
		}
	}
	r.longest = min(longest, longestRead)
	r.hold = batchSize/atOnce*r.longest + holdMargin
	var errs [3]error
	r.settled, errs[0] = env.Meter.Int64Counter("holdpoint_reconciled_total")
	r.heard, errs[1] = newEventCounters(env.Meter)
	r.policies, errs[2] = active.New(ctx, active.Config[*config.Tenant]{Env: env, Make: asItIs})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	var err error
	if r.listener, err = net.Listen("tcp", settings.Addr); err != nil {
		return nil, fmt.Errorf("listen for providers' webhooks (HOLDPOINT_RECONCILER_ADDR): %w", err)
	}
	r.received = ledger.NewGroup(ledger.GroupConfig[ledger.ProviderEvent, string]{Run: env.Ledger.ReceiveProviderEvents,
		Max: hooksAtOnce, Queue: hooksWaiting})
	return r, nil
}

// Addr is where HTTP listens.
func (r *Reconciler) Addr() string { return r.listener.Addr().String() }

// asItIs is what a reconciler makes of a policy: it decides nothing by it, and says whom to ask.
func asItIs(t *config.Tenant) (*config.Tenant, error) { return t, nil }

// Run looks at what is due until the context ends. Reads that a stop interrupts are forgotten, and made again later.
func (r *Reconciler) Run(ctx context.Context) error {
	err := service.RunAll(ctx, r.env.Log, drainFor,
		service.Named{Name: "reconciler unsettled", Runner: service.Loop{
			Name: "unsettled", Log: r.env.Log, Pause: pollPause, Wake: r.wake, Once: r.scan,
		}},
		service.Named{Name: "reconciler policy versions", Runner: r.policies},
		service.Named{Name: "reconciler overdue", Runner: service.Loop{
			Name: "overdue", Log: r.env.Log, Pause: overduePause, Once: r.scanOverdue,
		}},
		service.Named{Name: "reconciler draws", Runner: service.Loop{
			Name: "draws", Log: r.env.Log, Pause: drawsPause, Once: r.returnDraws,
		}},
		service.Named{Name: "reconciler readings", Runner: service.Loop{
			Name: "readings", Log: r.env.Log, Pause: readingsPause, Wake: r.wakeReadings, Once: r.readTargets,
		}},
		service.Named{Name: "reconciler http", Runner: service.HTTP{Listener: r.listener, Handler: r.routes()}},
		service.Named{Name: "reconciler provider events", Runner: service.Loop{
			Name: "provider events", Log: r.env.Log, Pause: eventsPause, Wake: r.wakeEvents, Once: r.applyEvents,
		}},
		service.Named{Name: "reconciler unmatched events", Runner: service.Loop{
			Name: "unmatched events", Log: r.env.Log, Pause: unmatchedPause, Once: r.countUnmatched,
		}},
	)
	r.received.Close()
	r.working.Wait() // reads end with the context, and storing ends by itself
	return err
}

// connectorOf names the connector of an effect, as "tenant/connector".
func connectorOf(e *ledger.Open) string { return e.TenantID + "/" + e.Connector }
