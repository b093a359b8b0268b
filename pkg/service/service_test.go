package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
	"github.com/holdpoint/holdpoint/pkg/service"
)

var quiet = slog.New(slog.DiscardHandler)

type part func(context.Context) error

func (p part) Run(ctx context.Context) error { return p(ctx) }

func untilStopped(ctx context.Context) error { <-ctx.Done(); return nil }

func TestRunAll(t *testing.T) {
	t.Parallel()

	t.Run("AStopOfAllIsNoError", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, service.RunAll(ctx, quiet, time.Minute,
			service.Named{Name: "a", Runner: part(untilStopped)}, service.Named{Name: "b", Runner: part(untilStopped)}))
	})

	t.Run("OnePartThatFailsStopsTheOthersAndIsNamed", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("out of paper")
		err := service.RunAll(t.Context(), quiet, time.Minute,
			service.Named{Name: "printer", Runner: part(func(context.Context) error { return cause })},
			service.Named{Name: "other", Runner: part(untilStopped)})
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "printer")
		require.NotContains(t, err.Error(), "other")
	})

	t.Run("APartThatEndsStopsTheOthers", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, service.RunAll(t.Context(), quiet, time.Minute,
			service.Named{Name: "done", Runner: part(func(context.Context) error { return nil })},
			service.Named{Name: "other", Runner: part(untilStopped)}))
	})

	t.Run("APartThatOutlastsTheDrainIsNamed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			release := make(chan struct{})
			defer close(release)
			cancel()
			began := time.Now()
			err := service.RunAll(ctx, quiet, 7*time.Second,
				service.Named{Name: "slow", Runner: part(func(context.Context) error { <-release; return nil })})
			require.ErrorContains(t, err, "slow did not finish within 7s")
			require.Equal(t, 7*time.Second, time.Since(began))
		})
	})
}

func TestLoop(t *testing.T) {
	t.Parallel()

	// calls runs a loop for so long and returns when, after its start, it called.
	calls := func(t *testing.T, l service.Loop, lasts time.Duration, once func(n int) (bool, error)) []time.Duration {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		began := time.Now()
		var at []time.Duration
		l.Log = quiet
		l.Once = func(context.Context) (bool, error) {
			at = append(at, time.Since(began))
			return once(len(at))
		}
		require.NoError(t, l.Run(ctx))
		return at
	}
	nothing := func(int) (bool, error) { return false, nil }

	t.Run("ItCallsAtOnceAndThenAfterEachPause", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			at := calls(t, service.Loop{Pause: 10 * time.Second}, 35*time.Second, nothing)
			require.Zero(t, at[0])
			for n, when := range at {
				require.InDelta(t, 10*n, when.Seconds(), float64(n)+0.01, "give or take a tenth of a pause each")
			}
			require.GreaterOrEqual(t, len(at), 4)
		})
	})

	t.Run("ItGoesOnWithoutAPauseWhileThereIsWork", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			at := calls(t, service.Loop{Pause: time.Hour}, time.Minute, func(n int) (bool, error) { return n < 5, nil })
			require.Equal(t, make([]time.Duration, 5), at)
		})
	})

	t.Run("AnErrorIsWaitedOutWhoeverWakesIt", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wake := make(chan struct{}, 1)
			wake <- struct{}{}
			at := calls(t, service.Loop{Pause: time.Hour, Wake: wake}, 2500*time.Millisecond, func(n int) (bool, error) {
				if n <= 2 {
					return true, errors.New("down")
				}
				return false, nil
			})
			require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 2 * time.Second}, at)
		})
	})

	t.Run("AWakeUpComesAtOnceButNotInsideTheGap", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wake := make(chan struct{}, 1)
			go func() {
				for _, pause := range []time.Duration{time.Second, time.Millisecond, time.Millisecond} {
					<-time.After(pause) // by the clock of the bubble
					wake <- struct{}{}
				}
			}()
			at := calls(t, service.Loop{Pause: time.Hour, Wake: wake, Gap: 10 * time.Millisecond}, time.Minute, nothing)
			require.Equal(t, []time.Duration{0, time.Second, time.Second + 10*time.Millisecond}, at[:3])
			require.LessOrEqual(t, len(at), 4)
		})
	})

	t.Run("AStopEndsAPauseAndIsNoError", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var log bytes.Buffer
			l := service.Loop{Name: "l", Pause: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Once: func(context.Context) (bool, error) { cancel(); return false, ctx.Err() }}
			require.NoError(t, l.Run(ctx))
			require.Empty(t, log.String(), "what a stop interrupts is no failure")
		})
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h, err := service.NewHealth("127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	get := func(path string) (int, string) {
		response, err := http.Get("http://" + h.Addr() + path)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	problems := func(body string) (p struct {
		Ready    bool
		Problems map[string]string
	}) {
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		return p
	}

	status, body := get("/readyz")
	require.Equal(t, http.StatusOK, status)
	require.True(t, problems(body).Ready)

	var down error
	h.Add("database", func(context.Context) error { return down })
	down = errors.New("connection refused")
	status, body = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, map[string]string{"database": "connection refused"}, problems(body).Problems)
	status, _ = get("/healthz")
	require.Equal(t, http.StatusOK, status, "a process whose database is away is not to be killed")
	status, _ = get("/metrics")
	require.Equal(t, http.StatusOK, status)

	down = nil
	h.Drain()
	status, body = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "stopping", problems(body).Problems["process"])
	cancel()
	require.NoError(t, <-ended)

	_, err = service.NewHealth("127.0.0.1:99999")
	require.ErrorContains(t, err, "HOLDPOINT_OPS_ADDR")
}

