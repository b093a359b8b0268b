package crash

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// World is what the suite runs its cases in, for other suites: the services that work without people as processes of
// their own, with Postgres, the broker and the sandbox provider.
type World struct{ w *world }

// Open starts a World whose files are in dir, with more edits of the configuration after the suite's own. Close it.
func Open(ctx context.Context, dir, binary string, log *slog.Logger, more ...Edit) (*World, error) {
	w, err := newWorld(ctx, dir, binary, autoFlow, log, more...)
	if err != nil {
		w.close()
		return nil, err
	}
	return &World{w}, nil
}

// Close stops everything.
func (w *World) Close() { w.w.close() }

// Provider is the sandbox.
func (w *World) Provider() *sandbox.Client { return w.w.provider }

// DB is Postgres, as its owner.
func (w *World) DB() *pgxpool.Pool { return w.w.db }

// RunID is the run that the key's event becomes.
func RunID(key string) uuid.UUID { return ledger.RunID(tenant, key) }

// Propose hands in an event that asks for an action on a contact that is at version 1.
func (w *World) Propose(ctx context.Context, key, action, contact string) error {
	body := fmt.Appendf(nil, `{"event_id":%q,"proposal":%s}`, key, contactProposal(action, contact, "Lisbon"))
	_, err := w.w.handIn(ctx, inlineSource, key, body)
	return err
}

// Down kills a service.
func (w *World) Down(service string) { w.w.services[service].kill() }

// Up starts the services that do not run.
func (w *World) Up() error { return w.w.ensure() }

// Surprises are the ends of services that nobody asked for.
func (w *World) Surprises() []string { return w.w.surprises() }

// Await asks again and again until it is so.
func (w *World) Await(ctx context.Context, what string, once func() (bool, error)) error {
	return poll(ctx, what, once)
}

// Accepted is the side of a send on which the provider has the write and has not answered.
const Accepted = accepted

// Death is a service that dies by SIGKILL at a boundary.
type Death struct{ p *process }

// Arm starts the service of a site anew. It dies on that side of the site, when the run comes to it.
func (w *World) Arm(site, side string, run uuid.UUID) (*Death, error) {
	service, name, _ := strings.Cut(site, "/")
	w.Down(service)
	spec := fault.Spec{Service: service, Site: name, Side: fault.Side(side), Key: run.String()}
	if err := w.w.start(service, armed(spec, "")...); err != nil {
		return nil, err
	}
	p := w.w.services[service]
	p.meant.Store(true)
	return &Death{p}, nil
}

// ArmOnCall starts a service anew, and kills it from outside when somebody posts to the address that call is given before
// the service runs.
func (w *World) ArmOnCall(service, name string, call func(url string) error) (*Death, error) {
	w.Down(service)
	started := make(chan *process, 1)
	kill := sync.OnceFunc(func() { (<-started).kill() })
	if err := call(w.w.control.on(name, func() error { kill(); return nil })); err != nil {
		return nil, err
	}
	if err := w.w.start(service); err != nil {
		return nil, err
	}
	p := w.w.services[service]
	started <- p
	return &Death{p}, nil
}

// Struck reports whether the service has died where it should.
func (d *Death) Struck() (bool, error) {
	switch {
	case d.p.running():
		return false, nil
	case !died(d.p.status):
		return false, fmt.Errorf("%s ended with %s where a SIGKILL was due", d.p.name, statusText(d.p.status))
	}
	return true, nil
}
