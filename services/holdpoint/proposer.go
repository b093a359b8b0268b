package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
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
	service.TakeStandardLog(log)
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

// startProposer is the proposer of `up`, where some source wants one. It calls the API with the demo key; a configuration
// that has other keys names them as it does for a proposer that runs alone.
func startProposer(ctx context.Context, cfg *config.Config, intakeAddr string, log *slog.Logger) ([]service.Named, error) {
	if !proposer.Wanted(cfg.Tenants) {
		return nil, nil
	}
	own := proposer.Settings{IntakeURL: "http://" + intakeAddr}
	if err := service.Load("PROPOSER", &own); err != nil {
		return nil, err
	}
	own.IntakeURL = cmp.Or(own.IntakeURL, "http://"+intakeAddr)
	queues := func(string) (proposer.Queue, error) {
		return client.New(client.Config{BaseURL: own.IntakeURL, APIKey: roster.DemoKey})
	}
	switch {
	case own.APIKeysDir != "":
		var err error
		if queues, err = own.Queues(); err != nil {
			return nil, err
		}
	case !takesDemoKey(cfg):
		log.Warn("sources with a proposer wait: set HOLDPOINT_PROPOSER_API_KEYS_DIR to a folder with an API key for each tenant")
		return nil, nil
	}
	p, err := proposer.New(ctx, proposer.Config{Tenants: cfg.Tenants, Queue: queues, Log: log.With("service", "proposer")})
	if err != nil {
		return nil, err
	}
	return []service.Named{{Name: "proposer", Runner: p}}, nil
}

// takesDemoKey tells whether all tenants that draft take the key that everybody knows.
func takesDemoKey(cfg *config.Config) bool {
	sum := sha256.Sum256([]byte(roster.DemoKey))
	known := hex.EncodeToString(sum[:])
	for _, t := range cfg.Tenants {
		if proposer.Wanted([]*config.Tenant{t}) &&
			!slices.ContainsFunc(t.APIKeys, func(k config.APIKey) bool { return k.SHA256 == known }) {
			return false
		}
	}
	return true
}