func TestLoad(t *testing.T) {
	t.Setenv("HOLDPOINT_DATABASE_URL", "postgres://ours")
	t.Setenv("DATABASE_URL", "postgres://stray")
	t.Setenv("NATS_URL", "nats://stray")
	var s service.Settings
	require.NoError(t, service.Load("", &s))
	require.Equal(t, "postgres://ours", s.DatabaseURL)
	require.Empty(t, s.NatsURL, "a variable without the prefix is not ours")
	require.Equal(t, 25*time.Second, s.DrainTimeout)
	require.EqualValues(t, 8, s.DatabaseConnections)
	require.Equal(t, service.ActivateExplicitly, s.PolicyActivation, "a roll-out changes no policy (P7)")
	t.Setenv("HOLDPOINT_POLICY_ACTIVATION", "files")
	require.NoError(t, service.Load("", &s))
	require.Equal(t, service.ActivateFiles, s.PolicyActivation)
	t.Setenv("HOLDPOINT_POLICY_ACTIVATION", "sometimes")
	require.ErrorContains(t, service.Load("", &s), "allowed: explicit, files")
	t.Setenv("HOLDPOINT_POLICY_ACTIVATION", "files")

	var own struct {
		LeaseMargin time.Duration `split_words:"true"`
	}
	t.Setenv("HOLDPOINT_DISPATCHER_LEASE_MARGIN", "3s")
	require.NoError(t, service.Load("DISPATCHER", &own))
	require.Equal(t, 3*time.Second, own.LeaseMargin)
	t.Setenv("HOLDPOINT_DISPATCHER_LEASE_MARGIN", "soon")
	require.ErrorContains(t, service.Load("DISPATCHER", &own), "HOLDPOINT_DISPATCHER_")
}

func TestEnv(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	conn, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: "nats://127.0.0.1:1", Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	h, err := service.NewHealth("127.0.0.1:0")
	require.NoError(t, err)
	needs := service.Needs{Service: "policy", DatabaseURL: db.URL, MaxConns: 2, Bus: conn, Config: &config.Config{},
		Log: quiet, Health: h}
	env, err := service.NewEnv(t.Context(), needs)
	require.NoError(t, err)
	t.Cleanup(env.Close)
	var role string
	require.NoError(t, env.Pool.QueryRow(t.Context(), "select current_user").Scan(&role))
	require.Equal(t, "holdpoint_policy", role, "a service works under its own role (D1)")

	t.Run("ACommandThatCommittedWakesTheRelayEvenWhenNobodyListens", func(t *testing.T) {
		double := service.Waking(env, func(_ context.Context, items []int) ([]int, error) {
			return append(items, items...),
				nil
		})
		out, err := double(t.Context(), []int{1})
		require.NoError(t, err)
		require.Equal(t, []int{1, 1}, out)
		cause := errors.New("no commit")
		failing := service.Waking(env, func(context.Context, []int) ([]int, error) { return nil, cause })
		_, err = failing(t.Context(), nil)
		require.ErrorIs(t, err, cause)
	})

	t.Run("AnUnknownServiceIsRefused", func(t *testing.T) {
		needs.Service = "nobody"
		_, err := service.NewEnv(t.Context(), needs)
		require.Error(t, err)
	})
}
