// Package postgrestest gives each test a database of its own, migrated to the newest schema, in one line.
//
//	db := postgrestest.New(t)
//	pool := db.Pool("holdpoint_intake")
//
// The first call in a test binary starts a throwaway Postgres and migrates a template; every further database is a
// copy of that template. A tiny watcher process takes the server and its files away when the test binary ends,
// however it ends. With HOLDPOINT_TEST_POSTGRES_URL set to a superuser's address, that server is used instead.
//
// The server's few goroutines live as long as the binary: a test with goleak calls New first and then gives
// goleak.IgnoreCurrent().
package postgrestest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// patience bounds each step of the set-up; a shared two-core machine may be slow.
const patience = 60 * time.Second

// DB is one test's own database.
type DB struct {
	// URL is the superuser's address of the database.
	URL string

	t    testing.TB
	home *home
	name string
}

// home is what the tests of one binary share.
type home struct {
	url      string // superuser's address of the maintenance database
	template string
	strategy string // how databases are copied
}

// shared starts the server at the first call; every later call gets the same answer.
var shared = sync.OnceValues(prepare)

// New makes a database for this test alone and drops it when the test ends.
func New(t testing.TB) *DB {
	t.Helper()
	h, err := shared()
	if err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	name := "test_" + randomName()
	err = h.exec("CREATE DATABASE " + name + " TEMPLATE " + h.template + h.strategy)
	if err != nil {
		t.Fatalf("postgrestest: make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := h.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("postgrestest: drop the database: %v", err)
		}
	})
	return &DB{URL: withDatabase(h.url, name), t: t, home: h, name: name}
}

// Backup copies the database as it is now, once, and returns what puts it back to that. Both end every session with it; whoever comes
// again meanwhile is refused.
func (d *DB) Backup() (restore func()) {
	d.t.Helper()
	backup := d.name + "_backup"
	d.alone("CREATE DATABASE " + backup + " TEMPLATE " + d.name + d.home.strategy)
	d.t.Cleanup(func() {
		if err := d.home.exec("DROP DATABASE IF EXISTS " + backup + " WITH (FORCE)"); err != nil {
			d.t.Errorf("postgrestest: drop the backup: %v", err)
		}
	})
	return func() {
		d.t.Helper()
		d.alone("DROP DATABASE "+d.name+" WITH (FORCE)", "CREATE DATABASE "+d.name+" TEMPLATE "+backup+d.home.strategy)
	}
}

// alone runs statements while nobody is connected to the database.
func (d *DB) alone(statements ...string) {
	d.t.Helper()
	all := append([]string{"ALTER DATABASE " + d.name + " ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '" + d.name + "'"}, statements...)
	for _, statement := range append(all, "ALTER DATABASE "+d.name+" ALLOW_CONNECTIONS true") {
		if err := d.home.exec(statement); err != nil {
			d.t.Fatalf("postgrestest: %s: %v", statement, err)
		}
	}
}

// Pool opens a pool whose sessions work as role ("" is the superuser); it is closed when the test ends.
func (d *DB) Pool(role string) *pgxpool.Pool {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool, err := postgres.Open(ctx, postgres.PoolConfig{URL: d.URL, Role: role, ApplicationName: "test", MaxConns: 8})
	if err != nil {
		d.t.Fatalf("postgrestest: %v", err)
	}
	d.t.Cleanup(pool.Close)
	return pool
}

func prepare() (*home, error) {
	url, err := serverURL()
	if err != nil {
		return nil, err
	}
	version, err := fingerprint(migrations.FS)
	if err != nil {
		return nil, err
	}
	h := &home{url: url, template: "holdpoint_template_" + version}
	if os.Getenv(serverEnv) == "" {
		h.strategy = " STRATEGY file_copy" // without fsync its checkpoints are free, and it takes half the processor time
	}
	return h, h.makeTemplate()
}

// makeTemplate migrates a database once and gives it its name when it is complete. Test binaries that share a server
// take turns, and a binary killed half-way leaves nothing that looks finished.
func (h *home) makeTemplate() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, h.url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx) // Ends the session and with it the lock.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext('postgrestest'))"); err != nil {
		return fmt.Errorf("wait for another test binary: %w", err)
	}
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", h.template).Scan(&exists)
	if err != nil || exists {
		return err
	}
	making := h.template + "_making"
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + making + " WITH (FORCE)",
		"CREATE DATABASE " + making,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the template: %w", err)
		}
	}
	if err := postgres.Migrate(ctx, withDatabase(h.url, making), migrations.FS); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+making+" RENAME TO "+h.template); err != nil {
		return fmt.Errorf("name the template: %w", err)
	}
	return nil
}

// exec runs one statement on the maintenance database.
func (h *home) exec(statement string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, h.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

func withDatabase(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // pgx.Connect has accepted it before; only a key=value string ends here.
	}
	u.Path = "/" + name
	return u.String()
}

func randomName() string {
	b := make([]byte, 8)
	rand.Read(b) // Never fails: crypto/rand ends the program instead.
	return hex.EncodeToString(b)
}
