package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// Systems that the sandbox plays.
const (
	Payments = "payments"
	CRM      = "crm"
	HubSpot  = "hubspot"  // a CRM without keys and versions, with upserts by unique property
	Slack    = "slack"    // a chat without keys, which says what went wrong inside of HTTP 200
	N8N      = "n8n"      // workflows that begin with a Webhook node
	Receiver = "receiver" // an endpoint of Standard Webhooks that remembers ids
	Mailbox  = "mail"     // takes mail over SMTP; Deliver
	Webhooks = "hooks"    // an integrator's endpoints; Receive
)

// writable are the systems that have a personality and writes in the ledger.
var writable = []string{Payments, CRM, HubSpot, Slack, N8N, Receiver}

// Operations by which faults match and under which writes are recorded. Only create and update are ever recorded.
const (
	Create  = "create"
	Update  = "update"
	Read    = "read"    // one object by its id
	Lookup  = "lookup"  // search by reference or external id
	Deliver = "deliver" // one recipient of one message
	Receive = "receive" // one webhook
)

// Config is what a sandbox needs. Only DataDir has no default.
type Config struct {
	Addr      string // host:port to listen on; "" is a free port on 127.0.0.1
	SMTPAddr  string // host:port to take mail on; "" is a free port on 127.0.0.1
	DataDir   string // directory of the ledger; made when absent, used by one process at a time
	ReadyFile string // where Run writes {"url","addr","smtp","pid"} once it listens; "" writes nothing

	Payments Personality
	CRM      Personality
	Others   map[string]Personality // of the other systems, by name
	Webhooks map[string]Destination // by system: whom it tells of its writes by itself; nil tells nobody

	// CommitDelay is how long the ledger gathers writes before one fsync. The default of 1 ms caps the sandbox near
	// 600 fsyncs a second, because it shares its disk with the system under test.
	CommitDelay time.Duration
	MaxBody     int64 // largest accepted request body in bytes; default 1 MiB
	Logger      *slog.Logger
	Now         func() time.Time // clock of key windows and index lag; default time.Now
}

// Personality says what one system promises. The zero value promises everything: keys are replayed for 24 hours,
// lookups see a write at once, and updates must carry a version.
type Personality struct {
	IgnoreKeys  bool     `json:"ignore_keys,omitempty"`  // a repeated Idempotency-Key writes again
	KeyWindow   Duration `json:"key_window,omitempty"`   // how long a key is remembered; 0 is 24h
	NoLookup    bool     `json:"no_lookup,omitempty"`    // searches answer 501 lookup_unsupported
	IndexLag    Duration `json:"index_lag,omitempty"`    // how long a write stays invisible to searches
	LaxVersions bool     `json:"lax_versions,omitempty"` // an update without If-Match is accepted, not 428
	Interval    Duration `json:"interval,omitempty"`     // Slack: the least time between messages to a channel; 0 is none
	Finishes    bool     `json:"finishes,omitempty"`     // N8N: it answers when the workflow has ended, not when it has begun
}

func (p Personality) keyWindow() time.Duration {
	return cmp.Or(time.Duration(p.KeyWindow), 24*time.Hour)
}

func (p Personality) validate(name string) error {
	if p.KeyWindow < 0 || p.IndexLag < 0 || p.Interval < 0 {
		return fmt.Errorf("%s: key_window, index_lag and interval must not be negative", name)
	}
	return nil
}

func (c *Config) withDefaults() {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.SMTPAddr = cmp.Or(c.SMTPAddr, "127.0.0.1:0")
	c.CommitDelay = cmp.Or(c.CommitDelay, time.Millisecond)
	c.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("DataDir is empty: name the directory that keeps the ledger"))
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		errs = append(errs, fmt.Errorf("Addr is not host:port: %w", err))
	}
	if _, _, err := net.SplitHostPort(c.SMTPAddr); err != nil {
		errs = append(errs, fmt.Errorf("SMTPAddr is not host:port: %w", err))
	}
	if c.CommitDelay < 0 || c.CommitDelay > time.Second {
		errs = append(errs, fmt.Errorf("CommitDelay %s is outside 0 to 1s", c.CommitDelay))
	}
	if c.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("MaxBody %d is negative", c.MaxBody))
	}
	errs = append(errs, c.Payments.validate("Payments"), c.CRM.validate("CRM"))
	for system, personality := range c.Others {
		if system == Payments || system == CRM || !slices.Contains(writable, system) {
			errs = append(errs, fmt.Errorf("Others: %q is not one of %v", system, writable[2:]))
		}
		errs = append(errs, personality.validate(system))
	}
	for system, to := range c.Webhooks {
		if err := to.validate(); err != nil {
			errs = append(errs, fmt.Errorf("Webhooks of %s: %w", system, err))
		}
	}
	return errors.Join(errs...)
}

// Duration is a time.Duration that JSON writes as text, such as "250ms".
type Duration time.Duration

// MarshalText writes the form of time.Duration.String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the form that time.ParseDuration takes.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
