package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// migrationLock is the advisory lock under which replicas take turns; the number only has to be ours.
const migrationLock int64 = 0x686f6c64706f696e // "holdpoin"

// migrationLockTimeout bounds how long a change of schema waits for a table: every later statement queues behind it.
const migrationLockTimeout = "10s"

// Migrate brings the database at url up to the newest migration of the files (goose SQL files at the root of
// migrations). Replicas that start together take turns; the later ones find nothing left to do. The schema belongs to
// the user of url.
func Migrate(ctx context.Context, url string, migrations fs.FS) error {
	return withProvider(ctx, url, migrations, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// MigrateDown undoes every migration, newest first. It exists for the test that goes up, down and up again.
func MigrateDown(ctx context.Context, url string, migrations fs.FS) error {
	return withProvider(ctx, url, migrations, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, 0)
		return err
	})
}

func withProvider(ctx context.Context, url string, migrations fs.FS, do func(*goose.Provider) error) (err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("migrate: read the database address: %w", err)
	}
	unlock, err := lockMigrations(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	config = config.Copy()
	config.RuntimeParams["lock_timeout"] = migrationLockTimeout
	config.RuntimeParams["application_name"] = "holdpoint-migrate"
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := newProvider(db, migrations)
	if err != nil {
		return err
	}
	if err := do(provider); err != nil {
		return fmt.Errorf("migrate the database%s: %w", failedFile(err), err)
	}
	return nil
}

// failedFile names the migration that failed; goose's own text has its number only.
func failedFile(err error) string {
	var partial *goose.PartialError
	if errors.As(err, &partial) && partial.Failed != nil && partial.Failed.Source != nil {
		return " (" + partial.Failed.Source.Path + ")"
	}
	return ""
}

func newProvider(db *sql.DB, migrations fs.FS) (*goose.Provider, error) {
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

// lockMigrations takes the lock on a session of its own, which holds it until closed or lost. Waiting is the
// server's: goose's own lock polls every few seconds, which would stretch each start of several replicas.
func lockMigrations(ctx context.Context, config *pgx.ConnConfig) (unlock func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("migrate: connect to the database: %w", err)
	}
	unlock = func() error {
		ctx, cancel := outliving(ctx)
		defer cancel()
		return conn.Close(ctx)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate: wait for another replica's migration: %w", err), unlock())
	}
	return unlock, nil
}
