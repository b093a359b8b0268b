package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// cutting is a connection that can be cut while COMMIT is on its way.
type cutting struct {
	net.Conn
	when *atomic.Int32
}

// Where the connection is cut.
const (
	never        = iota
	beforeCommit // the server never sees COMMIT
	afterCommit  // the server executes it, its answer is lost
)

func (c *cutting) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("commit")) || c.when.Load() == never {
		return c.Conn.Write(p)
	}
	if c.when.Load() == afterCommit {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
		if _, err := c.Conn.Read(make([]byte, 1)); err != nil { // The answer has arrived: the commit is done.
			return 0, err
		}
	}
	return len(p), c.Conn.Close()
}

func cuttingPool(t *testing.T, url string, when *atomic.Int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &cutting{Conn: conn, when: when}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestInTx(t *testing.T) {
	t.Parallel()
	type bundle struct {
		db   *postgrestest.DB
		pool *pgxpool.Pool
	}
	setup := func(t *testing.T) *bundle {
		t.Parallel()
		db := postgrestest.New(t)
		b := &bundle{db: db, pool: db.Pool("")}
		_, err := b.pool.Exec(t.Context(),
			"CREATE TABLE notes (id int CONSTRAINT notes_once UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		require.NoError(t, err)
		return b
	}
	insert := func(ctx context.Context, id int) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO notes VALUES ($1)", id)
			return err
		}
	}
	count := func(t *testing.T, b *bundle) int {
		return one[int](t, b.pool, "SELECT count(*) FROM notes")
	}

	t.Run("NilResultCommits", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, postgres.InTx(t.Context(), b.pool, insert(t.Context(), 1)))
		require.Equal(t, 1, count(t, b))
	})

	t.Run("ErrorRollsBackAndIsReturnedAsItIs", func(t *testing.T) {
		b := setup(t)
		refused := errors.New("refused")
		err := postgres.InTx(t.Context(), b.pool, func(tx pgx.Tx) error {
			return errors.Join(insert(t.Context(), 1)(tx), refused)
		})
		require.ErrorIs(t, err, refused)
		require.Zero(t, count(t, b))
	})

	t.Run("PanicRollsBackAndGoesOn", func(t *testing.T) {
		b := setup(t)
		require.PanicsWithValue(t, "lost", func() {
			_ = postgres.InTx(t.Context(), b.pool, func(tx pgx.Tx) error {
				require.NoError(t, insert(t.Context(), 1)(tx))
				panic("lost")
			})
		})
		require.Zero(t, count(t, b))
		require.Zero(t, b.pool.Stat().AcquiredConns(), "the connection is back in the pool")
	})

	t.Run("ClientThatLeavesBeforeTheCommitDoesNotUndoIt", func(t *testing.T) {
		b := setup(t)
		ctx, leave := context.WithCancel(t.Context())
		err := postgres.InTx(ctx, b.pool, func(tx pgx.Tx) error {
			err := insert(ctx, 1)(tx)
			leave()
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 1, count(t, b))
	})

	t.Run("ConstraintThatFailsAtCommitIsADefiniteDataError", func(t *testing.T) {
		b := setup(t)
		err := postgres.InTx(t.Context(), b.pool, func(tx pgx.Tx) error {
			return errors.Join(insert(t.Context(), 1)(tx), insert(t.Context(), 1)(tx))
		})
		require.True(t, postgres.DataError(err), "%v", err)
		require.False(t, postgres.CommitUnknown(err))
		require.Zero(t, count(t, b))
	})

	for name, c := range map[string]struct{ cut, rows int }{
		"ConnectionCutBeforeCommitIsUnknownAndNothingIsStored": {beforeCommit, 0},
		"ConnectionCutAfterCommitIsUnknownAndTheRowIsStored":   {afterCommit, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			var when atomic.Int32
			pool := cuttingPool(t, b.db.URL, &when)
			err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				defer when.Store(int32(c.cut))
				return insert(t.Context(), 1)(tx)
			})
			require.True(t, postgres.CommitUnknown(err), "%v", err)
			require.True(t, postgres.Retryable(err), "%v", err)
			require.Equal(t, c.rows, count(t, b))
		})
	}

	t.Run("BackendTakenAwayDuringTheWorkIsRetryableAndKnownToBeUndone", func(t *testing.T) {
		b := setup(t)
		err := postgres.InTx(t.Context(), b.pool, func(tx pgx.Tx) error {
			_, err := b.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1, 5000)", tx.Conn().PgConn().PID())
			require.NoError(t, err)
			return insert(t.Context(), 1)(tx)
		})
		require.True(t, postgres.Retryable(err), "%v", err)
		require.False(t, postgres.CommitUnknown(err))
		require.Zero(t, count(t, b))
	})

	t.Run("ClosedPoolIsRetryable", func(t *testing.T) {
		b := setup(t)
		pool := b.db.Pool("")
		pool.Close()
		require.True(t, postgres.Retryable(postgres.InTx(t.Context(), pool, insert(t.Context(), 1))))
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)

	t.Run("SessionsWorkAsTheRoleWithinLimits", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.Open(t.Context(), postgres.PoolConfig{
			URL: db.URL, Role: "holdpoint_intake", ApplicationName: "intake",
			StatementTimeout: 2 * time.Second, MaxConns: 3,
		})
		require.NoError(t, err)
		defer pool.Close()
		require.Equal(t, "holdpoint_intake", one[string](t, pool, "SELECT current_user"))
		for setting, want := range map[string]string{
			"application_name": "intake", "statement_timeout": "2s", "lock_timeout": "5s",
			"idle_in_transaction_session_timeout": "30s", "TimeZone": "UTC",
		} {
			require.Equal(t, want, one[string](t, pool, "SELECT current_setting($1)", setting), setting)
		}
		require.EqualValues(t, 3, pool.Config().MaxConns)
	})

	t.Run("LockWaitEndsBeforeTheStatement", func(t *testing.T) {
		t.Parallel()
		holder := db.Pool("")
		_, err := holder.Exec(t.Context(), "CREATE TABLE held ()")
		require.NoError(t, err)
		pool, err := postgres.Open(t.Context(), postgres.PoolConfig{URL: db.URL, LockTimeout: 20 * time.Millisecond})
		require.NoError(t, err)
		defer pool.Close()
		err = postgres.InTx(t.Context(), holder, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "LOCK TABLE held")
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "SELECT FROM held")
			return err
		})
		require.ErrorContains(t, err, "55P03")
		require.True(t, postgres.Retryable(err))
	})

	t.Run("MissingRoleIsToldAtTheStart", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Open(t.Context(), postgres.PoolConfig{URL: db.URL, Role: "nobody_knows"})
		require.ErrorContains(t, err, "nobody_knows")
	})

	t.Run("UnreachableServerIsToldAndRetryable", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Open(t.Context(), postgres.PoolConfig{URL: "postgres://u:secret@127.0.0.1:1/x"})
		require.True(t, postgres.Retryable(err), "%v", err)
		require.NotContains(t, err.Error(), "secret")
	})

	t.Run("IncompleteConfigurationIsRefusedWithAllComplaints", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Open(t.Context(), postgres.PoolConfig{MaxConns: -1})
		require.ErrorContains(t, err, "HOLDPOINT_DATABASE_URL")
		require.ErrorContains(t, err, "MaxConns")
	})
}
