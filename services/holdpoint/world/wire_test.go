package world

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	const spoken = "INFO {\"server_id\":\"a b\"}\r\n" +
		"CONNECT {\"user\":\"x\"}\r\nPING\r\nSUB _INBOX.1 7\r\n" +
		"PUB $JS.ACK.s.c.1.2.3.4.5 4\r\n+ACK\r\n" +
		"HPUB holdpoint.internal.intent.submitted _INBOX.1.9 32 34\r\nNATS/1.0\r\nNats-Msg-Id: e:1\r\n\r\n  {}\r\n" +
		"MSG _INBOX.1.9 7 23\r\n{\"stream\":\"S\", \"seq\":9}\r\n" +
		"MSG _INBOX.1.8 7 2\r\n{}\r\n"
	read := func(t *testing.T) []frame {
		t.Helper()
		var frames []frame
		for reader := bufio.NewReader(strings.NewReader(spoken)); ; {
			f, err := readFrame(reader)
			if err == io.EOF {
				return frames
			}
			require.NoError(t, err)
			frames = append(frames, f)
		}
	}

	t.Run("AreWrittenAsTheyWereRead", func(t *testing.T) {
		t.Parallel()
		var written bytes.Buffer
		for _, f := range read(t) {
			written.Write(f.bytes())
		}
		require.Equal(t, spoken, written.String())
	})

	t.Run("LuckTouchesEventsAcksAndReceiptsAlone", func(t *testing.T) {
		t.Parallel()
		var exposed []bool
		for _, f := range read(t) {
			exposed = append(exposed, f.exposed())
		}
		require.Equal(t, []bool{false, false, false, false, true, true, true, false}, exposed)
	})

	t.Run("RepeatedPublishIsAnotherMessageThatAsksForNoReceipt", func(t *testing.T) {
		t.Parallel()
		again, err := readFrame(bufio.NewReader(bytes.NewReader(read(t)[5].again().bytes())))
		require.NoError(t, err)
		require.Equal(t, []string{"HPUB", "holdpoint.internal.intent.submitted", "38", "40"}, again.words)
		require.Contains(t, string(again.body), "Nats-Msg-Id: e:1~again\r\n")
	})
}

func TestDice(t *testing.T) {
	t.Parallel()
	fates := func(seed uint64) (all []Fate) {
		d := newDice(Luck{Drop: 0.25, Duplicate: 0.25, Reorder: 0.25}, seed)
		for range 1000 {
			all = append(all, d.throw())
		}
		return all
	}

	t.Run("SameSeedThrowsTheSame", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, fates(1), fates(1))
		require.NotEqual(t, fates(1), fates(2))
	})

	t.Run("ChancesAreAsGiven", func(t *testing.T) {
		t.Parallel()
		count := map[Fate]int{}
		for _, f := range fates(3) {
			count[f]++
		}
		for _, f := range []Fate{Dropped, Duplicated, Reordered, Passed} {
			require.InDelta(t, 250, count[f], 75, f)
		}
		require.Zero(t, count[Delayed])
	})

	t.Run("CutsAreBounded", func(t *testing.T) {
		t.Parallel()
		d := newDice(Luck{Cuts: 2}, 1)
		require.Equal(t, []bool{true, true, false}, []bool{d.cut(BrokerCut), d.cut(BrokerCut), d.cut(BrokerCut)})
	})
}

func TestLink(t *testing.T) {
	t.Parallel()
	// setup makes a link to a server that answers with its own name to each byte.
	setup := func(t *testing.T) (*link, *atomic.Value) {
		target := &atomic.Value{}
		target.Store(named(t, 'a'))
		l, err := newLink(target, plainly)
		require.NoError(t, err)
		t.Cleanup(l.close)
		return l, target
	}
	ask := func(c net.Conn) (byte, error) {
		answer := make([]byte, 1)
		_, err := c.Write([]byte{'?'})
		if err == nil {
			_, err = io.ReadFull(c, answer)
		}
		return answer[0], err
	}
	dial := func(t *testing.T, l *link) net.Conn {
		c, err := net.Dial("tcp", l.addr())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}

	t.Run("CutEndsConnectionsAndLetsNewOnesThrough", func(t *testing.T) {
		t.Parallel()
		l, _ := setup(t)
		c := dial(t, l)
		name, err := ask(c)
		require.NoError(t, err)
		require.Equal(t, byte('a'), name)
		l.cut()
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		_, err = ask(dial(t, l))
		require.NoError(t, err)
	})

	t.Run("SeveredItCarriesNothingUntilItIsMended", func(t *testing.T) {
		t.Parallel()
		l, _ := setup(t)
		l.sever()
		if c, err := net.Dial("tcp", l.addr()); err == nil { // the reset may come as early as that
			_, err = ask(c)
			require.Error(t, err)
		}
		l.mend()
		_, err := ask(dial(t, l))
		require.NoError(t, err)
	})

	t.Run("FollowsItsServer", func(t *testing.T) {
		t.Parallel()
		l, target := setup(t)
		target.Store(named(t, 'b'))
		name, err := ask(dial(t, l))
		require.NoError(t, err)
		require.Equal(t, byte('b'), name)
	})
}

// named is a server that answers each byte with its name.
func named(t *testing.T, name byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for question := make([]byte, 1); ; {
					if _, err := c.Read(question); err != nil {
						return
					}
					if _, err := c.Write([]byte{name}); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}
