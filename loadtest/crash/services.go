package crash

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// operator is who runs verbs by hand; each is a process of its own.
const operator = ledger.Operator

// serviceNames are all services, in the order in which a run meets them.
var serviceNames = []string{
	ledger.Intake, ledger.Relay, ledger.Policy, ledger.Approval, ledger.Dispatcher, ledger.Reconciler,
}

func (w *world) startServices(ctx context.Context) (err error) {
	if err := WriteSettings(example, filepath.Join(w.dir, "config"), w.edits); err != nil {
		return err
	}
	if w.intakeAddr, err = freeAddr(); err != nil {
		return err
	}
	if w.webhookAddr, err = freeAddr(); err != nil {
		return err
	}
	w.onClose(w.killAll)
	for _, name := range w.flow.services {
		if err := w.start(name); err != nil {
			return err
		}
	}
	return w.awaitStreams(ctx)
}

// awaitStreams waits until the relay has made the broker's streams.
func (w *world) awaitStreams(ctx context.Context) error {
	return poll(ctx, "the broker's streams", func() (bool, error) {
		for _, stream := range []string{bus.IngressStream(tenant), bus.InternalStream, bus.EventsStream(tenant)} {
			if _, err := w.js.Stream(ctx, stream); err != nil {
				return false, whileRunning(w.services[ledger.Relay])
			}
		}
		_, err := w.js.Consumer(ctx, bus.IngressStream(tenant), bus.IntakeConsumer)
		return err == nil, nil
	})
}

// environment is what a service is started with.
func (w *world) environment(service string) []string {
	return append(w.gate.environment(),
		"HOLDPOINT_DATABASE_URL="+w.databaseURL(service),
		"HOLDPOINT_DATABASE_CONNECTIONS=4",
		"HOLDPOINT_NATS_URL="+w.nats.URL(),
		"HOLDPOINT_CONFIG_DIR="+filepath.Join(w.dir, "config"),
		"HOLDPOINT_OPS_ADDR=127.0.0.1:0",
		"HOLDPOINT_INTAKE_ADDR="+w.intakeAddr,
		"HOLDPOINT_RECONCILER_ADDR="+w.webhookAddr,
		"HOLDPOINT_DISPATCHER_LEASE_MARGIN="+leaseMargin,
		"HOLDPOINT_RELAY_ACK_WAIT="+ackWait,
		"HOLDPOINT_SANDBOX_URL="+w.provider.URL(),
		"HOLDPOINT_CRASH_REACHED="+w.reachedFile(),
		"AI_ACTIONS_ENABLED=true",
	)
}

func (w *world) reachedFile() string { return filepath.Join(w.dir, "reached") }

// start runs a service, with more in its environment where it is to die.
func (w *world) start(service string, more ...string) error {
	return w.startAs(service, service, more...)
}

// startAs runs one more replica of a service, under a name of its own.
func (w *world) startAs(name, service string, more ...string) error {
	p, err := w.launch(name, []string{service}, append(w.environment(service), more...)...)
	if err == nil {
		w.services[name] = p
	}
	return err
}

// armed is the environment of a process that dies as the spec says, and tells of a "mid" crash at the address.
func armed(spec fault.Spec, controlURL string) []string {
	return []string{"HOLDPOINT_CRASH=" + spec.String(), "HOLDPOINT_CRASH_CONTROL=" + controlURL}
}

// ensure starts the services that do not run.
func (w *world) ensure() error {
	for _, name := range w.flow.services {
		if w.services[name].running() {
			continue
		}
		if err := w.start(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) killAll() {
	for _, p := range w.services {
		p.kill()
	}
}

// surprises are the ends of services that nobody asked for.
func (w *world) surprises() []string {
	var all []string
	for _, p := range w.started {
		if !p.running() && !p.meant.Load() {
			all = append(all, fmt.Sprintf("%s ended by itself: %s", p.name, statusText(p.status)))
		}
	}
	return all
}

// operate runs an operator's verb to its end.
func (w *world) operate(ctx context.Context, args []string, more ...string) (*process, error) {
	env := []string{"HOLDPOINT_DATABASE_URL=" + w.databaseURL(operator), "HOLDPOINT_CRASH_REACHED=" + w.reachedFile()}
	p, err := w.launch(operator, args, append(env, more...)...)
	if err != nil {
		return nil, err
	}
	p.meant.Store(true)
	_, err = p.await(ctx)
	return p, err
}

// consumed reports whether a consumer of the broker has nothing to do and nothing unacknowledged.
func (w *world) consumed(ctx context.Context, stream, durable string) (bool, error) {
	consumer, err := w.js.Consumer(ctx, stream, durable)
	if err != nil {
		return false, err
	}
	info, err := consumer.Info(ctx)
	return err == nil && info.NumPending == 0 && info.NumAckPending == 0, err
}

// publish hands an event to the broker and waits until that has stored it.
func (w *world) publish(ctx context.Context, subject string, header map[string]string, body []byte) error {
	msg := newMessage(subject, header, body)
	return poll(ctx, "the broker to take an event", func() (bool, error) {
		_, err := w.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		return err == nil, ctx.Err()
	})
}
