// Command holdpoint stands between AI workflows and the real-world writes they propose. `up` runs everything on one machine; each
// service also runs alone; the other verbs are for operators. Package roster lists the services.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "holdpoint",
		Short:         "Hold AI workflows at the point where they would write to the real world",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), migrateCommand(), explainCommand(), killSwitchCommand(), recallCommand(), restoreCommand(), approvalsCommand(),
		deskCommand(), resolveCommand(), parkedCommand(), eventsCommand(), contractsCommand(), sandboxCommand(), demoSignInCommand(),
		sitesCommand(), natsConfigCommand(), proposerCommand(), mcpCommand(), connectorCommand())
	for _, d := range roster.Services {
		serve := serveCommand(d)
		if d.Name == ledger.Policy {
			addPolicyVerbs(serve)
		}
		root.AddCommand(serve)
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "holdpoint:", err)
		os.Exit(exitCode(err))
	}
}
