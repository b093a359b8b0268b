package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits of a service's sessions. Each is shorter than the next, so that the innermost gives up first and its error
// says what was waited for:
//
//	lock wait       5 s   a row held by another batch
//	statement      15 s   one set-based statement
//	idle in tx     30 s   a transaction that nobody drives: it pins dead rows for everybody
const (
	DefaultLockTimeout              = 5 * time.Second
	DefaultStatementTimeout         = 15 * time.Second
	DefaultIdleInTransactionTimeout = 30 * time.Second
	defaultMaxConns                 = 8
)

// PoolConfig says who connects and how patient it is. Only URL must be given.
type PoolConfig struct {
	// URL is a postgres:// address or a key=value connection string.
	URL string
	// Role is the Postgres role that every session works as, so that its grants cover only its service's moves (D1).
	// The login user must be a member of it. Empty means the login user itself.
	Role string
	// MaxConns bounds the pool. Default: 8.
	MaxConns int32
	// ApplicationName appears in pg_stat_activity. Default: holdpoint.
	ApplicationName string
	// LockTimeout, StatementTimeout and IdleInTransactionTimeout default to the constants above.
	LockTimeout, StatementTimeout, IdleInTransactionTimeout time.Duration
}

func (c *PoolConfig) validate() error {
	var problems []error
	if c.URL == "" {
		problems = append(problems, errors.New("the address (HOLDPOINT_DATABASE_URL) is empty"))
	}
	if c.MaxConns < 0 {
		problems = append(problems, fmt.Errorf("MaxConns is %d, want at least 1", c.MaxConns))
	}
	return errors.Join(problems...)
}

// Open makes a pool and checks that one session can be had, so that a wrong address or a missing role is told at the
// start and not by the first event. Close the pool when done.
func Open(ctx context.Context, cfg PoolConfig) (*pgxpool.Pool, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open Postgres: %w", err)
	}
	parsed, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("open Postgres: read the address: %w", err)
	}
	parsed.MaxConns = cmp.Or(cfg.MaxConns, defaultMaxConns)
	parsed.MaxConnLifetime = time.Hour
	parsed.MaxConnLifetimeJitter = 10 * time.Minute // Connections made together must not all be remade together.
	parsed.ConnConfig.ConnectTimeout = cmp.Or(parsed.ConnConfig.ConnectTimeout, 5*time.Second)
	params := parsed.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(cfg.ApplicationName, params["application_name"], "holdpoint")
	params["timezone"] = "UTC"
	params["lock_timeout"] = milliseconds(cfg.LockTimeout, DefaultLockTimeout)
	params["statement_timeout"] = milliseconds(cfg.StatementTimeout, DefaultStatementTimeout)
	params["idle_in_transaction_session_timeout"] =
		milliseconds(cfg.IdleInTransactionTimeout, DefaultIdleInTransactionTimeout)
	if cfg.Role != "" {
		params["role"] = cfg.Role
	}
	parsed.AfterConnect = registerUUID
	pool, err := pgxpool.NewWithConfig(ctx, parsed)
	if err != nil {
		return nil, fmt.Errorf("open Postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open Postgres as role %q: %w", cfg.Role, err)
	}
	return pool, nil
}

func milliseconds(d, fallback time.Duration) string {
	return strconv.FormatInt(cmp.Or(d, fallback).Milliseconds(), 10)
}
