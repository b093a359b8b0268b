package crash

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wire is one message of the protocol.
func wire(kind byte, body string) []byte {
	raw := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(raw, body...)
}

var (
	startup = append([]byte{0, 0, 0, 8}, 0, 3, 0, 0)
	query   = func(sql string) []byte { return wire(wireQuery, sql+"\x00") }
	done    = wire('C', "done\x00")
	idle    = wire(wireReady, "I")
	inTx    = wire(wireReady, "T")
)

// server plays Postgres: it reads one message for each answer that it was given, and keeps what it read.
type server struct {
	listener net.Listener
	got      chan []byte
}

func newServer(t *testing.T, answers ...[]byte) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	s := &server{listener: listener, got: make(chan []byte, 100)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, answers)
		}
	}()
	return s
}

func (s *server) serve(conn net.Conn, answers [][]byte) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if _, err := readStartup(in); err != nil {
		return
	}
	for _, answer := range answers {
		raw, err := readWire(in)
		if err != nil {
			return
		}
		s.got <- raw
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, in) // until the other side ends it
}

func TestProxy(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, answers ...[]byte) (*proxy, *server, func() net.Conn) {
		t.Helper()
		s := newServer(t, answers...)
		p, err := newProxy(s.listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(p.close)
		return p, s, func() net.Conn {
			client, err := net.Dial("tcp", p.addr())
			require.NoError(t, err)
			t.Cleanup(func() { client.Close() })
			require.NoError(t, client.SetDeadline(time.Now().Add(10*time.Second)))
			_, err = client.Write(startup)
			require.NoError(t, err)
			return client
		}
	}
	send := func(t *testing.T, c net.Conn, raw ...[]byte) {
		t.Helper()
		_, err := c.Write(bytes.Join(raw, nil))
		require.NoError(t, err)
	}
	receive := func(t *testing.T, c net.Conn, want ...[]byte) {
		t.Helper()
		all := bytes.Join(want, nil)
		got := make([]byte, len(all))
		_, err := io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, all, got)
	}
	lost := func(t *testing.T, c net.Conn) {
		t.Helper()
		rest, _ := io.ReadAll(c) // a reset is an end as well
		require.Empty(t, rest)
	}

	t.Run("ForwardsEverythingWhileNothingIsToBeLost", func(t *testing.T) {
		t.Parallel()
		_, s, dial := setup(t, slices.Concat(done, idle))
		c := dial()
		send(t, c, query("commit"))
		receive(t, c, done, idle)
		require.Equal(t, query("commit"), <-s.got)
	})

	t.Run("LosesTheAnswerAfterTheServerHasIt", func(t *testing.T) {
		t.Parallel()
		p, s, dial := setup(t, slices.Concat(done, idle))
		c := dial()
		k := &cut{fragment: "insert into runs", made: make(chan struct{})}
		p.arm(k)
		send(t, c, query("insert into runs values (1)"))
		lost(t, c)
		<-k.made
		require.Equal(t, query("insert into runs values (1)"), <-s.got)
	})

	t.Run("KnowsAPreparedStatementByItsName", func(t *testing.T) {
		t.Parallel()
		p, s, dial := setup(t, idle, nil, slices.Concat(done, idle))
		c := dial()
		send(t, c, wire(wireParse, "s1\x00insert into runs values ($1)\x00\x00\x00"))
		receive(t, c, idle)
		k := &cut{fragment: "insert into runs", made: make(chan struct{})}
		p.arm(k)
		send(t, c, wire(wireBind, "\x00s1\x00\x00\x00\x00\x00\x00\x00"), wire('S', ""))
		lost(t, c)
		<-k.made
		require.Len(t, s.got, 3)
	})

	t.Run("LosesTheAnswerToTheCommitAloneOfATransaction", func(t *testing.T) {
		t.Parallel()
		p, _, dial := setup(t, slices.Concat(done, inTx), slices.Concat(done, inTx), slices.Concat(done, idle))
		c := dial()
		send(t, c, query("begin"))
		receive(t, c, done, inTx)
		send(t, c, query("update effects"))
		receive(t, c, done, inTx)
		k := &cut{fragment: "update effects", made: make(chan struct{})}
		p.arm(k) // the boundary is reached when all but the COMMIT is over
		send(t, c, query("commit"))
		lost(t, c)
		<-k.made
	})

	t.Run("HoldsAnAnswerBackUntilItIsLetGo", func(t *testing.T) {
		t.Parallel()
		p, _, dial := setup(t, slices.Concat(done, idle))
		c := dial()
		k := &cut{fragment: "update effects", made: make(chan struct{}), resume: make(chan struct{})}
		p.arm(k)
		send(t, c, query("update effects"))
		<-k.made
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		close(k.resume)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		receive(t, c, done, idle)
	})

	t.Run("LeavesOtherTransactionsAlone", func(t *testing.T) {
		t.Parallel()
		p, _, dial := setup(t, slices.Concat(done, idle), slices.Concat(done, idle))
		other, meant := dial(), dial()
		p.arm(&cut{fragment: "update effects", made: make(chan struct{})})
		send(t, other, query("select 1"))
		receive(t, other, done, idle)
		send(t, meant, query("update effects"))
		lost(t, meant)
		send(t, other, query("update effects")) // once is enough
		receive(t, other, done, idle)
	})

	t.Run("ForgetsTheTransactionBefore", func(t *testing.T) {
		t.Parallel()
		p, _, dial := setup(t, slices.Concat(done, idle), slices.Concat(done, idle))
		c := dial()
		send(t, c, query("update effects"))
		receive(t, c, done, idle)
		p.arm(&cut{fragment: "update effects", made: make(chan struct{})})
		send(t, c, query("select 1"))
		receive(t, c, done, idle)
	})

	t.Run("EndsTheServersSideWithTheServices", func(t *testing.T) {
		t.Parallel()
		p, s, dial := setup(t, idle)
		c := dial()
		send(t, c, query("begin"))
		receive(t, c, idle)
		<-s.got
		c.Close()
		require.Eventually(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.open) == 0
		}, 10*time.Second, time.Millisecond)
	})
}
