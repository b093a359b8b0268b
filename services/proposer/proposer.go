package proposer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// Config is what a Proposer needs.
type Config struct {
	Tenants []*config.Tenant
	// Queue is where a tenant's work comes from. It is asked once for each tenant that has something to do.
	Queue func(tenant string) (Queue, error)
	Log   *slog.Logger  // nil is slog's default
	Meter metric.Meter  // nil is the process's own
	Drain time.Duration // how long drafts may go on when the proposer is stopped; 0 is 20s
}

func (c *Config) validate() error {
	var complaints []error
	if c.Queue == nil {
		complaints = append(complaints, errors.New("Queue is missing"))
	}
	if !Wanted(c.Tenants) {
		complaints = append(complaints, errors.New("no source declares a proposer or an agent: there is nothing to do"))
	}
	return errors.Join(complaints...)
}

// Wanted reports whether any source declares a proposer or an agent.
func Wanted(tenants []*config.Tenant) bool {
	for _, t := range tenants {
		for _, s := range t.Sources {
			if s.Draft() != nil {
				return true
			}
		}
	}
	return false
}

// Proposer is the service.
type Proposer struct {
	desks []*desk
	drain time.Duration
}

// desk is one source with the queue that its runs come from.
type desk struct {
	*drafter

	source      string
	concurrency int
	queue       Queue
}

// New compiles every source's prompt and schemas and reads every credential once. Nothing is called. The error joins
// everything that is wrong, each with its tenant and source.
func New(_ context.Context, c Config) (*Proposer, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("proposer: %w", err)
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Meter == nil {
		c.Meter = otel.Meter("holdpoint/proposer")
	}
	meters, err := newMeters(c.Meter)
	if err != nil {
		return nil, fmt.Errorf("proposer: %w", err)
	}
	p := &Proposer{drain: cmp.Or(c.Drain, 20*time.Second)}
	var problems []error
	for _, t := range c.Tenants {
		problems = append(problems, p.open(t, &c, meters))
	}
	return p, errors.Join(problems...)
}

// open makes the desks of one tenant.
func (p *Proposer) open(t *config.Tenant, c *Config, m *meters) error {
	if !Wanted([]*config.Tenant{t}) {
		return nil
	}
	queue, err := c.Queue(t.ID)
	if err != nil {
		return fmt.Errorf("work of tenant %s: %w", t.ID, err)
	}
	var problems []error
	for _, s := range t.Sources {
		if s.Draft() == nil {
			continue
		}
		d, err := newDrafter(t, s, m.of(t.ID, s.ID, c.Log))
		if err != nil {
			problems = append(problems, fmt.Errorf("proposer of source %s of tenant %s: %w", s.ID, t.ID, err))
			continue
		}
		p.desks = append(p.desks, &desk{d, s.ID, concurrency(s), queue})
	}
	return errors.Join(problems...)
}

// Run drafts until the context ends, and lets drafts that are being made finish. It fails where a queue gives no work at
// all, such as for an API key without the scope work.
func (p *Proposer) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, d := range p.desks {
		all.Go(func() error {
			err := d.queue.Work(ctx, d.source, client.WorkConfig{
				Handle: d.work, Concurrency: d.concurrency, Drain: p.drain, Report: d.tally.report,
			})
			if err != nil {
				return fmt.Errorf("work of source %s: %w", d.source, err)
			}
			return nil
		})
	}
	return all.Wait()
}

func concurrency(s *config.Source) int {
	if s.Agent != nil {
		return s.Agent.Concurrency
	}
	return s.Proposer.Concurrency
}

func (d *desk) work(ctx context.Context, t *client.Task) (contracts.Proposal, error) {
	proposal, err := d.handle(ctx, t)
	d.tally.run(ctx, t, err)
	return proposal, err
}
