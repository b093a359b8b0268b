package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MarkStream keeps the last marks of the database, by which a database that went back in time is known (D17).
const (
	MarkStream  = "HOLDPOINT_MARK"
	markSubject = "holdpoint.mark"
)

// markStream has no consumer: its last message is read. It outlasts every backup of Postgres.
func markStream() Stream {
	return Stream{Name: MarkStream, Subjects: []string{markSubject}, Retention: Limits, DiscardOld: true, MaxBytes: mebibyte,
		Duplicates: time.Minute}
}

// Mark stores a mark. It is stored when the error is nil, and may be otherwise.
func (c *Conn) Mark(ctx context.Context, mark []byte) error {
	if _, err := c.js.Publish(ctx, markSubject, mark); err != nil {
		return fmt.Errorf("store a mark on the bus: %w", err)
	}
	return nil
}

// LastMark is the last mark that was stored, nil where there is none or the broker has lost it. An error says that nobody knows.
func (c *Conn) LastMark(ctx context.Context) ([]byte, error) {
	stream, err := c.js.Stream(ctx, MarkStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last mark on the bus: %w", err)
	}
	msg, err := stream.GetLastMsgForSubject(ctx, markSubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last mark on the bus: %w", err)
	}
	return msg.Data, nil
}
