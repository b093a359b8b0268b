package ledgertest

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Where a connection is cut.
const (
	Never         = iota
	BeforeExecute // the server never sees the next statement
	AfterExecute  // the server executes the next statement and commits it if it stands alone; its answer is lost
	BeforeCommit  // the server never sees the next COMMIT
	AfterCommit   // the server commits; its answer is lost
)

// Cut says where the next connection is cut. It fires once.
type Cut struct{ at, skip atomic.Int32 }

// Arm makes a fitting statement the last of its connection: the first one after as many as are skipped.
func (c *Cut) Arm(at, skip int) {
	c.skip.Store(int32(skip))
	c.at.Store(int32(at))
}

// Fired reports whether an armed cut has happened.
func (c *Cut) Fired() bool { return c.at.Load() == Never }

// Cut is one more ledger of a service, whose connections can be cut.
func (b *Bench) Cut(service string) (*ledger.Ledger, *Cut) {
	b.t.Helper()
	cut := &Cut{}
	cfg, err := pgxpool.ParseConfig(b.DB.URL)
	require.NoError(b.t, err)
	cfg.ConnConfig.RuntimeParams["role"] = "holdpoint_" + service
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &cutConn{Conn: conn, cut: cut}, err
	}
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	l, err := ledger.New(ledger.Config{Pool: pool, Service: service})
	require.NoError(b.t, err)
	return l, cut
}

// cutConn is a connection to Postgres that dies where its cut is armed.
type cutConn struct {
	net.Conn
	cut *Cut
}

// due takes the armed cut where these messages are the ones that it waits for.
func (c *cutConn) due(p []byte) (at int32, due bool) {
	at = c.cut.at.Load()
	switch at {
	case BeforeExecute, AfterExecute:
		due = sends(p, 'E', "")
	case BeforeCommit, AfterCommit:
		due = sends(p, 'Q', "commit")
	}
	return at, due && c.cut.skip.Add(-1) < 0 && c.cut.at.CompareAndSwap(at, Never)
}

func (c *cutConn) Write(p []byte) (int, error) {
	at, due := c.due(p)
	if !due {
		return c.Conn.Write(p)
	}
	if at == AfterExecute || at == AfterCommit {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
		if err := awaitReady(c.Conn); err != nil {
			return 0, err
		}
	}
	return len(p), c.Conn.Close()
}

// sends reports whether the client's messages have one of a kind whose content begins with the text.
func sends(p []byte, kind byte, text string) bool {
	for len(p) >= 5 && p[0] != 0 { // a start-up message has no kind
		size := int(binary.BigEndian.Uint32(p[1:5]))
		if p[0] == kind && len(p) >= 5+len(text) && string(p[5:5+len(text)]) == text {
			return true
		}
		if size+1 > len(p) {
			return false
		}
		p = p[size+1:]
	}
	return false
}

// awaitReady reads what the server answers up to "ready for query": then all that was sent is done.
func awaitReady(conn net.Conn) error {
	in := bufio.NewReader(conn)
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, int64(binary.BigEndian.Uint32(head[1:]))-4); err != nil {
			return err
		}
		if head[0] == 'Z' {
			return nil
		}
	}
}
