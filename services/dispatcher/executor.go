package dispatcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Times of executors that the configuration leaves open.
const (
	defaultReport = 30 * time.Second
	defaultLeave  = 30 * time.Second
)

// publisher hands messages to the broker.
type publisher interface {
	PublishBatch(ctx context.Context, messages []bus.Message) []bus.Result
}

// peer asks another replica on its own subject. An error means that the replica is gone, or does not answer.
type peer interface {
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
}

// executors is what stands between the dispatcher and programs that write: the calls of this replica that wait for them.
type executors struct {
	instance uuid.UUID // names this replica in tokens
	commands publisher // nil where no connector needs it, as peers are
	peers    peer
	halt     chan struct{}
	halting  sync.Once

	mu    sync.Mutex
	calls map[string]*call // by the token of the command
}

func newExecutors(conn *bus.Conn, wanted bool) *executors {
	x := &executors{instance: uuid.New(), halt: make(chan struct{}), calls: map[string]*call{}}
	if !wanted {
		return x
	}
	x.commands, x.peers = conn.NewPublisher(ledger.Dispatcher), conn
	return x
}

// stop gives back what nobody has asked leave for.
func (x *executors) stop() { x.halting.Do(func() { close(x.halt) }) }

// find is the call that a token is about, or nil.
func (x *executors) find(t token) *call {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls[t.command()]
}

// execute makes one attempt: it offers the command, and waits for whoever asks leave and reports.
func (x *executors) execute(ctx context.Context, a *attempt, r *connector.Request, gate func() error) connector.Result {
	if r.Sum() != r.Digest {
		return connector.NotSent(errors.New("the command differs from its digest"))
	}
	began := time.Now()
	within := cmp.Or(a.target.declared.LeaveWithin, defaultLeave)
	c := x.open(a, gate)
	result := connector.Result{}
	if err := x.offer(ctx, a, r, c.token, within); err != nil {
		c.withdraw(err) // the broker may have stored it all the same
		result = c.wait(0, nil)
	} else {
		result = c.wait(within, x.halt)
	}
	result.StartedAt, result.Duration = began, time.Since(began)
	return result
}

// open lets a call be found by what its executor was told.
func (x *executors) open(a *attempt, gate func() error) *call {
	t := token{instance: x.instance, operation: a.OperationID(), attempt: a.Attempt, owner: a.Owner, secret: rand.Text()}
	c := newCall(a.TenantID, a.Connector, t, cmp.Or(a.target.declared.Timeout, defaultReport), gate)
	a.call = c
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls[t.String()] = c
	return c
}

// close forgets the call of an attempt, when its outcome has been stored or cannot be.
func (x *executors) close(a *attempt, err error) {
	if a.call == nil {
		return
	}
	x.mu.Lock()
	delete(x.calls, a.call.token.String())
	x.mu.Unlock()
	a.call.finish(err)
}

// offer publishes the command.
func (x *executors) offer(ctx context.Context, a *attempt, r *connector.Request, t token, within time.Duration) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	now := a.now()
	event, err := contracts.New(contracts.Meta{ID: id.String(), Time: now, TraceParent: a.TraceParent}, &contracts.EffectCommand{
		TenantID: a.TenantID, RunID: a.RunID.String(), OperationID: a.OperationID(), Connector: a.Connector,
		Operation: r.Operation, CorrelationID: a.CorrelationID, Action: r.Body, Attempt: a.Attempt, Token: t.String(),
		LeaveBy: now.Add(within), LeaveWithinMS: int(within.Milliseconds()),
	})
	if err != nil {
		return err
	}
	message := bus.Message{Subject: event.Data.BusSubject(), ID: event.ID, Key: a.RunID.String(),
		Header: map[string]string{"Content-Type": contracts.ContentType}, Data: event.AppendJSON(nil)}
	if err := x.commands.PublishBatch(ctx, []bus.Message{message})[0].Err; err != nil {
		return fmt.Errorf("offer the command to executors: %w", err)
	}
	return nil
}
