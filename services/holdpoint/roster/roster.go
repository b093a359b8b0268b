// Package roster lists the services in the order in which a run meets them, and makes each of them ready to run: alone,
// all in one process by `up`, or all in one test by the world package.
package roster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/approval"
	"github.com/holdpoint/holdpoint/services/dispatcher"
	"github.com/holdpoint/holdpoint/services/intake"
	"github.com/holdpoint/holdpoint/services/policy"
	"github.com/holdpoint/holdpoint/services/reconciler"
	"github.com/holdpoint/holdpoint/services/relay"
)

// Service is one service: how it is called, and how it is made from its environment.
type Service struct {
	Name  string
	About string // completes "the service that …"
	make  func(context.Context, *service.Env, Choices) (service.Runner, error)
}

// Services in the order in which a run meets them.
var Services = []Service{
	{"intake", "takes events in, claims their keys, gives workers leases", makeIntake},
	{"relay", "publishes what was committed, keeps the broker's streams in being", makeRelay},
	{"policy", "routes intents by the tenant's rules", makePolicy},
	{"approval", "asks people, and takes their one decision", makeApproval},
	{"dispatcher", "sends authorized effects, each at most once", makeDispatcher},
	{"reconciler", "finds out by reading what is unknown, takes providers' webhooks", makeReconciler},
}

// Named is the service of that name.
func Named(name string) (Service, error) {
	for _, s := range Services {
		if s.Name == name {
			return s, nil
		}
	}
	return Service{}, fmt.Errorf("no service is called %q", name)
}

// Choices are what whoever runs several services in one process decides, where a service alone reads the environment.
// The zero value decides nothing.
type Choices struct {
	IntakeAddr    string        // host:port
	WebhookAddr   string        // likewise, where the reconciler takes providers' webhooks
	EnableActions bool          // as AI_ACTIONS_ENABLED=true does (D9)
	LeaseMargin   time.Duration // of the dispatcher
	Approval      ApprovalChoices
	AckWait       time.Duration // of the broker's consumers
}

// ApprovalChoices are the approval service's. What is empty is read from the environment.
type ApprovalChoices struct {
	Listener     net.Listener
	Issuer       string
	ClientSecret string

	OperatorDatabaseURL string
}

// Ready is a service with its own pool, under its own Postgres role (D1), that has yet to run.
type Ready struct {
	service.Named
	Addr string // where it listens, "" where it does not
	env  *service.Env
}

// Open makes the service. Close what it returns when it has ended.
func (s Service) Open(ctx context.Context, needs service.Needs, choices Choices) (*Ready, error) {
	needs.Service = s.Name
	env, err := service.NewEnv(ctx, needs)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	runner, err := s.make(ctx, env, choices)
	if err != nil {
		env.Close()
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	ready := &Ready{Named: service.Named{Name: s.Name, Runner: runner}, env: env}
	if listener, ok := runner.(interface{ Addr() string }); ok {
		ready.Addr = listener.Addr()
	}
	return ready, nil
}

// Close ends the service's pool.
func (r *Ready) Close() { r.env.Close() }

func makeIntake(ctx context.Context, env *service.Env, c Choices) (service.Runner, error) {
	var s intake.Settings
	if err := service.Load("INTAKE", &s); err != nil {
		return nil, err
	}
	if c.IntakeAddr != "" {
		s.Addr, s.LinkHere = c.IntakeAddr, true
	}
	return intake.New(ctx, env, s)
}

func makeRelay(_ context.Context, env *service.Env, c Choices) (service.Runner, error) {
	var s relay.Settings
	if err := service.Load("RELAY", &s); err != nil {
		return nil, err
	}
	if c.AckWait > 0 {
		s.AckWait = c.AckWait
	}
	return relay.New(env, s)
}

func makePolicy(ctx context.Context, env *service.Env, _ Choices) (service.Runner, error) {
	return policy.New(ctx, env)
}

func makeApproval(ctx context.Context, env *service.Env, c Choices) (service.Runner, error) {
	var s approval.Settings
	if err := service.Load("APPROVAL", &s); err != nil {
		return nil, err
	}
	s.Listener, s.OperatorDatabaseURL = c.Approval.Listener, cmp.Or(s.OperatorDatabaseURL, c.Approval.OperatorDatabaseURL)
	if s.Issuer == "" {
		s.Issuer, s.ClientSecret = c.Approval.Issuer, cmp.Or(s.ClientSecret, c.Approval.ClientSecret)
	}
	return approval.New(ctx, env, s)
}

func makeDispatcher(ctx context.Context, env *service.Env, c Choices) (service.Runner, error) {
	var s dispatcher.Settings
	if err := service.Load("DISPATCHER", &s); err != nil {
		return nil, err
	}
	if c.LeaseMargin > 0 {
		s.LeaseMargin = c.LeaseMargin
	}
	s.Enabled = c.EnableActions || os.Getenv("AI_ACTIONS_ENABLED") == "true"
	return dispatcher.New(ctx, env, s)
}

func makeReconciler(ctx context.Context, env *service.Env, c Choices) (service.Runner, error) {
	var s reconciler.Settings
	if err := service.Load("RECONCILER", &s); err != nil {
		return nil, err
	}
	s.Addr = cmp.Or(c.WebhookAddr, s.Addr)
	return reconciler.New(ctx, env, s)
}
