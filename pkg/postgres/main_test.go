package postgres_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// serverProcessEnv turns this test binary into a process that starts a durable server in the named directory, prints
// its URL and process id, and then waits for the end of its standard input or for being killed.
const serverProcessEnv = "HOLDPOINT_TEST_SERVER_PROCESS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverProcessEnv); dir != "" {
		if err := serverProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serverProcess(dir string) error {
	ctx := context.Background()
	server, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: dir, Durable: true})
	if err != nil {
		return err
	}
	fmt.Println(server.URL(), server.PID())
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	return server.Stop(ctx)
}

// How long a test waits for something observed in the database, and how often it looks.
const (
	waitLimit = 30 * time.Second
	pollEvery = 10 * time.Millisecond
)
