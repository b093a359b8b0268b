package dispatcher

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// eventDoor takes effects as they are requested.
type eventDoor struct{ d *Dispatcher }

func (e eventDoor) Run(ctx context.Context) error {
	return bus.Consume(ctx, e.d.env.Bus, bus.ConsumeConfig{
		Service: ledger.Dispatcher, Stream: bus.InternalStream, Durable: bus.DispatchConsumer, Handle: e.d.handle,
		DrainTimeout: e.d.settings.Drain, Logger: e.d.env.Log,
	})
}

// handle puts a batch of requests into the inbox and leases what can be sent now (B3). The messages are done with that:
// effects live in Postgres, and no message is held while a provider is slow (BUS-06).
func (d *Dispatcher) handle(ctx context.Context, items []bus.Item) []bus.Verdict {
	verdicts := make([]bus.Verdict, len(items))
	var requested []ledger.EffectKey
	var events []uuid.UUID
	var readable, unreadable []int
	var parked []ledger.Parked
	for i := range items {
		event, key, err := readEvent(items[i].Data)
		if err != nil {
			unreadable, parked = append(unreadable, i), append(parked, unprocessable(&items[i], event, err))
			continue
		}
		requested, events, readable = append(requested, key), append(events, event), append(readable, i)
	}
	if len(parked) > 0 && d.park(ctx, parked) {
		ack(verdicts, unreadable)
	}
	if len(requested) == 0 {
		return verdicts
	}
	if err := d.lease(ctx, ledger.LeaseRequest{Requested: requested, Events: events}); err != nil {
		d.env.Log.Error("effects could not be leased now; their events come again", "effects", len(requested), "error", err)
		return verdicts
	}
	ack(verdicts, readable)
	return verdicts
}

func ack(verdicts []bus.Verdict, at []int) {
	for _, i := range at {
		verdicts[i] = bus.Ack
	}
}

func (d *Dispatcher) park(ctx context.Context, parked []ledger.Parked) bool {
	if err := d.env.Ledger.Park(ctx, parked); err != nil {
		d.env.Log.Error("events that cannot be read could not be parked now", "error", err)
		return false
	}
	d.env.Log.Error("events that cannot be read were parked", "events", len(parked), "first", parked[0].Detail)
	return true
}

func unprocessable(item *bus.Item, event uuid.UUID, err error) ledger.Parked {
	return ledger.Parked{
		Message:  item.Place(),
		Consumer: ledger.Dispatcher, Subject: item.Subject, EventID: event, Reason: "unprocessable", Detail: err.Error(),
		Body: item.Data, Deliveries: item.NumDelivered,
	}
}

// readEvent is the effect that an event asks for. The event's id is returned with an error too, where it can be read.
func readEvent(data []byte) (event uuid.UUID, key ledger.EffectKey, err error) {
	decoded, err := contracts.Decode(data)
	if err != nil {
		return event, key, err
	}
	if event, err = uuid.Parse(decoded.ID); err != nil {
		return event, key, fmt.Errorf("the event's id: %w", err)
	}
	requested, ok := decoded.Data.(*contracts.EffectRequested)
	if !ok {
		return event, key, fmt.Errorf("%s is not for the dispatcher", decoded.Data.Type())
	}
	key.TenantID = requested.TenantID
	key.RunID, key.Revision, key.Ordinal, err = ledger.ParseOperationID(requested.OperationID)
	return event, key, err
}
