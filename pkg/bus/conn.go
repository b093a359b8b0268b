package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Defaults of a connection.
const (
	// DefaultPublishTimeout is how long one batch of publishes waits for the broker. The relay holds row locks
	// meanwhile.
	DefaultPublishTimeout = 2 * time.Second
	// maxPendingPublishes bounds what all batches together have in flight: several relays' worth of 1000.
	maxPendingPublishes = 16384
	// apiTimeout bounds one call to the broker's management interface.
	apiTimeout = 5 * time.Second
	// flushTimeout bounds the wait for buffered acks to leave when a consumer or connection ends.
	flushTimeout = 2 * time.Second
)

// ErrDisconnected means that there is no connection to the broker at this moment. It comes back by itself.
var ErrDisconnected = errors.New("not connected to NATS; the connection is being tried again")

// ConnectConfig says where the broker is. Only URL must be given.
type ConnectConfig struct {
	// URL is one address, or several of a cluster separated by commas; it may contain a user and a password, or a
	// token.
	URL string
	// Name appears in the broker's list of connections. Default: holdpoint.
	Name string
	// CredentialsFile is a NATS .creds file. Optional.
	CredentialsFile string
	// RootCAFile holds the certificates that the broker's is checked against, in PEM. Optional.
	RootCAFile string
	// InboxPrefix replaces _INBOX for users who may only subscribe to their own. Optional.
	InboxPrefix string
	// PublishTimeout bounds each batch of publishes. Default: DefaultPublishTimeout.
	PublishTimeout time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Conn is a connection to the broker that is tried again for ever. It is safe for concurrent use and may be shared by
// all services of a process.
type Conn struct {
	nc             *nats.Conn
	js             jetstream.JetStream
	log            *slog.Logger
	publishTimeout time.Duration
	suspicion      chan struct{} // somebody saw the broker come back or a stream missing; Watch looks
	streams        sync.Map      // names of streams that were seen, to tell a lost one from a new one
}

// Connect returns at once even when the broker is down: HTTP intake works without it (O7). Use Connected to ask, and
// Close when done.
func Connect(_ context.Context, cfg ConnectConfig) (*Conn, error) {
	if cfg.URL == "" {
		return nil, errors.New("connect to NATS: the address (HOLDPOINT_NATS_URL) is empty")
	}
	c := &Conn{
		log:            cmp.Or(cfg.Logger, slog.Default()),
		publishTimeout: cmp.Or(cfg.PublishTimeout, DefaultPublishTimeout),
		suspicion:      make(chan struct{}, 1),
	}
	var err error
	if c.nc, err = nats.Connect(cfg.URL, c.options(&cfg)...); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c.js, err = jetstream.New(c.nc,
		// Without it a lost ack would leave its future pending for ever.
		jetstream.WithPublishAsyncTimeout(c.publishTimeout),
		jetstream.WithPublishAsyncMaxPending(maxPendingPublishes),
		jetstream.WithDefaultTimeout(apiTimeout),
	)
	if err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return c, nil
}

func (c *Conn) options(cfg *ConnectConfig) []nats.Option {
	options := []nats.Option{
		nats.Name(cmp.Or(cfg.Name, "holdpoint")),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // A password that is being rotated must not end the connection for good.
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
		// A buffered publish would fail here and still be sent after the reconnect.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(2 * time.Second),
		nats.ErrorHandler(c.onError),
		nats.DisconnectErrHandler(c.onDisconnect),
		nats.ConnectHandler(c.onConnect),
		nats.ReconnectHandler(c.onConnect),
	}
	if cfg.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(cfg.CredentialsFile))
	}
	if cfg.RootCAFile != "" {
		options = append(options, nats.RootCAs(cfg.RootCAFile))
	}
	if cfg.InboxPrefix != "" {
		options = append(options, nats.CustomInboxPrefix(cfg.InboxPrefix))
	}
	return options
}

