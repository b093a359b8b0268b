package world

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// settings are what options change.
type settings struct {
	luck     Luck
	replicas map[string]int // of each service, started by New
	enabled  bool
	maxConns int32
	sandbox  []func(*sandbox.Config)
	config   []func(*config.Config)
}

func defaults() settings {
	s := settings{replicas: map[string]int{}, enabled: true, maxConns: 3, config: []func(*config.Config){quick}}
	for _, row := range roster.Services {
		s.replicas[row.Name] = 1
	}
	return s
}

// Option changes a world before it starts.
type Option func(*settings)

// WithLuck lets things go wrong on the wires.
func WithLuck(luck Luck) Option { return func(s *settings) { s.luck = luck } }

// WithReplicas starts a service so many times; 0 leaves it to World.Start.
func WithReplicas(name string, n int) Option { return func(s *settings) { s.replicas[name] = n } }

// WithSandbox changes the sandbox provider.
func WithSandbox(change func(*sandbox.Config)) Option {
	return func(s *settings) { s.sandbox = append(s.sandbox, change) }
}

// WithConfig changes the example configuration.
func WithConfig(change func(*config.Config)) Option {
	return func(s *settings) { s.config = append(s.config, change) }
}

// WithConnections sets the largest database pool of each service.
func WithConnections(n int32) Option { return func(s *settings) { s.maxConns = n } }

// WithActionsOff leaves AI_ACTIONS_ENABLED unset.
func WithActionsOff() Option { return func(s *settings) { s.enabled = false } }

// Time constants of a world, against those of the example configuration and the services:
//
//	constant               example   world
//	connector's timeout    10 s      2 s
//	index lag of lookups   2 s       200 ms
//	first retry, longest   1 s, 1m   100 ms, 1 s   and 60 attempts: misfortune may refuse an effect often
//	breaker's open time    30 s      300 ms
//	dispatcher's lease     30 s      4 s           the timeout and a margin
//	broker's ack wait      30 s      2 s
//	batch of publishes     2 s       500 ms
const (
	quickTimeout     = 2 * time.Second
	quickIndexLag    = 200 * time.Millisecond
	quickOpenFor     = 300 * time.Millisecond
	quickLeaseMargin = 2 * time.Second
	quickAckWait     = 2 * time.Second
	quickPublish     = 500 * time.Millisecond
)

var quickBackoff = config.Backoff{Base: 100 * time.Millisecond, Cap: time.Second, Attempts: 60, Total: 10 * time.Minute}

// quick shortens the time constants of the configuration, and changes nothing else.
func quick(c *config.Config) {
	for _, t := range c.Tenants {
		for _, k := range t.Connectors {
			k.Timeout, k.LeaveWithin = quickTimeout, quickTimeout
			k.Backoff = quickBackoff
			k.Breaker.OpenFor = quickOpenFor
			for _, op := range k.Operations {
				if op.Lookup != nil {
					op.Lookup.IndexLag = quickIndexLag
				}
			}
		}
	}
}

// Configure changes the configuration that services started from now on will have.
func (w *World) Configure(change func(*config.Config)) {
	w.settings.config = append(w.settings.config, change)
	w.config = nil
}

// load reads the example configuration, once until it is changed: services only read it.
func (w *World) load() (*config.Config, error) {
	if w.config != nil {
		return w.config, nil
	}
	smtp, err := w.Sandbox.SMTPAddr(context.Background())
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadEnv(deploy.Example(), sandboxAt(w.Sandbox.URL(), smtp))
	if err != nil {
		return nil, err
	}
	for _, change := range w.settings.config {
		change(cfg)
	}
	w.config = cfg
	return cfg, nil
}

// seedEnv repeats a test's misfortune.
const seedEnv = "HOLDPOINT_WORLD_SEED"

func (w *World) seed() uint64 {
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		seed = given
	}
	if w.settings.luck != (Luck{}) {
		w.t.Logf("luck %+v; repeat its dice with %s=%d", w.settings.luck, seedEnv, seed)
	}
	return seed
}
