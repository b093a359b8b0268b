package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/loadtest/crash"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Patience of the suite: for a death, for one after the effect has come to rest, since a commit is seen a little before
// its boundary has been crossed, and for what is about to be sent to be answered before the next death.
const (
	deathPatience = 15 * time.Second
	restPatience  = 500 * time.Millisecond
	sendPatience  = 10 * time.Second
)

// atOnce is how many events are handed in at a time.
const atOnce = 8

// player runs cells in a world.
type player struct {
	*crash.World
	progress  io.Writer
	verbose   bool
	lastDeath time.Time
}

// play runs the cells and returns what became of each, in their order, and what was broken that belongs to none.
func (p *player) play(ctx context.Context, cells []*cell) ([]*facts, []string, error) {
	var calm, cutOff, deadly []*cell
	for _, c := range cells {
		switch {
		case c.death.site != "":
			deadly = append(deadly, c)
		case c.fault.outage > 0:
			cutOff = append(cutOff, c)
		default:
			calm = append(calm, c)
		}
	}
	if err := errors.Join(p.outage(ctx, cutOff), p.batch(ctx, calm)); err != nil {
		return nil, nil, err
	}
	if err := p.settle(ctx, append(calm, cutOff...)); err != nil {
		return nil, nil, err
	}
	for n, c := range deadly {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		began := time.Now()
		if err := p.die(ctx, c); err != nil {
			c.failure = err.Error()
		}
		if p.verbose {
			fmt.Fprintf(p.progress, "%4d/%d %5.1f s  %s  struck %t %s\n", n+1, len(deadly), time.Since(began).Seconds(), c, c.struck,
				c.failure)
		}
	}
	if err := errors.Join(p.Up(), p.settle(ctx, cells)); err != nil {
		return nil, nil, err
	}
	return p.gather(ctx, cells)
}

// gather reads what became of each cell, and what was broken that belongs to none. The provider is asked last: it must
// have all that Postgres claims.
func (p *player) gather(ctx context.Context, cells []*cell) ([]*facts, []string, error) {
	state, err := readState(ctx, p.DB(), cells...)
	if err != nil {
		return nil, nil, err
	}
	is, err := readProvided(ctx, p.Provider())
	if err != nil {
		return nil, nil, err
	}
	became := make([]*facts, len(cells))
	for i, c := range cells {
		became[i] = of(c, state, is)
	}
	broken := p.Surprises()
	for _, id := range is.stray(cells) {
		broken = append(broken, "the provider has a write of "+id+", which belongs to no cell")
	}
	return became, broken, nil
}

// batch has the cells misbehave and hands in their events, many at once.
func (p *player) batch(ctx context.Context, cells []*cell) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, c := range cells {
		group.Go(func() error { return p.begin(ctx, c) })
	}
	return group.Wait()
}

// begin installs the cell's rules and hands in its event.
func (p *player) begin(ctx context.Context, c *cell) error {
	ids, err := p.Provider().Fault(ctx, c.rules()...)
	if err != nil {
		return err
	}
	c.counter, c.faults = ids[0], ids[1:]
	return p.Propose(ctx, c.key, c.profile.action(), c.target)
}

// outage has the cells meet a provider that cannot be dialled.
func (p *player) outage(ctx context.Context, cells []*cell) error {
	if len(cells) == 0 {
		return nil
	}
	p.Down(ledger.Dispatcher)
	if err := p.batch(ctx, cells); err != nil {
		return err
	}
	if err := p.authorized(ctx, cells); err != nil {
		return err
	}
	if err := p.refuse(ctx, cells[0].fault); err != nil {
		return err
	}
	if err := p.Up(); err != nil {
		return err
	}
	return p.reachable(ctx)
}

// refuse has the provider refuse connections, where the fault wants it to.
func (p *player) refuse(ctx context.Context, f misbehaviour) error {
	if f.outage == 0 {
		return nil
	}
	_, err := p.Provider().Fault(ctx, sandbox.Rule{Fault: sandbox.Fault{Kind: sandbox.RefuseConnection, Duration: f.outage}})
	return err
}

