// Command holdpoint stands between AI workflows and the real-world writes they propose. `up` runs everything on one machine; each
// service also runs alone; the other verbs are for operators.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/dispatcher"
	"github.com/holdpoint/holdpoint/services/intake"
	"github.com/holdpoint/holdpoint/services/policy"
	"github.com/holdpoint/holdpoint/services/reconciler"
	"github.com/holdpoint/holdpoint/services/relay"
)

// definition is one service: how it is called, and how it is made from its environment.
type definition struct {
	name  string
	about string
	make  func(context.Context, *service.Env, overrides) (service.Runner, error)
}

// services in the order in which a run meets them.
var services = []definition{
	{"intake", "takes events in, claims their keys, gives workers leases", makeIntake},
	{"relay", "publishes what was committed, keeps the broker's streams in being", makeRelay},
	{"policy", "routes intents by the tenant's rules", makePolicy},
	{"dispatcher", "sends authorized effects, each at most once", makeDispatcher},
	{"reconciler", "finds out by reading what is unknown", makeReconciler},
}

// overrides are what `up` decides where a service alone reads the environment.
type overrides struct {
	intakeAddr    string
	enableActions bool
}

func makeIntake(ctx context.Context, env *service.Env, o overrides) (service.Runner, error) {
	var s intake.Settings
	if err := service.Load("INTAKE", &s); err != nil {
		return nil, err
	}
	if o.intakeAddr != "" {
		s.Addr = o.intakeAddr
		if s.PublicURL == "" {
			s.PublicURL = "http://" + o.intakeAddr
		}
	}
	return intake.New(ctx, env, s)
}

func makeRelay(_ context.Context, env *service.Env, _ overrides) (service.Runner, error) {
	var s relay.Settings
	if err := service.Load("RELAY", &s); err != nil {
		return nil, err
	}
	return relay.New(env, s)
}

func makePolicy(_ context.Context, env *service.Env, _ overrides) (service.Runner, error) {
	return policy.New(env)
}

func makeDispatcher(_ context.Context, env *service.Env, o overrides) (service.Runner, error) {
	var s dispatcher.Settings
	if err := service.Load("DISPATCHER", &s); err != nil {
		return nil, err
	}
	s.Enabled = o.enableActions || os.Getenv("AI_ACTIONS_ENABLED") == "true"
	return dispatcher.New(env, s)
}

func makeReconciler(_ context.Context, env *service.Env, _ overrides) (service.Runner, error) {
	return reconciler.New(env)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "holdpoint",
		Short:         "Hold AI workflows at the point where they would write to the real world",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), migrateCommand(), explainCommand(), killSwitchCommand(), resolveCommand(), parkedCommand(), sandboxCommand(), sitesCommand())
	for _, d := range services {
		root.AddCommand(serveCommand(d))
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "holdpoint:", err)
		os.Exit(1)
	}
}
