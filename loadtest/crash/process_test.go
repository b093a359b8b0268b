package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// childEnv turns this test binary into the program: the services that it runs are those that the test was compiled
// with.
const childEnv = "HOLDPOINT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := child(ctx, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv(childEnv, "1"); err != nil { // for the children of this process
		panic(err)
	}
	os.Exit(m.Run())
}

// child is `holdpoint sandbox …` or `holdpoint SERVICE`.
func child(ctx context.Context, args []string) error {
	if args[0] == "sandbox" {
		var cfg sandbox.Config
		flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
		flags.StringVar(&cfg.Addr, "addr", "", "")
		flags.StringVar(&cfg.DataDir, "data", "", "")
		flags.StringVar(&cfg.ReadyFile, "ready-file", "", "")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return sandbox.Run(ctx, cfg)
	}
	return serve(ctx, args[0])
}

// serve runs one service with the settings of its environment.
func serve(ctx context.Context, name string) error {
	var s service.Settings
	if err := service.Load("", &s); err != nil {
		return err
	}
	cfg, err := config.LoadDir(s.ConfigDir)
	if err != nil {
		return err
	}
	log := service.NewLogger(slog.LevelInfo)
	conn, err := bus.Connect(ctx, bus.ConnectConfig{URL: s.NatsURL, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	health, err := service.NewHealth(s.OpsAddr)
	if err != nil {
		return err
	}
	d, err := roster.Named(name)
	if err != nil {
		return err
	}
	ready, err := d.Open(ctx, service.Needs{DatabaseURL: s.DatabaseURL, MaxConns: s.DatabaseConnections, Bus: conn,
		Config: cfg, Log: log, Health: health}, roster.Choices{})
	if err != nil {
		return err
	}
	defer ready.Close()
	return service.RunAll(ctx, log, s.DrainTimeout, service.Named{Name: "health", Runner: health}, ready.Named)
}

// startKilled starts a world of the services that this test binary was compiled with.
func startKilled(t *testing.T, f *flow) (context.Context, *world, *suite) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/var/tmp", "holdpoint-crash-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711)) // Postgres may run under another account
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w, err := newWorld(ctx, dir, self, f, slog.New(slog.DiscardHandler))
	t.Cleanup(w.close)
	require.NoError(t, err)
	return ctx, w, &suite{prefix: "killed", results: map[string]string{}, statuses: map[string]int{}, progress: t.Output()}
}

// storm has a service killed for each of some events, wherever it happens to be.
func storm(ctx context.Context, t *testing.T, w *world, s *suite, events int, of func(n int) journey) {
	for n := range events {
		s.try(ctx, w, testCase{site: "any/where", side: fmt.Sprint("storm ", n), journey: of(n)}, n+2)
	}
	require.Empty(t, s.broken)
	// An effect that a killed reconciler had taken up would come again after 45 seconds.
	_, err := w.db.Exec(ctx, "update effects set next_check_at = clock_timestamp() where state = 'unknown'")
	require.NoError(t, err)
}

// The build of the tests has no boundaries, so the services are killed from outside: where the provider says that
// it has a write and has not answered, and wherever they happen to be.
func TestServicesThatAreKilled(t *testing.T) {
	t.Parallel()
	ctx, w, s := startKilled(t, autoFlow)

	t.Run("DoNothingTwiceAndLoseNothing", func(t *testing.T) {
		onAccept := testCase{site: "dispatcher/send", side: accepted, journey: journey{name: "killed", run: killOnAccept}}
		require.True(t, s.try(ctx, w, onAccept, 1))
		storm(ctx, t, w, s, 20, func(n int) journey {
			return journey{name: "storm", run: func(ctx context.Context, t *trial) error {
				if err := t.deliver(ctx); err != nil {
					return err
				}
				// What was sent before is on its way meanwhile. try starts the service again.
				t.down(w.flow.services[n%len(w.flow.services)])
				return t.ensure()
			}}
		})
		is, err := s.settle(ctx, w, 30*time.Second)
		require.NoError(t, err)
		found := check(s.expected, is)
		require.Empty(t, found.broken)
		require.Len(t, is.runs, 21)
		require.Empty(t, w.surprises())
	})
}

// The same, with people who decide.
func TestServicesThatAreKilledWhilePeopleDecide(t *testing.T) {
	t.Parallel()
	ctx, w, s := startKilled(t, reviewFlow)
	onAccept := testCase{site: "dispatcher/send", side: accepted,
		journey: journey{name: "killed", run: killOnAccept, action: refund}}
	require.True(t, s.try(ctx, w, onAccept, 1))
	storm(ctx, t, w, s, 12, func(n int) journey {
		decision, result, ends := ledger.Approve, ledger.VoteApproved, completed
		if n%4 == 3 {
			decision, result, ends = ledger.Reject, ledger.VoteRejected, turnedDown
		}
		return journey{name: "storm", action: refund, ends: ends, run: func(ctx context.Context, t *trial) error {
			if err := t.deliver(ctx); err != nil {
				return err
			}
			t.down(w.flow.services[n%len(w.flow.services)])
			if err := errors.Join(t.ensure(), t.awaitsHuman(ctx), t.told(ctx)); err != nil {
				return err
			}
			t.down(w.flow.services[(n+3)%len(w.flow.services)])
			return errors.Join(t.ensure(), t.decides(ctx, nora, decision, "", result))
		}}
	})
	is, err := s.settle(ctx, w, 30*time.Second)
	require.NoError(t, err)

	t.Run("DecideOnceAndPayOnce", func(t *testing.T) {
		require.Empty(t, check(s.expected, is).broken)
		require.Len(t, is.approvals, 13)
		require.Len(t, is.writes, 10)
		require.GreaterOrEqual(t, len(is.messages), 12*addresses)
		require.Empty(t, w.surprises())
	})

	t.Run("TokenThatIsStoredIsFound", func(t *testing.T) {
		token := is.messages[0].Token
		for _, sql := range []string{
			"insert into sessions (token, data, expiry) values ($1, '', clock_timestamp())",
			"insert into sessions (token, data, expiry) values ('in bytes', convert_to($1, 'UTF8'), clock_timestamp())",
		} {
			_, err := w.db.Exec(ctx, sql, token)
			require.NoError(t, err)
		}
		leaks, err := w.leaks(ctx, is.messages)
		require.NoError(t, err)
		require.Equal(t, []string{"2 rows of sessions"}, leaks)
	})
}
