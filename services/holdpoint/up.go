package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// upFlags are what `up` can be told.
type upFlags struct {
	data, configDir, readyFile, postgresBin                  string
	intakePort, natsPort, postgresPort, sandboxPort, opsPort int
	approvalPort, signInPort, smtpPort, webhookPort          int
	ephemeral, verbose                                       bool
}

// memoryLimit keeps the whole below what a small container gives, in bytes.
const memoryLimit = 320 << 20

func upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine: Postgres, NATS, all services, and a sandbox provider to write to",
		Long: "Run everything on this machine, with no other set-up. State is kept in a data directory and is there again " +
			"after a restart.\nHOLDPOINT_DATABASE_URL uses a Postgres that you run yourself.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "",
		"data directory (default: holdpoint in your cache directory; for root /var/lib/holdpoint)")
	flags.BoolVar(&f.ephemeral, "ephemeral", false,
		"keep nothing after the stop; commits are as durable as always while it runs")
	flags.StringVar(&f.configDir, "config", "", "configuration directory (default: the built-in example tenant)")
	flags.StringVar(&f.readyFile, "ready-file", "",
		"write addresses and the demo key as JSON to this file once everything is up")
	flags.StringVar(&f.postgresBin, "postgres-bin", "",
		"directory of the Postgres binaries (default: found on this machine)")
	flags.IntVar(&f.intakePort, "intake-port", 7070, "port of the HTTP API; 0 picks a free one, here and below")
	flags.IntVar(&f.natsPort, "nats-port", 7071, "port of NATS")
	flags.IntVar(&f.postgresPort, "postgres-port", 7072, "port of Postgres")
	flags.IntVar(&f.sandboxPort, "sandbox-port", 7073, "port of the sandbox provider")
	flags.IntVar(&f.opsPort, "ops-port", 7074, "port of health checks and metrics")
	flags.IntVar(&f.approvalPort, "approval-port", 7075, "port of the reviewers' pages and API")
	flags.IntVar(&f.signInPort, "sign-in-port", 7076, "port of the demo identity provider")
	flags.IntVar(&f.smtpPort, "smtp-port", 7077, "port of the sandbox's mail server")
	flags.IntVar(&f.webhookPort, "webhook-port", 7079, "port of providers' webhooks")
	flags.BoolVar(&f.verbose, "verbose", false, "log all that the services do")
	return cmd
}

// up takes a data directory and the ports, and runs everything until the context ends. A context that ends while it
// starts is a controlled stop as well.
func up(ctx context.Context, f upFlags) (err error) {
	service.TuneMemory(memoryLimit)
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelInfo
	}
	log := service.NewLogger(level)
	service.TakeStandardLog(log)
	dir, remove, err := dataDir(f)
	if err != nil {
		return err
	}
	defer remove()
	data, err := lockData(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.release()) }()
	patience := time.Duration(0)
	if data.killed {
		patience = endingFor
	}
	if err := awaitPorts(ctx, f, patience); err != nil {
		return stoppedAtStart(ctx, err)
	}
	var stops stopList
	defer func() { err = errors.Join(err, stops.run()) }()
	return stoppedAtStart(ctx, upIn(ctx, f, dir, log, &stops))
}

func stoppedAtStart(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// upIn starts the parts in the order in which they need each other; they are stopped in reverse.
func upIn(ctx context.Context, f upFlags, dir string, log *slog.Logger, stops *stopList) error {
	db, err := startDatabase(ctx, f, dir, log, stops)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, db, migrations.FS); err != nil {
		return err
	}
	nats, tenantURL, err := startBroker(ctx, f, dir, log, stops)
	if err != nil {
		return err
	}
	provider, err := startSandbox(ctx, f, dir, stops)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"HOLDPOINT_SANDBOX_URL": provider.URL, "HOLDPOINT_SANDBOX_SMTP": provider.SMTP} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	files := deploy.Example()
	if f.configDir != "" {
		files = os.DirFS(f.configDir)
	}
	at := upAddresses{database: db, nats: nats, tenantNATS: tenantURL, sandbox: provider.URL, data: dir}
	return runServices(ctx, f, files, at, log)
}

// upAddresses is where the parts are.
type upAddresses struct {
	database, nats, tenantNATS, sandbox, data string
}

