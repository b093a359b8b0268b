package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// logWarnings says what counts for nothing in the files, and what soon will.
func logWarnings(log *slog.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings {
		log.Warn(w.Msg, "tenant", w.Tenant, "place", w.Pos.String())
	}
}

// serveCommand runs one service alone, with settings from the environment.
func serveCommand(d roster.Service) *cobra.Command {
	return &cobra.Command{
		Use:   d.Name,
		Short: "Run the service that " + d.About,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd, d) },
	}
}

func serve(cmd *cobra.Command, d roster.Service) error {
	service.TuneMemory(0) // the deployment knows what the process may use: GOMEMLIMIT
	ctx := cmd.Context()
	var s service.Settings
	if err := service.Load("", &s); err != nil {
		return err
	}
	if s.DatabaseURL == "" || s.NatsURL == "" {
		return errors.New("HOLDPOINT_DATABASE_URL and HOLDPOINT_NATS_URL must be set; `holdpoint up` needs neither")
	}
	log := service.NewLogger(s.LogLevel)
	service.TakeStandardLog(log)
	stop, err := service.Telemetry(ctx, d.Name)
	if err != nil {
		return err
	}
	defer func() { _ = stop(cmd.Root().Context()) }()
	cfg, err := config.LoadDir(s.ConfigDir)
	if err != nil {
		return fmt.Errorf("configuration in %s:\n%w", s.ConfigDir, err)
	}
	logWarnings(log, cfg)
	conn, err := bus.Connect(ctx, bus.ConnectConfig{URL: s.NatsURL, Name: "holdpoint-" + d.Name, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	health, err := service.NewHealth(s.OpsAddr)
	if err != nil {
		return err
	}
	ready, err := d.Open(ctx, service.Needs{DatabaseURL: s.DatabaseURL, MaxConns: s.DatabaseConnections, Bus: conn, Config: cfg,
		Log: log, Health: health, PolicyActivation: s.PolicyActivation}, roster.Choices{})
	if err != nil {
		return err
	}
	defer ready.Close()
	log.Info("service started", "service", d.Name, "configuration", cfg.Version, "health", health.Addr())
	return service.RunAll(ctx, log, s.DrainTimeout, service.Named{Name: "health", Runner: health}, ready.Named)
}
