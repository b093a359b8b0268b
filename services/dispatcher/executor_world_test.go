package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// warehouseID is the connector's, which the example configuration does not have.
const warehouseID = "test-warehouse"

// withWarehouse declares an action that an executor carries out.
func withWarehouse(c *config.Tenant) {
	c.Connectors = append(c.Connectors, &config.Connector{
		ID: warehouseID, Kind: config.ConnectorExecutor, Concurrency: 256, Timeout: servicetest.Patience,
		LeaveWithin: servicetest.Patience,
		Backoff:     config.Backoff{Base: 4 * time.Millisecond, Cap: 8 * time.Millisecond, Attempts: 6, Total: time.Hour},
		Operations:  []*config.Operation{{Name: "reserve", Kind: config.OperationCreate, IdempotencyHeader: config.OperationIDMember}},
	})
	c.Actions = append(c.Actions, &config.Action{
		Type: "stock.take", Schema: []byte(`{"type":"object"}`), Connector: warehouseID, Operation: "reserve", Owner: "logistics",
		Risk: config.RiskLow, Reversible: true, Audience: []string{"support-lead"}, DecideWithin: time.Hour,
		ExecuteWithin: time.Hour,
	})
	c.Rules = append(c.Rules, &config.Rule{ID: "stock", Action: "stock.take", Route: config.RouteAuto, When: "true",
		Reason: "A reservation harms nobody."})
}

// replays declares that the executor remembers operation ids.
func replays(c *config.Tenant) {
	op := servicetest.Operation(c, warehouseID)
	op.Replays, op.KeyWindow = true, time.Hour
}

func reportWithin(d time.Duration) func(*config.Tenant) {
	return func(c *config.Tenant) { servicetest.Connector(c, warehouseID).Timeout = d }
}

func leaveWithin(d time.Duration) func(*config.Tenant) {
	return func(c *config.Tenant) { servicetest.Connector(c, warehouseID).LeaveWithin = d }
}

// stock is an event that reserves for a record of its own.
func (b *bench) stock(key string) ledger.Claim {
	return b.Contact(key, func(p *servicetest.Proposal) {
		p.ActionType, p.Target = "stock.take", map[string]string{"system": "warehouse", "record_id": "sku-" + key}
		p.ProposedChange, p.CurrentVersion, p.Evidence = map[string]any{"quantity": json.Number("2.50")}, "", nil
	})
}

// depot is a dispatcher with a broker, and an executor that talks to both as anybody's program would.
type depot struct {
	*bench
	*warehouse

	broker *bustest.Bus
}

func newDepot(t *testing.T, changes ...func(*config.Tenant)) *depot {
	t.Helper()
	var options []servicetest.Option
	for _, change := range changes {
		options = append(options, servicetest.WithConfig(change))
	}
	return newDepotWith(t, options...)
}

func newDepotWith(t *testing.T, options ...servicetest.Option) *depot {
	t.Helper()
	broker := bustest.New(t, "demo")
	options = append([]servicetest.Option{servicetest.WithBus(broker.Conn), servicetest.WithConfig(withWarehouse)}, options...)
	d := &depot{bench: setup(t, options...), broker: broker}
	d.warehouse = newWarehouse(t, login(t, broker.URL()))
	d.open(d.Dispatcher)
	return d
}

// open has a dispatcher answer executors until the returned function, or the end of the test.
func (d *depot) open(dispatcher *Dispatcher) (end func() error) {
	d.t.Helper()
	_, end = dispatcher.openDoors(context.Background())
	end = sync.OnceValue(end)
	d.t.Cleanup(func() { _ = end() })
	for _, subject := range []string{
		bus.APISubject("demo", "leave."+warehouseID),
		peerSubject(dispatcher.executors.instance, "leave", "demo", warehouseID),
	} {
		require.Eventually(d.t, func() bool {
			_, err := d.nc.Request(subject, nil, servicetest.Patience)
			return err == nil
		}, servicetest.Patience, time.Millisecond, "somebody answers on %s", subject)
	}
	return end
}

// beside is a bench of another dispatcher with the same configuration.
func (b *bench) beside() *bench {
	b.t.Helper()
	return &bench{World: b.World, Dispatcher: another(b.t, b.World), t: b.t}
}

// patient is the same depot with a dispatcher that waits as long as the test does.
func (d *depot) patient(changes ...func(*config.Tenant)) *depot {
	d.t.Helper()
	changes = append([]func(*config.Tenant){withWarehouse}, changes...)
	other := &depot{bench: d.with(changes...), warehouse: d.warehouse, broker: d.broker}
	other.open(other.Dispatcher)
	return other
}

// replica is another dispatcher that answers executors, and knows no call.
func (d *depot) replica() *Dispatcher {
	d.t.Helper()
	other := another(d.t, d.World)
	d.open(other)
	return other
}