func runServices(ctx context.Context, f upFlags, files fs.FS, at upAddresses, log *slog.Logger) error {
	stopTelemetry, err := service.Telemetry(ctx, "up")
	if err != nil {
		return err
	}
	defer func() { _ = stopTelemetry(context.WithoutCancel(ctx)) }()
	cfg, err := config.Load(files)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	logWarnings(log, cfg)
	conn, err := bus.Connect(ctx, bus.ConnectConfig{URL: at.nats, Name: "holdpoint-up", Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	// The relay keeps the streams in being; made before it and the consumers start, nobody meets a stream that is not
	// there yet.
	if err := bus.Provision(ctx, conn, bus.NewTopology(tenantsOf(cfg))); err != nil {
		return err
	}
	health, err := service.NewHealth(fmt.Sprintf("127.0.0.1:%d", f.opsPort))
	if err != nil {
		return err
	}
	parts := []service.Named{{Name: "health", Runner: health}}
	listening := map[string]string{}
	// Here effects reach a sandbox: they go, unless somebody decided otherwise.
	_, decided := os.LookupEnv("AI_ACTIONS_ENABLED")
	people, err := startSignIn(f, at.data, log)
	if err != nil {
		return err
	}
	parts = append(parts, people.parts...)
	people.choices.OperatorDatabaseURL = at.database // whose login is a member of every role
	choices := roster.Choices{Approval: people.choices, IntakeAddr: fmt.Sprintf("127.0.0.1:%d", f.intakePort),
		WebhookAddr: fmt.Sprintf("127.0.0.1:%d", f.webhookPort), EnableActions: !decided}
	needs := service.Needs{DatabaseURL: at.database, Bus: conn, Config: cfg, Log: log, Health: health}
	if needs.PolicyActivation, err = upActivation(); err != nil {
		return err
	}
	for _, d := range roster.Services {
		ready, err := d.Open(ctx, needs, choices)
		if err != nil {
			return err
		}
		defer ready.Close()
		listening[d.Name] = ready.Addr
		parts = append(parts, ready.Named)
	}
	drafting, err := startProposer(ctx, cfg, listening[ledger.Intake], log)
	if err != nil {
		return err
	}
	if err := tellOfPayments(ctx, cfg, at.sandbox, listening[ledger.Reconciler]); err != nil {
		return err
	}
	parts = append(parts, drafting...)
	parts = append(parts, service.Named{Name: "ready", Runner: announcer{f, at, listening, people, health}})
	return service.RunAll(ctx, log, 25*time.Second, parts...)
}

// upActivation has edited files count at the next start, as somebody who develops expects, unless the environment says otherwise.
func upActivation() (service.PolicyActivation, error) {
	var common service.Settings
	if _, decided := os.LookupEnv("HOLDPOINT_POLICY_ACTIVATION"); !decided {
		return service.ActivateFiles, nil
	}
	err := service.Load("", &common)
	return common.PolicyActivation, err
}

func tenantsOf(cfg *config.Config) []string {
	ids := make([]string, len(cfg.Tenants))
	for i, t := range cfg.Tenants {
		ids[i] = t.ID
	}
	return ids
}

// dataDir is where state lives, and what takes it away at the end.
func dataDir(f upFlags) (dir string, remove func(), err error) {
	if f.ephemeral {
		dir, err = os.MkdirTemp("/var/tmp", "holdpoint-ephemeral-")
		if err != nil {
			return "", nil, fmt.Errorf("make an ephemeral data directory: %w", err)
		}
		return dir, func() { _ = os.RemoveAll(dir) }, os.Chmod(dir, 0o711) // Postgres may run under another account
	}
	dir, err = filepath.Abs(cmp.Or(f.data, defaultDataDir()))
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", nil, fmt.Errorf("make the data directory (--data): %w", err)
	}
	return dir, func() {}, nil
}

// defaultDataDir is under the user's cache directory. Root has another one: Postgres runs under an account that cannot
// enter root's home.
func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/holdpoint"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "holdpoint")
}

// stopList stops what was started, last first.
type stopList []func() error

func (s *stopList) add(stop func() error) { *s = append(*s, stop) }

func (s stopList) run() error {
	var errs []error
	for i := len(s) - 1; i >= 0; i-- {
		errs = append(errs, s[i]())
	}
	return errors.Join(errs...)
}
