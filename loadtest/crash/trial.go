package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Sides on which a case kills, beyond those of package fault.
const (
	before   = string(fault.Before)
	after    = string(fault.After)
	mid      = string(fault.Mid)
	accepted = "accepted" // the provider has accepted and not answered
	stopped  = "stopped"  // frozen, not killed
	wiped    = "wiped"    // the broker's store is lost, and no process dies
)

// testCase is one death on one journey.
type testCase struct {
	site string // service/name
	side string
	journey
}

func (c testCase) String() string { return c.site + "@" + c.side + " " + c.name }

func (c testCase) service() string {
	service, _, _ := strings.Cut(c.site, "/")
	return service
}

// trial is a case while it runs, with an event of its own.
type trial struct {
	*world
	testCase
	key, contact, payment string
	operation             string
	runID                 uuid.UUID
	worker                bool // the event waits for a worker
	cut                   *cut
	struck                string   // how the process ended, "" until then
	answers               []string // what intake said of the copies, in order
}

func (w *world) newTrial(c testCase, prefix string, n int) *trial {
	t := &trial{world: w, testCase: c, key: fmt.Sprintf("%s-%03d", prefix, n), worker: c.worker}
	t.runID = ledger.RunID(tenant, t.key)
	t.contact, t.payment, t.operation = "c-"+t.key, "p-"+t.key, ledger.OperationID(t.runID, 1, 1)
	t.cut = &cut{fragment: commitSQL[c.site], made: make(chan struct{})}
	return t
}

// spec is where the process dies. Where a boundary is told which runs it touches, the trial's alone counts.
func (t *trial) spec() fault.Spec {
	service, name, _ := strings.Cut(t.site, "/")
	spec := fault.Spec{Service: service, Site: name, Side: fault.Side(t.side)}
	if t.keyed {
		spec.Key = t.runID.String()
	}
	return spec
}

// armed is the environment of the process that is to die.
func (t *trial) armed() []string {
	service := t.service()
	return armed(t.spec(), t.control.on(t.key+"/mid", func() error {
		t.proxies[service].arm(t.cut)
		return nil
	}))
}

// arm starts the service anew, to die at the case's boundary.
func (t *trial) arm() error {
	t.services[t.service()].kill()
	return t.start(t.service(), t.armed()...)
}

// down takes a service away until it is started again.
func (t *trial) down(service string) { t.services[service].kill() }

// strike waits for the death and starts the service again.
func (t *trial) strike(ctx context.Context) error {
	p := t.services[t.service()]
	if t.side == mid {
		return t.awaitCut(ctx, p)
	}
	p.meant.Store(true)
	status, err := p.await(ctx)
	if err != nil {
		return fmt.Errorf("the boundary was not reached: %w", err)
	}
	t.struck = statusText(status)
	if !died(status) {
		return fmt.Errorf("%s ended with %s where a SIGKILL was due", p.name, statusText(status))
	}
	return t.start(t.service())
}

func (t *trial) awaitCut(ctx context.Context, p *process) error {
	select {
	case <-t.cut.made:
		t.struck = "commit answer lost"
		return nil
	case <-p.ended:
		return fmt.Errorf("%s ended with %s where only its connection was to be cut", p.name, statusText(p.status))
	case <-ctx.Done():
		return fmt.Errorf("the boundary was not reached: %w", ctx.Err())
	}
}

// through does something that makes the armed service die, and waits for both to be over.
func (t *trial) through(ctx context.Context, trigger func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return trigger(ctx) })
	group.Go(func() error { return t.strike(ctx) })
	return group.Wait()
}

// provoke installs faults of the provider that concern this trial's effect alone.
func (t *trial) provoke(ctx context.Context, rules ...sandbox.Rule) ([]string, error) {
	for i := range rules {
		rules[i].Match.System = sandbox.CRM
		if t.refunds() {
			rules[i].Match.System = sandbox.Payments
			if rules[i].Match.Operation == sandbox.Update {
				rules[i].Match.Operation = sandbox.Create // the one write that there is of payments
			}
		}
		if rules[i].Match.Operation == sandbox.Read {
			rules[i].Match.PathPrefix = "/crm/contacts/" + t.contact
		} else {
			rules[i].Match.Reference = t.operation
		}
	}
	return t.provider.Fault(ctx, rules...)
}

// until waits for something to be so of the trial's run r and its effect e.
func (t *trial) until(ctx context.Context, what, sql string) error {
	return poll(ctx, what, func() (yes bool, err error) {
		row := t.db.QueryRow(ctx, "select coalesce(bool_or("+sql+"), false) from runs r "+
			"left join effects e using (tenant_id, run_id) where r.run_id = $1", t.runID)
		err = row.Scan(&yes)
		return yes, err
	})
}

// effectIs waits for the effect to be in a state.
func (t *trial) effectIs(ctx context.Context, state string) error {
	return t.until(ctx, "the effect to be "+state, "e.state = '"+state+"'")
}

// hurry lets the time pass that an effect would wait until somebody looks at it again.
func (t *trial) hurry(ctx context.Context) error {
	_, err := t.db.Exec(ctx, "update effects set next_check_at = clock_timestamp() where run_id = $1 and open", t.runID)
	if err != nil {
		return fmt.Errorf("let time pass: %w", err)
	}
	return nil
}

// verb runs an operator's command that dies on the way, and repeats it, as an operator would who saw it end like
// that. The repeat may find that the work is done.
func (t *trial) verb(ctx context.Context, args ...string) error {
	first, err := t.operate(ctx, args, t.armed()...)
	if err != nil {
		return err
	}
	t.struck = statusText(first.status)
	if t.side == mid {
		return errors.Join(t.wantCut(), t.wantStatus(first, 0))
	}
	if !died(first.status) {
		return fmt.Errorf("`holdpoint %s` ended with %s where a SIGKILL was due",
			strings.Join(args, " "), statusText(first.status))
	}
	if t.side == before {
		return t.mustOperate(ctx, args...)
	}
	_, err = t.operate(ctx, args)
	return err
}

// mustOperate runs an operator's verb that has to succeed.
func (t *trial) mustOperate(ctx context.Context, args ...string) error {
	p, err := t.operate(ctx, args)
	if err != nil {
		return err
	}
	return t.wantStatus(p, 0)
}

func (t *trial) wantCut() error {
	select {
	case <-t.cut.made:
		return nil
	default:
		return errors.New("the boundary was not reached")
	}
}

func (t *trial) wantStatus(p *process, code int) error {
	if p.status.Exited() && p.status.ExitStatus() == code {
		return nil
	}
	return fmt.Errorf("`holdpoint %s` ended with %s", strings.Join(p.cmd.Args[1:], " "), statusText(p.status))
}
