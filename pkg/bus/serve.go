package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// DefaultMaxInFlight is how many requests of one service are handled at the same time.
const DefaultMaxInFlight = 4096

// APISubject is where a tenant's programs call: holdpoint.api.<tenant>.<verb>, and .<source> after it where the verb is
// about one.
func APISubject(tenant, verb string) string { return "holdpoint.api." + tenant + "." + verb }

// ServeConfig is a request/reply service, as nats.go/micro and `nats service` know it. Name, Version and Endpoints must
// be given.
type ServeConfig struct {
	// Name is of letters, digits, - and _. Replicas have the same.
	Name string
	// Version is a semantic version of the interface.
	Version     string
	Description string
	// Tenant may be answered on its own inboxes as well (see answerable). Optional.
	Tenant    string
	Endpoints []Endpoint
	// Overloaded answers what comes while MaxInFlight requests are being handled, or after the end of the service.
	Overloaded Reply
	// MaxInFlight defaults to DefaultMaxInFlight.
	MaxInFlight int
	// DrainTimeout is how long the end waits for answers. Default: DefaultDrainTimeout.
	DrainTimeout time.Duration
	// Logger defaults to the connection's.
	Logger *slog.Logger
}

// Endpoint is one subject, which may end in a wildcard. Each request is answered by one replica.
type Endpoint struct {
	Name, Subject string
	// Handle answers one request, on a goroutine of its own. The context outlives the shutdown by DrainTimeout.
	Handle func(ctx context.Context, r Request) Reply
}

// Request is one call.
type Request struct {
	Subject string
	Header  Header
	Data    []byte
}

// Reply is what a call is answered with.
type Reply struct {
	Header map[string]string
	Data   []byte
	// ErrorCode and Error, both or none, mark the reply as an error for clients of nats.go/micro.
	ErrorCode, Error string
}

// failed answers a call whose handler panicked.
var failed = Reply{ErrorCode: "500", Error: "The request failed; whether anything was done is not known."}

// Serve answers requests until the context ends, then takes no more and answers those that it has; it is an error when
// some are still unanswered after DrainTimeout. It survives the loss of the broker. A request is answered where the
// broker or a client of our account waits for it; nothing is done for one that names no such subject, since a lease that
// nobody hears of would only hold its run back.
func Serve(ctx context.Context, conn *Conn, cfg ServeConfig) error {
	s := &responder{conn: conn, cfg: &cfg, log: cmp.Or(cfg.Logger, conn.log).With("api", cfg.Name)}
	s.max = cmp.Or(cfg.MaxInFlight, DefaultMaxInFlight)
	drained, endDrain := context.WithCancel(context.WithoutCancel(ctx))
	defer endDrain()
	service, err := s.start(drained)
	if err != nil {
		return fmt.Errorf("serve %s: %w", cfg.Name, plainly(err))
	}
	<-ctx.Done()
	if err := service.Stop(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.log.Warn("cannot leave the service cleanly", "error", err)
	}
	conn.flush() // After it nothing more is sent to us: the broker has seen that we left.
	left := s.drain(cmp.Or(cfg.DrainTimeout, DefaultDrainTimeout))
	conn.flush()
	if left > 0 {
		return fmt.Errorf("serve %s: %d requests had no answer when the time for draining was over; "+
			"their senders repeat them", cfg.Name, left)
	}
	return nil
}

// responder is a running service. A gate counts what is in flight.
type responder struct {
	conn *Conn
	cfg  *ServeConfig
	log  *slog.Logger
	max  int

	mu       sync.Mutex
	inFlight int
	idle     chan struct{} // not nil: closing, and closed when nothing is in flight
}

func (s *responder) start(ctx context.Context) (micro.Service, error) {
	service, err := micro.AddService(s.conn.nc, micro.Config{
		Name: s.cfg.Name, Version: s.cfg.Version, Description: s.cfg.Description,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range s.cfg.Endpoints {
		handler := micro.HandlerFunc(func(r micro.Request) { s.take(ctx, &e, r) })
		if err := service.AddEndpoint(e.Name, handler, micro.WithEndpointSubject(e.Subject)); err != nil {
			return nil, errors.Join(fmt.Errorf("endpoint %s: %w", e.Name, err), service.Stop())
		}
	}
	return service, nil
}

// take starts a goroutine for a request: the library delivers one after the other, and whoever waits for the same
// commit has to wait together.
func (s *responder) take(ctx context.Context, e *Endpoint, r micro.Request) {
	to, request := r.Reply(), Request{Subject: r.Subject(), Header: sent(nats.Header(r.Headers())), Data: r.Data()}
	if !answerable(s.cfg.Tenant, to) {
		s.log.Warn("ignored a request without an inbox of its own to answer to", "subject", request.Subject)
		return
	}
	if !s.enter() {
		s.reply(to, s.cfg.Overloaded)
		return
	}
	go func() {
		defer s.leave()
		s.reply(to, s.handle(ctx, e, request))
	}()
}

func (s *responder) handle(ctx context.Context, e *Endpoint, r Request) (reply Reply) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("a request panicked", "endpoint", e.Name, "panic", cause, "stack", string(debug.Stack()))
			reply = failed
		}
	}()
	return e.Handle(ctx, r)
}

// reply publishes by itself: the library's request must not be touched after its handler has returned.
func (s *responder) reply(to string, reply Reply) {
	msg := nats.NewMsg(to)
	msg.Data = reply.Data
	for name, value := range reply.Header {
		msg.Header[name] = []string{value}
	}
	if reply.ErrorCode != "" {
		msg.Header[micro.ErrorCodeHeader] = []string{reply.ErrorCode}
		msg.Header[micro.ErrorHeader] = []string{reply.Error}
	}
	if err := s.conn.nc.PublishMsg(msg); err != nil {
		s.log.Warn("an answer could not be sent", "error", plainly(err))
	}
}

func (s *responder) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil || s.inFlight >= s.max {
		return false
	}
	s.inFlight++
	return true
}

func (s *responder) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.idle != nil && s.inFlight == 0 {
		close(s.idle)
	}
}

// drain lets nobody in and waits for those inside; it tells how many are left.
func (s *responder) drain(patience time.Duration) int {
	s.mu.Lock()
	s.idle = make(chan struct{})
	if s.inFlight == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-time.After(patience):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}