// reachable waits until the provider can be dialled. A connection that was open when it began to refuse says nothing.
func (p *player) reachable(ctx context.Context) error {
	at, err := url.Parse(p.Provider().URL())
	if err != nil {
		return fmt.Errorf("read the provider's address: %w", err)
	}
	return p.Await(ctx, "the provider to be back", func() (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
		if err != nil {
			return false, ctx.Err()
		}
		return true, conn.Close()
	})
}

// authorized waits until the effects of cells may be sent.
func (p *player) authorized(ctx context.Context, cells []*cell) error {
	return p.Await(ctx, "the effects to be authorized", func() (bool, error) {
		s, err := readState(ctx, p.DB(), cells...)
		if err != nil {
			return false, err
		}
		for _, c := range cells {
			if _, found := s.effects[c.run]; !found {
				return false, nil
			}
		}
		return true, nil
	})
}

// die has the dispatcher die over a cell, and starts it again. It may be that it comes to the boundary only when it sends
// again, or that the fault keeps it from ever coming there.
func (p *player) die(ctx context.Context, c *cell) error {
	if err := p.quiet(ctx); err != nil {
		return err
	}
	p.Down(ledger.Dispatcher)
	if err := p.begin(ctx, c); err != nil {
		return err
	}
	if err := p.authorized(ctx, []*cell{c}); err != nil {
		return err
	}
	armed, err := p.arm(ctx, c)
	if err != nil {
		return err
	}
	err = errors.Join(p.awaitDeath(ctx, c, armed), p.Up())
	if c.fault.outage > 0 {
		err = errors.Join(err, p.reachable(ctx))
	}
	return err
}

// arm starts a dispatcher that dies over the cell, to meet the outage where there is one.
func (p *player) arm(ctx context.Context, c *cell) (*crash.Death, error) {
	if c.death.side != crash.Accepted {
		if err := p.refuse(ctx, c.fault); err != nil {
			return nil, err
		}
		return p.Arm(c.death.site, c.death.side, c.run)
	}
	return p.ArmOnCall(ledger.Dispatcher, c.key, func(url string) error {
		_, err := p.Provider().Fault(ctx, sandbox.Rule{
			Match: sandbox.Match{System: sandbox.CRM, Operation: c.profile.operation, Reference: c.operationID},
			Fault: sandbox.Fault{Kind: sandbox.Signal, URL: url},
		})
		return errors.Join(err, p.refuse(ctx, c.fault))
	})
}

// awaitDeath waits for the dispatcher to die, or for the cell's effect to have come to rest without that.
func (p *player) awaitDeath(ctx context.Context, c *cell, armed *crash.Death) error {
	waiting, cancel := context.WithTimeout(ctx, deathPatience)
	defer cancel()
	var rested time.Time
	err := p.Await(waiting, "the dispatcher to die", func() (done bool, err error) {
		if c.struck, err = armed.Struck(); err != nil || c.struck {
			p.lastDeath = time.Now()
			return c.struck, err
		}
		if !rested.IsZero() {
			return time.Since(rested) > restPatience, nil
		}
		s, err := readState(waiting, p.DB(), c)
		if err == nil && s.rests(c) {
			rested = time.Now()
		}
		return false, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil // what has not come to rest by the end is found out then
	}
	return err
}

// sendingSQL asks whether something is about to be sent. What a dispatcher was sending that has died since is not.
const sendingSQL = `
select exists (select from effects e where e.open and (e.state = 'pending' or e.state = 'sending' and exists (
  select from effect_attempts t where t.run_id = e.run_id and t.attempt = e.attempts and t.started_at > $1)))`

// quiet waits until nothing is about to be sent, so that the next death is of the next cell alone. What stays so for
// long is no reason not to go on.
func (p *player) quiet(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, sendPatience)
	defer cancel()
	err := p.Await(waiting, "nothing to be about to be sent", func() (bool, error) {
		var sending bool
		err := p.DB().QueryRow(waiting, sendingSQL, p.lastDeath).Scan(&sending)
		return !sending, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// settle waits until nothing more happens to the cells by itself. What does not come to rest in time is judged as it is.
func (p *player) settle(ctx context.Context, cells []*cell) error {
	waiting, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	err := p.Await(waiting, "everything to come to rest", func() (bool, error) {
		s, err := readState(waiting, p.DB(), cells...)
		if err != nil {
			return false, err
		}
		for _, c := range cells {
			if !s.rests(c) {
				return false, nil
			}
		}
		return true, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}
