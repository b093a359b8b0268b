// Package relay publishes what the other services have committed, keeps the broker's streams in being, and tells
// again of what has not moved (B3, B4).
package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outbox"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Rhythm of the loops:
//
//	outbox       at once while rows wait; when poked, but not within 5 ms of the last pass; else every 50 ms
//	whole scan   1 s     from the start of the table, for transactions that commit late
//	streams      5 s     has the broker lost something?
//	sweep        2 s     has something not moved? At the latest every 30 s while policy has a backlog.
//	lag          5 s     how far behind the relay is
//	mark         2 s     is the database where the bus last heard of it?
//	partitions   1 h     made a week ahead
const (
	idlePause     = 50 * time.Millisecond
	gather        = 5 * time.Millisecond
	wholeScan     = time.Second
	streamsPause  = 5 * time.Second
	sweepPause    = 2 * time.Second
	lagPause      = 5 * time.Second
	markPause     = 2 * time.Second
	partitionWait = time.Hour
	batchSize     = 1000
	sweepSize     = 500
	sweepAnyway   = 30 * time.Second
	drainFor      = 10 * time.Second
)

// Settings of the relay (HOLDPOINT_RELAY_…).
type Settings struct {
	EventLogDays int `split_words:"true" default:"7"`
	InboxDays    int `split_words:"true" default:"14"` // longer than the event log
	// AckWait is how long the broker waits for a sign of life of a consumer before it delivers again; bus.DefaultAckWait
	// where it is not given. Crash tests shorten it.
	AckWait time.Duration `split_words:"true"`
}

// Relay is the service.
type Relay struct {
	env       *service.Env
	settings  Settings
	store     *outbox.Store
	publisher *bus.Publisher
	topology  bus.Topology
	wake      chan struct{}
	published metric.Int64Counter
	lagRows   metric.Int64Gauge
	lagAge    metric.Float64Gauge

	keyWindow time.Duration // the longest memory of keys that a connector declares

	swept    time.Time // the last sweep
	idle     time.Duration
	low      int64 // nothing below it was there at the last whole scan, but for late commits
	scanFrom time.Time
}

// New makes the relay.
func New(env *service.Env, settings Settings) (*Relay, error) {
	if settings.InboxDays <= settings.EventLogDays {
		return nil, fmt.Errorf("HOLDPOINT_RELAY_INBOX_DAYS is %d; it must be more than HOLDPOINT_RELAY_EVENT_LOG_DAYS (%d), "+
			"or events that were handled could be handled again", settings.InboxDays, settings.EventLogDays)
	}
	tenants := make([]string, len(env.Config.Tenants))
	for i, t := range env.Config.Tenants {
		tenants[i] = t.ID
	}
	r := &Relay{
		env: env, settings: settings, store: outbox.New(env.Pool), publisher: env.Bus.NewPublisher(ledger.Relay),
		topology: bus.NewTopology(tenants), wake: make(chan struct{}, 1), idle: idlePause, keyWindow: keyWindow(env.Config),
	}
	if settings.AckWait > 0 {
		r.topology.SetAckWait(settings.AckWait)
	}
	var errs [3]error
	r.published, errs[0] = env.Meter.Int64Counter("holdpoint_outbox_published_total")
	r.lagRows, errs[1] = env.Meter.Int64Gauge("holdpoint_outbox_lag_rows")
	r.lagAge, errs[2] = env.Meter.Float64Gauge("holdpoint_outbox_lag_seconds")
	return r, errors.Join(errs[:]...)
}

// Run works until the context ends.
func (r *Relay) Run(ctx context.Context) error {
	stop, err := r.env.Bus.Listen(bus.WakeSubject(ledger.Relay), func() { service.WakeUp(r.wake) })
	if err != nil {
		return fmt.Errorf("listen for wake-ups: %w", err)
	}
	defer stop()
	loop := func(name string, pause time.Duration, once func(context.Context) (bool, error)) service.Named {
		return service.Named{Name: "relay " + name, Runner: service.Loop{
			Name: name, Log: r.env.Log, Pause: pause, Once: once,
		}}
	}
	return service.RunAll(ctx, r.env.Log, drainFor,
		service.Named{Name: "relay outbox", Runner: service.Loop{
			Name: "outbox", Log: r.env.Log, Pause: r.idle, Gap: gather, Wake: r.wake, Once: r.pass,
		}},
		service.Named{Name: "relay streams", Runner: provisioner{r}},
		loop("epochs", streamsPause, r.observe),
		loop("sweep", sweepPause, r.sweep),
		loop("lag", lagPause, r.lag),
		loop("mark", markPause, r.mark),
		loop("partitions", partitionWait, r.partitions),
	)
}

