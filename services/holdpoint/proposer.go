package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/proposer"
)

// proposerCommand runs the proposer alone. It is not in the roster, whose services all have a database and the broker:
// this one works through the API like any other worker.
func proposerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "proposer",
		Short: "Run the service that asks a model for proposals, as a worker of the API",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serveProposer(cmd) },
	}
}

func serveProposer(cmd *cobra.Command) error {
	ctx := cmd.Context()
	var common service.Settings
	var own proposer.Settings
	if err := service.Load("", &common); err != nil {
		return err
	}
	if err := service.Load("PROPOSER", &own); err != nil {
		return err
	}
	queues, err := own.Queues()
	if err != nil {
		return err
	}
	log := service.NewLogger(common.LogLevel).With("service", "proposer")
	stop, err := service.Telemetry(ctx, "proposer")
	if err != nil {
		return err
	}
	defer func() { _ = stop(cmd.Root().Context()) }()
	cfg, err := config.LoadDir(common.ConfigDir)
	if err != nil {
		return fmt.Errorf("configuration in %s:\n%w", common.ConfigDir, err)
	}
	drain := common.DrainTimeout * 4 / 5 // the rest is for giving back what could not be finished
	p, err := proposer.New(ctx, proposer.Config{Tenants: cfg.Tenants, Queue: queues, Log: log, Drain: drain})
	if err != nil {
		return err
	}
	health, err := service.NewHealth(common.OpsAddr)
	if err != nil {
		return err
	}
	log.Info("service started", "configuration", cfg.Version, "health", health.Addr())
	return service.RunAll(ctx, log, common.DrainTimeout, service.Named{Name: "health", Runner: health},
		service.Named{Name: "proposer", Runner: p})
}
