package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// User may connect to an embedded server with a name and a password.
type User struct {
	Name, Password string
	// Tenant is whose account this is, with TenantRights and no others. Empty is ours, where everything is allowed.
	Tenant string
}

// EmbeddedConfig says where an embedded server keeps its streams and who may connect.
type EmbeddedConfig struct {
	// Dir holds the streams.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Users may connect by name and password, Token by itself. Give one of the two; neither leaves the server open to
	// every program on this machine.
	Users []User
	Token string
	// SyncInterval is how often streams are forced to disk. Default: 2 s. Longer loses more acknowledged messages in
	// a power cut, which the services then send again from Postgres.
	SyncInterval time.Duration
	// Logger receives what the server itself logs. Default: slog.Default().
	Logger *slog.Logger
}

func (c *EmbeddedConfig) validate() error {
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("Dir is empty"))
	}
	if c.Port < 0 || c.Port > 65535 {
		problems = append(problems, fmt.Errorf("port %d is not between 0 and 65535", c.Port))
	}
	if len(c.Users) > 0 && c.Token != "" {
		problems = append(problems, errors.New("Users and Token exclude each other"))
	}
	for _, u := range c.Users {
		if u.Name == "" || u.Password == "" {
			problems = append(problems, fmt.Errorf("user %q needs a name and a password", u.Name))
		}
	}
	return errors.Join(problems...)
}

// EmbeddedServer is a nats-server with JetStream inside this process.
type EmbeddedServer struct {
	server *server.Server
	cfg    EmbeddedConfig
}

// Embedded starts a server and waits until it takes connections. The context bounds the start only; end the server
// with Close.
func Embedded(ctx context.Context, cfg EmbeddedConfig) (*EmbeddedServer, error) {
	cfg.SyncInterval = cmp.Or(cfg.SyncInterval, 2*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	log := &serverLog{logger: cfg.Logger}
	s.SetLoggerV2(log, false, false, false)
	e := &EmbeddedServer{server: s, cfg: cfg}
	go s.Start()
	for !s.ReadyForConnections(50 * time.Millisecond) {
		fatal := log.fatal.Load()
		if ctx.Err() == nil && fatal == nil {
			continue
		}
		e.Close()
		if fatal != nil {
			return nil, fmt.Errorf("start the embedded NATS server in %s: %s", cfg.Dir, *fatal)
		}
		return nil, fmt.Errorf("start the embedded NATS server in %s: it is not ready: %w", cfg.Dir, ctx.Err())
	}
	return e, nil
}

func (c *EmbeddedConfig) options() (*server.Options, error) {
	options := &server.Options{
		ServerName:    "holdpoint",
		Host:          "127.0.0.1",
		Port:          cmp.Or(c.Port, server.RANDOM_PORT),
		NoSigs:        true, // Signals are the runner's.
		JetStream:     true,
		StoreDir:      c.Dir,
		SyncInterval:  c.SyncInterval,
		Authorization: c.Token,
	}
	return options, c.letIn(options)
}

// letIn reads the accounts from the text that nats-server is given elsewhere, so that there is one of it, and puts the
// users into them.
func (c *EmbeddedConfig) letIn(options *server.Options) error {
	if len(c.Users) == 0 {
		return nil
	}
	var tenants []string
	for _, u := range c.Users {
		if u.Tenant != "" && !slices.Contains(tenants, u.Tenant) {
			tenants = append(tenants, u.Tenant)
		}
	}
	text, err := Authorization(tenants)
	if err != nil {
		return err
	}
	for _, name := range append(tenants, ServicesUser) {
		text = PasswordVariable(name) + ": unused\n" + text // the users below have their own
	}
	if err := options.ProcessConfigString(text); err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	rights := map[string]*server.User{}
	for _, user := range options.Users {
		rights[user.Username] = user
	}
	options.Users = nil
	for _, u := range c.Users {
		user := *rights[cmp.Or(u.Tenant, ServicesUser)]
		user.Username, user.Password = u.Name, u.Password
		options.Users = append(options.Users, &user)
	}
	return nil
}

// URL is the address with the credentials of the first user, or the token.
func (e *EmbeddedServer) URL() string {
	u, err := url.Parse(e.server.ClientURL())
	if err != nil {
		return e.server.ClientURL() // Never happens: the server prints an address of ours.
	}
	switch {
	case e.cfg.Token != "":
		u.User = url.User(e.cfg.Token)
	case len(e.cfg.Users) > 0:
		u.User = url.UserPassword(e.cfg.Users[0].Name, e.cfg.Users[0].Password)
	}
	return u.String()
}

// Close stops the server and waits until its streams are written.
func (e *EmbeddedServer) Close() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
}