// offer hands the effects of these keys to the executors, and returns while they are waited for.
func (d *depot) offer(keys ...string) {
	d.t.Helper()
	claims := make([]ledger.Claim, len(keys))
	for i, key := range keys {
		claims[i] = d.stock(key)
	}
	d.Authorize(claims...)
	d.take(keys...)
}

// warehouse is an executor with a ledger of its own: every write is there, by operation id.
type warehouse struct {
	test     *testing.T
	nc       *nats.Conn
	commands *nats.Subscription

	mu     sync.Mutex
	writes map[string]int
}

func newWarehouse(t *testing.T, nc *nats.Conn) *warehouse {
	t.Helper()
	w := &warehouse{test: t, nc: nc, writes: map[string]int{}}
	w.commands = w.reader()
	return w
}

func login(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// reader reads the commands of the connector from the first one on, as a consumer of its own.
func (w *warehouse) reader() *nats.Subscription {
	w.test.Helper()
	js, err := w.nc.JetStream()
	require.NoError(w.test, err)
	commands, err := js.PullSubscribe(bus.ExecSubject("demo", warehouseID), "", nats.BindStream(bus.ExecStream("demo")),
		nats.DeliverAll(), nats.AckExplicit())
	require.NoError(w.test, err)
	return commands
}

// command takes the next command.
func (w *warehouse) command() *contracts.EffectCommand {
	w.test.Helper()
	command, err := next(w.commands)
	require.NoError(w.test, err)
	return command
}

func next(commands *nats.Subscription) (*contracts.EffectCommand, error) {
	messages, err := commands.Fetch(1, nats.MaxWait(servicetest.Patience))
	if err != nil {
		return nil, err
	}
	if err := messages[0].Ack(); err != nil {
		return nil, err
	}
	event, err := contracts.Decode(messages[0].Data)
	if err != nil {
		return nil, err
	}
	return event.Data.(*contracts.EffectCommand), nil
}

// asked is an answer or a problem.
type asked[T any] struct {
	answer  T
	problem *contracts.Problem
}

// code is the problem's, or "" where there is an answer.
func (a asked[T]) code() string {
	if a.problem == nil {
		return ""
	}
	return a.problem.Code
}

func ask[T any](nc *nats.Conn, subject string, body any) (got asked[T], err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return got, err
	}
	msg, err := nc.Request(subject, text, servicetest.Patience)
	if err != nil {
		return got, err
	}
	if msg.Header.Get("Nats-Service-Error-Code") != "" {
		got.problem = new(contracts.Problem)
		return got, json.Unmarshal(msg.Data, got.problem)
	}
	return got, json.Unmarshal(msg.Data, &got.answer)
}

// leave asks leave for a command.
func (w *warehouse) leave(command *contracts.EffectCommand) contracts.Leave {
	w.test.Helper()
	got, err := ask[contracts.Leave](w.nc, bus.APISubject("demo", "leave."+warehouseID), contracts.LeaveRequest{Token: command.Token})
	require.NoError(w.test, err)
	require.Nil(w.test, got.problem)
	return got.answer
}

// granted asks leave for a command and gets it.
func (w *warehouse) granted(command *contracts.EffectCommand) contracts.Leave {
	w.test.Helper()
	leave := w.leave(command)
	require.True(w.test, leave.Granted, leave.Reason)
	return leave
}

// write is what all of it is about.
func (w *warehouse) write(operationID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes[operationID]++
}

// written is how often an operation was carried out.
func (w *warehouse) written(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes[servicetest.Effect(key).OperationID()]
}

// tell sends a receipt.
func (w *warehouse) tell(r contracts.Receipt) asked[contracts.Recorded] {
	w.test.Helper()
	got, err := ask[contracts.Recorded](w.nc, bus.APISubject("demo", "receipt."+warehouseID), r)
	require.NoError(w.test, err)
	return got
}

// recorded sends a receipt that is recorded.
func (w *warehouse) recorded(r contracts.Receipt) {
	w.test.Helper()
	got := w.tell(r)
	require.Nil(w.test, got.problem)
	require.True(w.test, got.answer.Recorded)
}

// serve carries out whatever is commanded, as a program does that takes no care of who else does: n of them compete.
func (w *warehouse) serve(n int) {
	w.test.Helper()
	for i := range n {
		commands := w.reader()
		go func() {
			for w.nc.IsConnected() {
				command, err := next(commands)
				if err == nil {
					w.carryOut(command, fmt.Sprintf("res-%d", i))
				}
			}
		}()
	}
}

func (w *warehouse) carryOut(command *contracts.EffectCommand, id string) {
	leave, err := ask[contracts.Leave](w.nc, bus.APISubject("demo", "leave."+warehouseID),
		contracts.LeaveRequest{Token: command.Token})
	if err != nil || !leave.answer.Granted {
		return
	}
	w.write(command.OperationID)
	receipt := contracts.Receipt{Token: leave.answer.Token, Status: "succeeded", ExternalID: id + "-" + uuid.NewString()}
	_, _ = ask[contracts.Recorded](w.nc, bus.APISubject("demo", "receipt."+warehouseID), receipt)
}