// pass publishes one batch. It says "again" while batches come back full.
func (r *Relay) pass(ctx context.Context) (bool, error) {
	if !r.env.Bus.Connected() {
		return false, nil
	}
	after := r.low
	if time.Since(r.scanFrom) >= wholeScan {
		after, r.scanFrom = 0, time.Now()
	}
	report, err := r.store.Pass(ctx, after, batchSize, r.publish)
	if err != nil {
		return false, err
	}
	r.low = max(r.low, report.High)
	if report.Failed > 0 {
		r.low, r.scanFrom = 0, time.Time{}
	}
	r.published.Add(ctx, int64(report.Published))
	if report.Requeued > 0 {
		r.env.Log.Warn("the broker went back; what it may have lost is published again from Postgres",
			"events", report.Requeued)
	}
	if report.Failed+report.Parked > 0 {
		r.env.Log.Warn("the broker did not take all events; they stay in the outbox", "failed", report.Failed,
			"parked", report.Parked)
	}
	if len(report.Acknowledged) > 0 {
		if err := r.store.Acknowledged(ctx, report.Acknowledged); err != nil {
			return false, err
		}
	}
	return report.Published == batchSize, nil
}

func (r *Relay) publish(ctx context.Context, messages []outbox.Message) []outbox.Receipt {
	batch := make([]bus.Message, len(messages))
	for i := range messages {
		batch[i] = bus.Message{Subject: messages[i].Subject, ID: messages[i].MessageID(), Data: messages[i].Payload,
			Header: messages[i].Headers}
	}
	receipts := make([]outbox.Receipt, len(messages))
	for i, result := range r.publisher.PublishBatch(ctx, batch) {
		receipts[i] = outbox.Receipt{Seq: int64(result.Seq), Err: result.Err, Final: errors.Is(result.Err, bus.ErrTooLarge)}
		if result.Duplicate {
			receipts[i].Seq = 0 // the sequence of the first publish says nothing about how far the stream is
		}
	}
	return receipts
}

type provisioner struct{ r *Relay }

func (p provisioner) Run(ctx context.Context) error {
	return bus.Watch(ctx, p.r.env.Bus, p.r.topology, 0)
}

func (r *Relay) observe(ctx context.Context) (bool, error) {
	for _, stream := range r.topology.Streams {
		info, err := r.env.Bus.StreamInfo(ctx, stream.Name)
		if err != nil {
			continue // no broker, or no stream yet: the provisioner says so
		}
		queued, err := r.store.Observe(ctx, outbox.Stream{Name: stream.Name, Created: info.Created, LastSeq: info.LastSeq})
		if err != nil {
			return false, err
		}
		if queued > 0 {
			r.env.Log.Warn("the broker lost messages; they are published again from Postgres", "stream", stream.Name,
				"events", queued)
		}
	}
	return false, nil
}

// sweep tells policy again of runs that have not moved. While policy has a backlog they wait their turn in it, and telling it again
// would only make it longer; but a backlog that never ends hides no run for longer than sweepAnyway (B4).
func (r *Relay) sweep(ctx context.Context) (bool, error) {
	backlog, err := r.env.Bus.Backlog(ctx, bus.InternalStream, bus.PolicyConsumer)
	if err == nil && backlog >= sweepSize && time.Since(r.swept) < sweepAnyway {
		return false, nil
	}
	r.swept = time.Now()
	queued, err := r.env.Ledger.Sweep(ctx, sweepSize)
	if queued > 0 {
		r.env.Log.Info("told policy again of runs that had not moved", "runs", queued)
	}
	return queued == sweepSize, err
}

func (r *Relay) lag(ctx context.Context) (bool, error) {
	rows, oldest, err := r.store.Lag(ctx)
	if err == nil {
		r.lagRows.Record(ctx, rows)
		r.lagAge.Record(ctx, oldest.Seconds())
	}
	return false, err
}

func (r *Relay) partitions(ctx context.Context) (bool, error) {
	return false, r.store.MaintainPartitions(ctx, r.settings.EventLogDays, r.settings.InboxDays)
}
