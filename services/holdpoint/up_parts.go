package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// startDatabase is a given Postgres, or one that this process runs.
func startDatabase(ctx context.Context, f upFlags, dir string, log *slog.Logger, stops *stopList) (string, error) {
	if given := os.Getenv("HOLDPOINT_DATABASE_URL"); given != "" {
		return given, nil
	}
	server, err := postgres.Start(ctx, postgres.ServerConfig{
		DataDir: filepath.Join(dir, "postgres"), Port: f.postgresPort, BinDir: f.postgresBin, Durable: true,
		Fetch: postgres.FetchBinaries(filepath.Join(dir, "postgres-binaries")), Logger: log,
	})
	if err != nil {
		return "", err
	}
	stops.add(func() error {
		stopping, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := server.Stop(stopping)
		if f.ephemeral && server.DataDir != filepath.Join(dir, "postgres") {
			err = errors.Join(err, os.RemoveAll(server.DataDir))
		}
		return err
	})
	return server.URL(), nil
}

// startBroker runs NATS in this process. The example tenant has a login of its own.
func startBroker(
	ctx context.Context, f upFlags, dir string, log *slog.Logger, stops *stopList,
) (services, tenant string, err error) {
	secret, err := secretIn(filepath.Join(dir, "nats-password"))
	if err != nil {
		return "", "", err
	}
	server, err := bus.Embedded(ctx, bus.EmbeddedConfig{
		Dir: filepath.Join(dir, "nats"), Port: f.natsPort, Users: roster.BrokerUsers(secret, "demo", "demo"), Logger: log,
	})
	if err != nil {
		return "", "", err
	}
	stops.add(func() error { server.Close(); return nil })
	_, port, err := net.SplitHostPort(server.URL()[strings.LastIndexByte(server.URL(), '@')+1:])
	return server.URL(), "nats://demo:demo@127.0.0.1:" + port, err
}

// secretIn reads a random password from a file, or makes one that only this user can read.
func secretIn(file string) (string, error) {
	known, err := os.ReadFile(file)
	if err == nil && len(known) > 0 {
		return string(known), nil
	}
	secret := rand.Text()
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		return "", fmt.Errorf("keep the broker's password: %w", err)
	}
	return secret, nil
}
