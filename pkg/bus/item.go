package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
)

// HeaderReply is the header in which a publisher names an inbox for the answer to its event (K14). The broker's own
// reply subject is taken: its acknowledgement goes there.
const HeaderReply = "Holdpoint-Reply"

// How often a message may come before it is treated as the one at fault.
const (
	// AloneAfter deliveries a message is handled in a batch of its own.
	AloneAfter = 5
	// ParkAfter deliveries a handler that fails on the item itself parks it. It tries first: an outage of Postgres
	// also makes the count grow, and must park nothing.
	ParkAfter = 10
)

// Item is one delivered message.
type Item struct {
	Stream  string
	Subject string
	Header  Header
	Data    []byte
	// StreamSeq identifies the message within this life of the stream.
	StreamSeq uint64
	// NumDelivered is 1 at the first delivery. It says nothing about whether the event is new (BUS-02).
	NumDelivered int
	// Stored is when the broker took it, by the broker's clock.
	Stored time.Time
	// ReplySubject is where the publisher wants the answer, for Conn.Reply, which refuses what is not the publisher's
	// own; empty when it named none, several, or something else than an inbox.
	ReplySubject string
}

// Place names the message over all lives of its stream, "" where it lies in none.
func (i *Item) Place() string {
	if i.StreamSeq == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", i.Stream, i.StreamSeq, i.Stored.UnixNano())
}

// Header is a message's header. A name may have several values, in whatever case the publisher chose.
type Header map[string][]string

// headerRequester is the broker's own: it says which account a message came from, whatever a publisher had put there.
const headerRequester = "Nats-Request-Info"

// sent is the header as its publisher sent it, so that a message is the same whichever account it came from.
func sent(h nats.Header) Header {
	delete(h, headerRequester)
	return Header(h)
}

// Values are all values of a name, ignoring case, so that a name given twice can be refused.
func (h Header) Values(name string) []string {
	var values []string
	for key, some := range h {
		if strings.EqualFold(key, name) {
			values = append(values, some...)
		}
	}
	return values
}

// Get is the one value of a name; with several values it is empty, since no choice among them would be safe.
func (h Header) Get(name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// TraceContext returns ctx as a child of the trace that the message belongs to, for work on this item alone.
func (i *Item) TraceContext(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, headerCarrier{i.Header})
}

// headerCarrier lets the propagator read a Header.
type headerCarrier struct{ Header }

func (headerCarrier) Set(string, string) {}
func (c headerCarrier) Keys() []string {
	var keys []string
	for key := range c.Header {
		keys = append(keys, key)
	}
	return keys
}

func newItem(msg jetstream.Msg, meta *jetstream.MsgMetadata) Item {
	item := Item{
		Stream: meta.Stream, Subject: msg.Subject(), Header: sent(msg.Headers()), Data: msg.Data(),
		StreamSeq: meta.Sequence.Stream, NumDelivered: int(meta.NumDelivered), Stored: meta.Timestamp,
	}
	if reply := item.Header.Get(HeaderReply); isInbox(reply) {
		item.ReplySubject = reply
	}
	return item
}

// Verdict says what becomes of an item. The zero value is Retry.
type Verdict struct {
	ack   bool
	after time.Duration
}

// Ack means that the item is done: applied, a duplicate, or parked; whatever it was is committed.
var Ack = Verdict{ack: true}

// Retry brings the item again after a delay that grows with each delivery.
var Retry = Verdict{}

// RetryAfter brings the item again after d.
func RetryAfter(d time.Duration) Verdict { return Verdict{after: max(d, time.Millisecond)} }

// retryDelay is the default for Retry, give or take a quarter, so that a batch does not come back as one wave:
//
//	delivery   1    2    3    4    5     6     7 and later
//	delay      1 s  2 s  4 s  8 s  16 s  32 s  60 s
//	total      1 s  3 s  7 s  15 s 31 s  63 s
//
// A blip of a second costs one delivery, half a minute of outage leaves a message in its batch, and ParkAfter is
// reached after five minutes.
func retryDelay(numDelivered int) time.Duration {
	const longest = time.Minute
	delay := longest
	if shift := numDelivered - 1; shift < 6 {
		delay = time.Second << max(shift, 0)
	}
	return delay*3/4 + rand.N(delay/2)
}
