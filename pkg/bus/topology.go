package bus

import (
	"strings"
	"time"
)

// Retention is what makes a stream let go of a message.
type Retention string

// The retentions in use.
const (
	// Interest keeps a message until every durable consumer has acknowledged it; without one it is dropped at once.
	Interest Retention = "interest"
	// WorkQueue keeps a message until its one consumer has acknowledged it, also while that does not exist yet.
	WorkQueue Retention = "workqueue"
	// Limits keeps messages for a time and within a size, whoever read them.
	Limits Retention = "limits"
)

// Topology is every stream and durable consumer of an installation, as data.
type Topology struct {
	Streams []Stream
}

// Stream is one stream with its consumers.
type Stream struct {
	Name     string
	Subjects []string
	Retention
	// DiscardOld lets a full stream drop its oldest messages; otherwise it refuses new ones, and the publisher keeps
	// them.
	DiscardOld bool
	MaxBytes   int64
	MaxAge     time.Duration // 0 is unlimited
	// Duplicates is how long the stream remembers message ids. It only saves bandwidth: Postgres decides.
	Duplicates time.Duration
	Replicas   int  // 0 means 1
	Readable   bool // its tenant's programs may have readers of it made (see Watch)
	Consumers  []Consumer
}

// Consumer is one durable pull consumer with explicit acks and no limit of deliveries.
type Consumer struct {
	Durable string
	Filter  string        // subject; empty means all of the stream's
	AckWait time.Duration // 0 means DefaultAckWait
}

// DefaultAckWait is how long the broker waits for a sign of life before it delivers again. Longer than the handler's
// timeout, which is longer than a statement's in Postgres; heartbeats come every third of it.
const DefaultAckWait = 30 * time.Second

// MaxAckPending bounds what the broker has delivered and not seen acknowledged: four times two workers' batches of
// 256, with room for a second replica.
const MaxAckPending = 4096

const (
	mebibyte = 1 << 20
	day      = 24 * time.Hour
)

// Names of streams and durable consumers.
const (
	InternalStream   = "HOLDPOINT_INTERNAL"
	IntakeConsumer   = "intake"
	PolicyConsumer   = "policy"
	DispatchConsumer = "dispatcher"
)

// IngressStream is where a tenant's integrators publish. Each tenant has its own because the broker's duplicate ids
// and limits are per stream: in a shared one, a tenant could suppress another's messages by their ids.
func IngressStream(tenant string) string { return "HOLDPOINT_INGRESS_" + strings.ToUpper(tenant) }

// EventsStream is where a tenant's integrators learn what happened.
func EventsStream(tenant string) string { return "HOLDPOINT_EVENTS_" + strings.ToUpper(tenant) }

// ExecStream is where those of a tenant's programs that carry out its effects learn what to do.
func ExecStream(tenant string) string { return "HOLDPOINT_EXEC_" + strings.ToUpper(tenant) }

// Subjects.

// InternalSubject carries ids and hashes between our services: holdpoint.internal.<record>.<what>.
func InternalSubject(record, what string) string { return "holdpoint.internal." + record + "." + what }

// IngressSubject is what an integrator publishes on: holdpoint.ingress.<tenant>.<source>.
func IngressSubject(tenant, source string) string {
	return "holdpoint.ingress." + tenant + "." + source
}

// EventSubject tells integrators what happened: holdpoint.events.<tenant>.<record>.<what>.
func EventSubject(tenant, record, what string) string {
	return "holdpoint.events." + tenant + "." + record + "." + what
}

// ExecSubject carries commands to whoever carries out a connector's effects: holdpoint.exec.<tenant>.<connector>.
func ExecSubject(tenant, connector string) string {
	return "holdpoint.exec." + tenant + "." + connector
}

// WakeSubject is poked after a commit that somebody polls for: holdpoint.wake.<who>. No stream takes it.
func WakeSubject(who string) string { return "holdpoint.wake." + who }

// NewTopology is the installation of the given tenants (lower-case slugs). Change sizes and replicas in the result.
func NewTopology(tenants []string) Topology {
	t := Topology{Streams: []Stream{internalStream(), markStream()}}
	for _, tenant := range tenants {
		t.Streams = append(t.Streams, ingressStream(tenant), eventsStream(tenant), execStream(tenant))
	}
	return t
}

// SetAckWait changes how long the broker waits for a sign of life of any of the consumers.
func (t Topology) SetAckWait(d time.Duration) {
	for _, s := range t.Streams {
		for i := range s.Consumers {
			s.Consumers[i].AckWait = d
		}
	}
}

// internalStream refuses new messages when full, so that the relay keeps its rows. A message older than a day has
// been sent again by the state sweep long since.
func internalStream() Stream {
	return Stream{
		Name: InternalStream, Subjects: []string{"holdpoint.internal.>"}, Retention: Interest,
		MaxBytes: 1024 * mebibyte, MaxAge: day, Duplicates: time.Minute,
		Consumers: []Consumer{
			{Durable: PolicyConsumer, Filter: InternalSubject("intent", "submitted")},
			{Durable: DispatchConsumer, Filter: InternalSubject("effect", "requested")},
		},
	}
}

// ingressStream keeps what was published until intake has committed it, however long intake is away; a full stream
// tells the publisher. A work queue because intake is its only reader and the claim in Postgres is the record.
func ingressStream(tenant string) Stream {
	return Stream{
		Name: IngressStream(tenant), Subjects: []string{IngressSubject(tenant, "*")}, Retention: WorkQueue,
		MaxBytes: 256 * mebibyte, Duplicates: time.Minute,
		Consumers: []Consumer{{Durable: IntakeConsumer}},
	}
}

// eventsStream is a window on the event log for readers that we do not know; who falls behind it reads the HTTP
// cursor.
func eventsStream(tenant string) Stream {
	return Stream{
		Name: EventsStream(tenant), Subjects: []string{"holdpoint.events." + tenant + ".>"}, Retention: Limits,
		DiscardOld: true, MaxBytes: 256 * mebibyte, MaxAge: 7 * day, Duplicates: time.Minute, Readable: true,
	}
}

// execStream hands commands to executors that we do not know. One that nobody took within the hour is no longer wanted:
// its effect's lease has ended long since, and the effect is handed out again or found out about (D1, D6).
func execStream(tenant string) Stream {
	return Stream{
		Name: ExecStream(tenant), Subjects: []string{ExecSubject(tenant, "*")}, Retention: Limits,
		DiscardOld: true, MaxBytes: 64 * mebibyte, MaxAge: time.Hour, Duplicates: time.Minute, Readable: true,
	}
}
