package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ServerConfig says where a server keeps its data and how much care it takes of it.
type ServerConfig struct {
	// DataDir is made when missing. As root it may be replaced (see Server.DataDir) when the account that runs
	// Postgres cannot reach it.
	DataDir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// BinDir holds initdb and postgres. Empty means HOLDPOINT_POSTGRES_BIN, then /usr/lib/postgresql/*/bin newest
	// first, then pg_config, then the PATH.
	BinDir string
	// Fetch gets the binaries when none are found, see FetchBinaries. Nil means that their absence is an error.
	Fetch func(ctx context.Context) (binDir string, err error)
	// Durable servers keep every commit through a power loss and ask for a password; the others are for tests.
	Durable bool
	// SocketDir holds the Unix socket; empty means TCP alone.
	SocketDir string
	// Database is made when missing. Default: holdpoint.
	Database string
	// Settings override server parameters by name.
	Settings map[string]string
	// Logger receives what the server itself logs. Default: slog.Default().
	Logger *slog.Logger
}

func (c *ServerConfig) validate() error {
	var problems []error
	if c.DataDir == "" {
		problems = append(problems, errors.New("DataDir is empty"))
	}
	if c.Port < 0 || c.Port > 65535 {
		problems = append(problems, fmt.Errorf("port %d is not between 0 and 65535", c.Port))
	}
	return errors.Join(problems...)
}

// Server is a running Postgres that this process started.
type Server struct {
	// DataDir is the directory in use: the configured one, or its stand-in under /var/tmp.
	DataDir string
	// Port on 127.0.0.1.
	Port int

	cluster  *cluster
	database string
	cmd      *exec.Cmd
	log      *serverLog
	done     chan struct{} // closed when the process has ended
	exit     error         // set before done is closed
}

// Start runs Postgres, waits until it answers, and makes the database. It works as an ordinary user and as root,
// where the server runs as postgres or nobody. The context bounds the start only; end the server with Stop.
func Start(ctx context.Context, cfg ServerConfig) (*Server, error) {
	cfg.Database = cmp.Or(cfg.Database, "holdpoint")
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	c, err := openCluster(ctx, &cfg)
	if err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	if wanted, _ := filepath.Abs(cfg.DataDir); wanted != c.home {
		cfg.Logger.WarnContext(ctx, "Postgres data lies elsewhere: its account cannot reach the wanted directory",
			"wanted", wanted, "used", c.home, "account", c.account.name)
	}
	s, err := startServer(ctx, &cfg, c)
	if err != nil {
		return nil, fmt.Errorf("start Postgres in %s: %w", c.home, err)
	}
	return s, nil
}

// startAttempts bounds how often a start is repeated for a lost race: a free port taken by somebody else, or a
// previous server of a killed parent that is still shutting down.
const startAttempts = 40

func startServer(ctx context.Context, cfg *ServerConfig, c *cluster) (*Server, error) {
	lz4, err := supportsLZ4(ctx, c)
	if err != nil {
		return nil, err
	}
	var lost error // The last lost race: it says more than the end of the context that it led to.
	for attempt := 1; ; attempt++ {
		s, err := launch(ctx, cfg, c, lz4)
		if err == nil {
			return s, nil
		}
		lostRace := s != nil && (s.log.contains("Address already in use") && cfg.Port == 0 ||
			s.log.contains("lock file") && s.log.contains("already exists"))
		if !lostRace || attempt == startAttempts {
			return nil, errors.Join(lost, err)
		}
		lost = err
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return nil, errors.Join(lost, err)
		}
	}
}

// launch makes one attempt. On failure the returned server, if any, has ended and carries the log.
func launch(ctx context.Context, cfg *ServerConfig, c *cluster, lz4 bool) (*Server, error) {
	port := cfg.Port
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	settings := cfg.settings(port)
	if lz4 && settings["wal_compression"] == "on" {
		settings["wal_compression"] = "lz4"
	}
	s := &Server{
		DataDir: c.home, Port: port, cluster: c, database: cfg.Database,
		log: &serverLog{logger: cfg.Logger}, done: make(chan struct{}),
	}
	s.cmd = c.command(c.dataDir(), "postgres", append([]string{"-D", c.dataDir()}, arguments(settings)...)...)
	s.cmd.Stderr = s.log
	s.cmd.WaitDelay = 2 * time.Second // A straggler among its processes must not keep its log, and so us, waiting.
	if err := startLocked(s.cmd, func(err error) { s.exit = err; close(s.done) }); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return s, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// startLocked starts cmd and waits for its end on one operating-system thread: the kernel's parent-death signal
// follows the thread that started the process, not the program.
func startLocked(cmd *exec.Cmd, ended func(error)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

// errOtherServer means that somebody else answers on the port; ours will say that it could not have it, and end.
var errOtherServer = errors.New("another server answers on this port")

// ready waits until the server answers and the database exists.
func (s *Server) ready(ctx context.Context) error {
	for {
		err := s.makeDatabase(ctx)
		if err == nil {
			return nil
		}
		wait := 20 * time.Millisecond
		var answer *pgconn.PgError
		refused := errors.As(err, &answer) && answer.Code != "57P03" // 57P03: the server is starting up.
		if refused {
			wait = 500 * time.Millisecond // Time for our server to end, in case the refusal is another server's.
		}
		select {
		case <-s.done:
			return fmt.Errorf("the server ended (%w) and said: %s", s.exit, s.log.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer (%w; %w): %s", ctx.Err(), err, s.log.tail())
		case <-time.After(wait):
		}
		if refused {
			return fmt.Errorf("prepare the database: %w", err)
		}
	}
}

func (s *Server) makeDatabase(ctx context.Context) error {
	// A stranger on our port may accept the connection and say nothing.
	connecting, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(connecting, s.URLFor("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var dataDir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dataDir); err != nil {
		return err
	}
	if dataDir != s.cluster.dataDir() {
		return errOtherServer
	}
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.database).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.database}.Sanitize())
	return err
}

// URL is the superuser's address of the server's database; it contains the password.
func (s *Server) URL() string { return s.URLFor(s.database) }

// URLFor is the superuser's address of another database of the same server.
func (s *Server) URLFor(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)),
	}
	if s.cluster.password != "" {
		u.User = url.UserPassword(superuser, s.cluster.password)
	}
	return u.String()
}

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the server has ended, whoever ended it.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop shuts the server down: open transactions are rolled back, everything committed is flushed. When the context
// ends first the server is taken down at once and recovers at its next start; that is an error.
func (s *Server) Stop(ctx context.Context) error {
	_ = s.cmd.Process.Signal(syscall.SIGINT) // It may have ended already, which done tells.
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-s.done:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	return fmt.Errorf("Postgres did not shut down in time and was stopped at once: %w", ctx.Err())
}

// supportsLZ4 asks the server's program itself; the cheaper compression is a choice of whoever built it.
func supportsLZ4(ctx context.Context, c *cluster) (bool, error) {
	args := []string{"-D", c.dataDir(), "-C", "wal_compression", "-c", "wal_compression=lz4"}
	err := c.run(ctx, c.dataDir(), "postgres", args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// freePort asks the kernel for a port that nobody holds at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port on 127.0.0.1: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// pause waits for d or the end of the context, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
