package ledger

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
)

// Names of the streams that events are published to.
const (
	StreamInternal     = "HOLDPOINT_INTERNAL"
	streamEventsPrefix = "HOLDPOINT_EVENTS_"
)

// StreamEvents is the stream of a tenant's events.
func StreamEvents(tenant string) string { return streamEventsPrefix + strings.ToUpper(tenant) }

// outgoing is an event as the outbox stores it.
type outgoing struct {
	id      uuid.UUID
	stream  string
	subject string
	payload []byte
}

// newOutgoing encodes an event that is stored when its move succeeds. Its time is when the move was asked for; the row that
// carries it has the database's.
func newOutgoing(tenant string, run uuid.UUID, traceParent string, data contracts.Data) (outgoing, error) {
	id := newEventID()
	event, err := contracts.New(contracts.Meta{ID: id.String(), Time: time.Now(), TraceParent: traceParent}, data)
	if err != nil {
		return outgoing{}, fmt.Errorf("event of run %s: %w", run, err)
	}
	stream := StreamEvents(tenant)
	if strings.HasPrefix(data.BusSubject(), "holdpoint.internal.") {
		stream = StreamInternal
	}
	return outgoing{id: id, stream: stream, subject: data.BusSubject(), payload: event.AppendJSON(make([]byte, 0, 640))}, nil
}
