// Package intake takes events in and gives workers their leases, over HTTP, over JetStream, and over request/reply. All
// doors admit an event by the same rules (admit.go), answer with the same words (reply.go), and claim by the same
// command (ledger.Claim); nothing is answered before the commit (K11).
package intake

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Settings of intake (HOLDPOINT_INTAKE_…).
type Settings struct {
	Addr      string `split_words:"true" default:":8080"` // where HTTP listens
	PublicURL string `split_words:"true"`                 // prefix of status links; default: links are paths
	LinkHere  bool   `ignored:"true"`                     // links without a PublicURL lead to where HTTP listens

	rulesWait, idleWait time.Duration // shorter in tests; 0 is as it should be
}

// Intake is the service.
type Intake struct {
	env      *service.Env
	settings Settings
	tenants  map[string]*tenant
	policies *active.Policies[*registry]
	keys     map[[32]byte]*caller
	claims   *ledger.Group[ledger.Claim, ledger.Claimed]
	owned    *ledger.Group[ledger.Owned, ledger.Claimed]
	runs     *ledger.Group[runName, *ledger.Run]
	counters *counters
	listener net.Listener
	issuers  []*issuer
	waiters  chan struct{} // holds one for each caller that waits for a run's end
	stopping chan struct{} // closed when nothing that waits should wait any longer
}

// New compiles every tenant's sources and listens. The rules of all sources are active when it returns.
func New(ctx context.Context, env *service.Env, settings Settings) (*Intake, error) {
	in := &Intake{env: env, settings: settings, tenants: map[string]*tenant{}, keys: map[[32]byte]*caller{},
		waiters: make(chan struct{}, maxWaiters), stopping: make(chan struct{})}
	in.settings.rulesWait = cmp.Or(settings.rulesWait, rulesWait)
	var err error
	if in.policies, err = active.New(ctx, active.Config[*registry]{Env: env, Make: newRegistry, Serves: true}); err != nil {
		return nil, err
	}
	for _, declared := range env.Config.Tenants {
		t, err := newTenant(declared)
		if err != nil {
			return nil, err
		}
		t.policy = func() (*registry, error) { return in.policies.Of(declared.ID) }
		in.tenants[declared.ID] = t
		if err := in.admitCallers(t); err != nil {
			return nil, err
		}
		for _, i := range declared.TokenIssuers {
			in.issuers = append(in.issuers, newIssuer(t, i))
		}
	}
	if in.counters, err = newCounters(env.Meter); err != nil {
		return nil, fmt.Errorf("make intake's counters: %w", err)
	}
	if err := in.activateRules(ctx); err != nil {
		return nil, err
	}
	if in.listener, err = net.Listen("tcp", settings.Addr); err != nil {
		return nil, fmt.Errorf("listen for events (HOLDPOINT_INTAKE_ADDR): %w", err)
	}
	if settings.PublicURL == "" && settings.LinkHere {
		in.settings.PublicURL = "http://" + in.Addr()
	}
	in.claims = gathered(service.Waking(env, env.Ledger.Claim))
	in.owned = gathered(service.Waking(env, env.Ledger.Own))
	in.runs = gathered(in.readRuns)
	return in, nil
}

// maxWaiting is how many callers may wait for one command of the ledger; the next one is told to come back.
const maxWaiting = 16384

// gathered lets the callers of all doors share the commits of a command.
func gathered[In, Out any](run func(context.Context, []In) ([]Out, error)) *ledger.Group[In, Out] {
	return ledger.NewGroup(ledger.GroupConfig[In, Out]{Run: run, Queue: maxWaiting})
}

// Addr is where HTTP listens.
func (in *Intake) Addr() string { return in.listener.Addr().String() }

// rulesWait is longer than any statement that saw the older rules active can run.
const rulesWait = postgres.DefaultStatementTimeout + time.Second

// activateRules makes the configured rules the active ones. Where that ends an older version, it waits until no
// statement that still saw the older version active can be running (K15).
func (in *Intake) activateRules(ctx context.Context) error {
	replaced := false
	for _, t := range in.tenants {
		for _, s := range t.sources {
			changed, err := in.env.Ledger.ActivateRules(ctx, t.ID, s.ID, s.active.Version)
			if err != nil {
				return err
			}
			replaced = replaced || changed
		}
	}
	if !replaced {
		return nil
	}
	in.env.Log.Info("source rules changed; waiting for claims under older ones to end", "wait", in.settings.rulesWait)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(in.settings.rulesWait):
		return nil
	}
}

// drain is how long the doors together may take to answer what they have taken; each one's own patience is shorter, but
// for that of the consumer and the request/reply door, which the runner cuts.
const drain = 20 * time.Second

// Run serves all doors until the context ends, and answers what it has taken.
func (in *Intake) Run(ctx context.Context) error {
	parts := []service.Named{{Name: "intake policy versions", Runner: in.policies}, {Name: "intake http", Runner: service.HTTP{Listener: in.listener, Handler: (&httpDoor{in}).routes()}}}
	if slices.ContainsFunc(in.env.Config.Tenants, func(t *config.Tenant) bool { return t.Callbacks != nil }) {
		parts = append(parts, service.Named{Name: "intake callbacks", Runner: &callbacks{in: in}})
	}
	for id, t := range in.tenants {
		parts = append(parts, service.Named{Name: "intake nats " + id, Runner: natsDoor{in, t}},
			service.Named{Name: "intake request/reply " + id, Runner: microDoor{in, t}})
	}
	context.AfterFunc(ctx, func() { close(in.stopping) })
	err := service.RunAll(ctx, in.env.Log, drain, parts...)
	in.claims.Close()
	in.owned.Close()
	in.runs.Close()
	return err
}
