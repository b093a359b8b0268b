// Package intake takes events in, over HTTP and NATS, and gives workers their leases. Both doors admit an event by the same
// rules (admit.go) and claim it by the same command (ledger.Claim); nothing is answered before the commit (K11).
package intake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Settings of intake (HOLDPOINT_INTAKE_…).
type Settings struct {
	Addr      string `split_words:"true" default:":8080"` // where HTTP listens
	PublicURL string `split_words:"true"`                 // prefix of status links; default: links are paths
}

// Intake is the service.
type Intake struct {
	env      *service.Env
	settings Settings
	tenants  map[string]*tenant
	keys     map[[32]byte]*caller
	claims   *ledger.Group[ledger.Claim, ledger.Claimed]
	owned    *ledger.Group[ledger.Owned, ledger.Claimed]
	listener net.Listener

	answered  metric.Int64Counter
	takeovers metric.Int64Counter
}

// New compiles every tenant's sources and listens. The rules of all sources are active when it returns.
func New(ctx context.Context, env *service.Env, settings Settings) (*Intake, error) {
	in := &Intake{env: env, settings: settings, tenants: map[string]*tenant{}, keys: map[[32]byte]*caller{}}
	for _, declared := range env.Config.Tenants {
		t, err := newTenant(declared)
		if err != nil {
			return nil, err
		}
		in.tenants[declared.ID] = t
		if err := in.admitCallers(t); err != nil {
			return nil, err
		}
	}
	if err := in.activateRules(ctx); err != nil {
		return nil, err
	}
	var errs [2]error
	in.answered, errs[0] = env.Meter.Int64Counter("holdpoint_intake_answers_total")
	in.takeovers, errs[1] = env.Meter.Int64Counter("holdpoint_lease_takeovers_total")
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", settings.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for events (HOLDPOINT_INTAKE_ADDR): %w", err)
	}
	in.listener = listener
	in.claims = ledger.NewGroup(ledger.GroupConfig[ledger.Claim, ledger.Claimed]{Run: env.Ledger.Claim, Queue: maxWaiting})
	in.owned = ledger.NewGroup(ledger.GroupConfig[ledger.Owned, ledger.Claimed]{Run: env.Ledger.Own, Queue: maxWaiting})
	return in, nil
}

// maxWaiting is how many HTTP callers may wait for the ledger; the next one is told to come back.
const maxWaiting = 16384

// Addr is where HTTP listens.
func (in *Intake) Addr() string { return in.listener.Addr().String() }

// activateRules makes the configured rules the active ones. Where that ends an older version, it waits until no statement that
// still saw the older version active can be running (K15).
func (in *Intake) activateRules(ctx context.Context) error {
	replaced := false
	for _, t := range in.tenants {
		for _, s := range t.sources {
			changed, err := in.env.Ledger.ActivateRules(ctx, t.ID, s.ID, s.ActiveRules().Version)
			if err != nil {
				return err
			}
			replaced = replaced || changed
		}
	}
	if !replaced {
		return nil
	}
	wait := postgres.DefaultStatementTimeout + time.Second
	in.env.Log.Info("source rules changed; waiting for claims under the older ones to end", "wait", wait)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// Run serves both doors until the context ends, and answers what it has taken.
func (in *Intake) Run(ctx context.Context) error {
	parts := []service.Named{{Name: "intake http", Runner: &httpDoor{in}}}
	for id, t := range in.tenants {
		parts = append(parts, service.Named{Name: "intake nats " + id, Runner: natsDoor{in, t}})
	}
	err := service.RunAll(ctx, in.env.Log, 20*time.Second, parts...)
	in.claims.Close()
	in.owned.Close()
	return err
}

// natsDoor consumes one tenant's ingress stream.
type natsDoor struct {
	in *Intake
	t  *tenant
}

func (d natsDoor) Run(ctx context.Context) error {
	return bus.Consume(ctx, d.in.env.Bus, bus.ConsumeConfig{
		Service: ledger.Intake, Stream: bus.IngressStream(d.t.ID), Durable: bus.IntakeConsumer, Logger: d.in.env.Log,
		Handle: d.handle,
	})
}
