package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// serveCommand runs one service alone, with settings from the environment.
func serveCommand(d definition) *cobra.Command {
	return &cobra.Command{
		Use:   d.name,
		Short: "Run the service that " + d.about,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd, d) },
	}
}

func serve(cmd *cobra.Command, d definition) error {
	ctx := cmd.Context()
	var s service.Settings
	if err := service.Load("", &s); err != nil {
		return err
	}
	if s.DatabaseURL == "" || s.NatsURL == "" {
		return errors.New("HOLDPOINT_DATABASE_URL and HOLDPOINT_NATS_URL must be set; `holdpoint up` needs neither")
	}
	log := service.NewLogger(s.LogLevel)
	stop, err := service.Telemetry(ctx, d.name)
	if err != nil {
		return err
	}
	defer func() { _ = stop(cmd.Root().Context()) }()
	cfg, err := config.LoadDir(s.ConfigDir)
	if err != nil {
		return fmt.Errorf("configuration in %s:\n%w", s.ConfigDir, err)
	}
	conn, err := bus.Connect(ctx, bus.ConnectConfig{URL: s.NatsURL, Name: "holdpoint-" + d.name, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	health, err := service.NewHealth(s.OpsAddr)
	if err != nil {
		return err
	}
	env, err := service.NewEnv(ctx, service.Needs{Service: d.name, DatabaseURL: s.DatabaseURL, MaxConns: s.DatabaseConnections,
		Bus: conn, Config: cfg, Log: log, Health: health})
	if err != nil {
		return err
	}
	defer env.Close()
	runner, err := d.make(ctx, env, overrides{})
	if err != nil {
		return err
	}
	log.Info("service started", "service", d.name, "configuration", cfg.Version, "health", health.Addr())
	return service.RunAll(ctx, log, s.DrainTimeout, service.Named{Name: "health", Runner: health}, service.Named{Name: d.name, Runner: runner})
}