// onError logs what nobody waits for: a refused permission, a slow subscription.
func (c *Conn) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	c.log.Error("NATS reports an error", "subject", subject, "error", err)
}

func (c *Conn) onDisconnect(nc *nats.Conn, err error) {
	if nc.IsClosed() || err == nil {
		return // We closed it.
	}
	c.log.Warn("lost the connection to NATS, trying again", "error", err)
}

func (c *Conn) onConnect(nc *nats.Conn) {
	c.log.Info("connected to NATS", "url", nc.ConnectedUrlRedacted())
	c.suspect()
}

// suspect asks Watch to look at the streams now. A request that is already waiting is enough.
func (c *Conn) suspect() {
	select {
	case c.suspicion <- struct{}{}:
	default:
	}
}

// Connected reports whether the broker is reached at this moment.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Close sends what is buffered and ends the connection. It may be called more than once.
func (c *Conn) Close() {
	c.flush()
	c.nc.Close()
}

// flush waits until the broker has what was written so far, chiefly acks. What is lost here comes again.
func (c *Conn) flush() {
	if !c.nc.IsConnected() {
		return // Nothing can leave, and nothing is kept for later.
	}
	if err := c.nc.FlushTimeout(flushTimeout); err != nil {
		c.log.Debug("flush to NATS", "error", err)
	}
}

// Poke wakes whoever listens on subject. It is a hint that may be lost; the listener polls as well. The subject must
// not belong to a stream: use holdpoint.wake.<what>.
func (c *Conn) Poke(subject string) error { return c.send("poke", subject, nil) }

// Reply answers on a subject that a tenant's publisher named, see Item.ReplySubject; it is an error where ReplyAllowed
// says no. Nobody may be listening, which is no error.
func (c *Conn) Reply(tenant, subject string, data []byte) error {
	if !ReplyAllowed(tenant, subject) {
		return fmt.Errorf("reply on %q: tenant %s is answered on its own inboxes alone, under %s",
			subject, tenant, InboxPrefix(tenant))
	}
	return c.send("reply", subject, data)
}

func (c *Conn) send(what, subject string, data []byte) error {
	if err := c.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("%s on %s: %w", what, subject, plainly(err))
	}
	return nil
}

// Listen calls wake whenever somebody pokes subject, one call at a time. Calls may be lost and say nothing about what
// happened. It also goes on after a reconnect. The returned function ends it.
func (c *Conn) Listen(subject string, wake func()) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) { wake() })
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", subject, plainly(err))
	}
	return func() {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			c.log.Debug("stop listening", "subject", subject, "error", err)
		}
	}, nil
}

// StreamInfo is what tells one life of a stream from the next.
type StreamInfo struct {
	Created time.Time // a new value means that the stream was lost and made again
	LastSeq uint64    // a value below one seen before means that its tail was lost
}

// StreamInfo asks the broker about a stream.
func (c *Conn) StreamInfo(ctx context.Context, stream string) (StreamInfo, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return StreamInfo{}, fmt.Errorf("look at stream %s: %w", stream, plainly(err))
	}
	info := s.CachedInfo()
	return StreamInfo{Created: info.Created, LastSeq: info.State.LastSeq}, nil
}

// Backlog is how many messages of a stream a durable consumer has yet to acknowledge.
func (c *Conn) Backlog(ctx context.Context, stream, durable string) (int, error) {
	consumer, err := c.js.Consumer(ctx, stream, durable)
	if err != nil {
		return 0, fmt.Errorf("look at consumer %s of stream %s: %w", durable, stream, plainly(err))
	}
	info := consumer.CachedInfo()
	return int(info.NumPending) + info.NumAckPending, nil
}

// plainly replaces the client library's several ways of saying "no connection".
func plainly(err error) error {
	for _, disconnected := range []error{
		nats.ErrReconnectBufExceeded, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrConnectionClosed,
	} {
		if errors.Is(err, disconnected) {
			return ErrDisconnected
		}
	}
	return err
}
