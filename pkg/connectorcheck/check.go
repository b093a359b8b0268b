package connectorcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// DefaultPatience is how long after the declared index lag a lookup is still asked, so that the real lag gets known.
const DefaultPatience = 30 * time.Second

// Config is what a Prober needs.
type Config struct {
	Connector *config.Connector // as it is declared (config.LoadDeclared), of kind http
	TenantID  string
	// Leave is asked right before the first byte of every write, and keeps it from being sent by an error. It is required.
	Leave    func() error
	Patience time.Duration
}

func (c *Config) validate() error {
	switch {
	case c.Connector == nil || c.Leave == nil:
		return errors.New("connectorcheck: a declaration and whom to ask for leave are needed")
	case c.Connector.Kind != "" && c.Connector.Kind != config.ConnectorHTTP:
		return fmt.Errorf("connector %s is of kind %s: nothing of it can be proved without a write that Holdpoint does not make "+
			"itself; who answers for it attests it", c.Connector.ID, c.Connector.Kind)
	}
	return nil
}

// Prober checks the operations of one connector. It is for one goroutine.
type Prober struct {
	config Config
	conn   *connector.Connector
	base   *url.URL
}

// New makes a prober; Close ends its connections.
func New(c Config) (*Prober, error) {
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	if err := c.validate(); err != nil {
		return nil, err
	}
	conn, err := connector.New(connector.Config{Connector: c.Connector})
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(c.Connector.BaseURL)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connector %s: its base_url cannot be read", c.Connector.ID)
	}
	return &Prober{c, conn, base}, nil
}

// Close ends what the prober holds open.
func (p *Prober) Close() { p.conn.Close() }

// Target is the scheme and host that are called.
func (p *Prober) Target() string { return p.base.Scheme + "://" + p.base.Host }

// run is the check of one operation.
type run struct {
	*Prober

	ctx     context.Context
	op      *config.Operation
	samples []Sample
	report  *Report
	id      uuid.UUID
	first   call      // the one write that is meant to succeed
	before  string    // the target's version before it
	sentAt  time.Time // the end of the latest write, whatever it came to
	sight   sight     // how the lookup came to see it
	again   connector.LookupResult
	never   connector.LookupResult // of an operation id that was never sent
	judges  []func()               // say what was found, once all is sent and must be visible
}

// call is one write with what it came to.
type call struct {
	operation connector.Operation
	request   *connector.Request
	result    connector.Result
}

// Check exercises the operation with the samples. The error says why that could not be done, and what may have been written; what
// is not as declared is a finding. An operation that declares no capability is not exercised, and has no finding.
func (p *Prober) Check(ctx context.Context, op *config.Operation, samples []Sample) (*Report, error) {
	r := &run{Prober: p, ctx: ctx, op: op, samples: samples, id: uuid.New(), report: &Report{Connector: p.config.Connector.ID,
		Operation: op.Name, Target: p.Target(), CheckedAt: time.Now().UTC()}}
	if op.Standing != nil {
		r.report.Digest = op.Standing.Digest
	}
	if !Declares(op) {
		return r.report, nil
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("operation %s of %s needs a sample to be exercised with", op.Name, p.config.Connector.ID)
	}
	if err := r.write(); err != nil {
		return nil, fmt.Errorf("exercise operation %s of %s: %w", op.Name, p.config.Connector.ID, err)
	}
	steps := []func() error{r.awaitSight, r.tryRead, r.tryReplay, r.tryMismatch, r.tryConditional, r.lookAgain}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("exercise operation %s of %s, of which %s was written: %w", op.Name, p.config.Connector.ID,
				r.first.operation.OperationID, err)
		}
	}
	for _, judge := range r.judges {
		judge()
	}
	return r.report, nil
}

// Declares reports whether an operation declares anything that can be proved.
func Declares(op *config.Operation) bool {
	return op.Replays || op.KeyReusedCode != "" || op.Lookup != nil || op.Conditional != nil || op.Read != nil
}

// write makes the one write that is meant to succeed.
func (r *run) write() error {
	version, err := r.version("0")
	if err != nil {
		return err
	}
	r.before = cmp.Or(version, r.samples[0].CurrentVersion)
	if r.first, err = r.prepare("1", r.samples[0], r.before); err != nil {
		return err
	}
	if err := r.send(&r.first); err != nil {
		return err
	}
	result := r.first.result
	r.report.OperationID, r.report.ExternalID = r.first.operation.OperationID, result.ExternalID
	if result.Class != outcome.Succeeded && result.Class != outcome.Accepted {
		return fmt.Errorf("the sample was not written (%s): %s; its operation id was %s", result.Class, result.Detail,
			r.first.operation.OperationID)
	}
	return nil
}

// operation is what is asked of the connector under an operation id of this check. The key is the operation id, as a run's is.
func (r *run) operation(n string, s Sample, version string) (connector.Operation, error) {
	action, err := s.action(version, r.token(n))
	id := "chk1-" + r.id.String() + "-" + n
	return connector.Operation{Name: r.op.Name, Action: action, OperationID: id, IdempotencyKey: id, TenantID: r.config.TenantID,
		CorrelationID: id}, err
}

// token is another text for each numbered call of each check.
func (r *run) token(n string) string { return r.id.String()[:8] + n }

func (r *run) prepare(n string, s Sample, version string) (call, error) {
	op, err := r.operation(n, s, version)
	if err != nil {
		return call{}, err
	}
	request, err := r.conn.Prepare(r.ctx, op)
	return call{operation: op, request: request}, err
}

// send makes a prepared write once. Its error means that it was kept from being sent.
func (r *run) send(c *call) error {
	c.result = r.conn.Execute(r.ctx, c.request, r.config.Leave)
	r.sentAt = time.Now()
	if c.result.Class == outcome.NotSent {
		return fmt.Errorf("a write was not sent: %s", c.result.Detail)
	}
	return r.ctx.Err()
}

// version reads the target's version; "" where the operation has no read, or the target does not exist yet.
func (r *run) version(n string) (string, error) {
	if r.op.Read == nil {
		return "", nil
	}
	op, err := r.operation(n, r.samples[0], cmp.Or(r.samples[0].CurrentVersion, "0"))
	if err != nil {
		return "", err
	}
	version, found, err := r.conn.ReadTarget(r.ctx, op)
	if mayBeGone := r.op.Kind != config.OperationUpdate && r.op.Kind != config.OperationReassign; err == nil && !found && !mayBeGone {
		err = errors.New("the sample's target does not exist")
	}
	return version, err
}
