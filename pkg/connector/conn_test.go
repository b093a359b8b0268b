package connector

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/outcome"
)

const accepted = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"p\"}"

// cutAfter is a provider that executes every request and cuts the connection instead of answering the nth.
func cutAfter(t *testing.T, n int, rst bool) *wire {
	return listen(t, func(w *wire, c net.Conn, in *bufio.Reader) {
		for w.readRequest(in) {
			if _, requests, _ := w.counts(); requests >= n {
				if rst {
					reset(c)
				}
				return
			}
			io.WriteString(c, accepted)
		}
	})
}

// TestCutConnections proves that a request which was executed and then lost is sent once and is ambiguous, also where
// net/http alone would have sent it again: on a warm connection, with an Idempotency-Key, with and without a body.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pay", "update", "delete"} {
		for _, rst := range []bool{false, true} {
			for _, warm := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/rst=%t/warm=%t", name, rst, warm), func(t *testing.T) {
					t.Parallel()
					n := 1
					if warm {
						n = 2
					}
					w := cutAfter(t, n, rst)
					k := connect(t, w.url, nil)
					r := prepare(t, k, name)
					require.Equal(t, "key-1", r.Header["Idempotency-Key"])
					if warm {
						require.Equal(t, outcome.Succeeded, k.Execute(t.Context(), r, allow).Class)
					}
					gates := 0
					result := k.Execute(t.Context(), r, func() error { gates++; return nil })
					require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
					require.True(t, result.Sent)
					require.Equal(t, 1, gates)
					_, requests, conns := w.counts()
					require.Equal(t, n, requests, "the provider must see each request once")
					if !warm {
						require.Equal(t, 1, conns)
					}
				})
			}
		}
	}

	t.Run("NetHTTPAloneWouldHaveSentTwice", func(t *testing.T) {
		t.Parallel()
		w := cutAfter(t, 2, false)
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), "POST", w.url, strings.NewReader("{}"))
			require.NoError(t, err)
			r.Header.Set("Idempotency-Key", "key-1")
			if response, err := client.Do(r); err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
		_, requests, _ := w.counts()
		require.Equal(t, 3, requests, "if this fails, net/http has changed and this package's defence can be simplified")
	})

	t.Run("CutInTheMiddleOfALongBody", func(t *testing.T) {
		t.Parallel()
		w := listen(t, func(_ *wire, c net.Conn, in *bufio.Reader) {
			in.ReadByte()
			reset(c)
		})
		k := connect(t, w.url, nil)
		r := prepare(t, k, "pay")
		r.Body = []byte(`"` + strings.Repeat("x", 8<<20) + `"`)
		r.Digest = r.Sum()
		result := k.Execute(t.Context(), r, allow)
		require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
		require.True(t, result.Sent)
		_, _, conns := w.counts()
		require.Equal(t, 1, conns)
	})
}

// failing is a connection whose writes fail before the kernel takes a byte.
type failing struct{ net.Conn }

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestConnections(t *testing.T) {
	t.Parallel()

	t.Run("AWriteOfWhichNothingWasTakenIsNotSent", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"pay", "delete"} {
			gates := 0
			k := connect(t, serve(t, answering(200, `{"id":"p"}`)), func(c *Config) {
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					inner, err := new(net.Dialer).DialContext(ctx, network, address)
					return failing{inner}, err
				}
			})
			result := k.Execute(t.Context(), prepare(t, k, name), func() error { gates++; return nil })
			require.Equal(t, outcome.NotSent, result.Class, result.Detail)
			require.Equal(t, 1, gates)
		}
	})

	t.Run("ACallThatEndedWhileItsGateDecidedWritesNothing", func(t *testing.T) {
		t.Parallel()
		var a *attempt
		sent := true
		a = &attempt{ctx: t.Context(), gate: func() error { sent, _ = a.finish(); return nil }}
		_, err := a.admit(&conn{wire: new(meter)})
		require.ErrorIs(t, err, errEnded)
		require.False(t, sent)
	})

	t.Run("AreReusedByWritesAndReads", func(t *testing.T) {
		t.Parallel()
		w := listen(t, func(w *wire, c net.Conn, in *bufio.Reader) {
			for w.readRequest(in) {
				io.WriteString(c, accepted)
			}
		})
		k := connect(t, w.url, nil)
		for range 20 {
			require.Equal(t, outcome.Succeeded, k.Execute(t.Context(), prepare(t, k, "pay"), allow).Class)
			require.Equal(t, Unclear, k.Reconcile(t.Context(), operationNamed(t, "pay")).Verdict)
		}
		_, requests, conns := w.counts()
		require.Equal(t, 40, requests)
		require.Equal(t, 1, conns)
	})

	t.Run("TheBytesOnTheWireAreThePreparedOnes", func(t *testing.T) {
		t.Parallel()
		got := make(chan string, 2)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- fmt.Sprint(r.Method, r.RequestURI, r.Header, r.ContentLength, string(body))
			io.WriteString(w, `{"id":"p"}`)
		})
		k := connect(t, url, nil)
		op := operationNamed(t, "update")
		op.Action = parse(t, `{"target":{"record_id":"a/b c%é?"},"current_version":7.0,"proposed_change":{"b":1.50,"a":"<"}}`)
		r, err := k.Prepare(t.Context(), op)
		require.NoError(t, err)
		require.Equal(t, outcome.Succeeded, k.Execute(t.Context(), r, allow).Class)
		require.Equal(t, `PUT/v1/contacts/a%2Fb%20c%25%C3%A9%3Fmap[Accept:[application/json] Content-Length:[17] `+
			`Content-Type:[application/json] Idempotency-Key:[key-1] If-Match:["7"] User-Agent:[holdpoint]] 17{"a":"<","b":1.5}`,
			<-got)
	})
}

func TestAllowList(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, base string, entries ...string) *allowList {
		u, err := url.Parse(base)
		require.NoError(t, err)
		list, err := newAllowList(entries, u)
		require.NoError(t, err)
		return list
	}

	t.Run("NamesAreCheckedBeforeResolving", func(t *testing.T) {
		t.Parallel()
		list := setup(t, "https://api.example.com", "API.example.com:443", "any-port.example.com", "192.0.2.7:8443", "10.1.0.0/16")
		for _, address := range []string{
			"api.example.com:443", "Api.Example.Com.:443", "any-port.example.com:9", "192.0.2.7:8443", "10.1.2.3:80",
		} {
			require.NoError(t, list.checkName(address), address)
		}
		for _, address := range []string{
			"api.example.com:80", "example.com:443", "x.api.example.com:443", "192.0.2.7:80", "192.0.2.8:8443", "10.2.0.1:80", "x",
		} {
			require.Error(t, list.checkName(address), address)
		}
	})

	t.Run("AddressesMustBePublicOrListed", func(t *testing.T) {
		t.Parallel()
		list := setup(t, "https://api.example.com", "api.example.com", "10.1.0.0/16", "127.0.0.1:8080", "fd00::5")
		for _, address := range []string{
			"8.8.8.8:443", "[2606:4700::1111]:443", "10.1.255.1:443", "127.0.0.1:8080", "[::ffff:10.1.0.1]:443", "[fd00::5]:443",
		} {
			require.NoError(t, list.checkAddress("api.example.com:443", address), address)
		}
		for _, address := range []string{
			"169.254.169.254:80", "127.0.0.1:443", "10.2.0.1:443", "192.168.1.1:443", "172.16.0.1:443", "100.64.0.1:443", "0.0.0.0:443",
			"224.0.0.1:443", "[::1]:443", "[::]:443", "[fe80::1%eth0]:443", "[fd00::6]:443", "[::ffff:127.0.0.1]:443",
			"[64:ff9b::a9fe:a9fe]:80", "[64:ff9b:1::1]:80", "[100::1]:80", "[::7f00:1]:443", "[::a00:1]:443", "[fec0::1]:443", "[5f00::1]:443",
			"[3fff::1]:443", "[2002:a00:1::]:443", "[2001::1]:443", "192.88.99.1:443", "255.255.255.255:443", "nonsense",
		} {
			require.Error(t, list.checkAddress("api.example.com:443", address), address)
		}
	})

	t.Run("LocalhostMayBeLoopbackOnly", func(t *testing.T) {
		t.Parallel()
		list := setup(t, "http://localhost:8080")
		require.NoError(t, list.checkAddress("localhost:8080", "127.0.0.1:8080"))
		require.NoError(t, list.checkAddress("localhost:8080", "[::1]:8080"))
		require.Error(t, list.checkAddress("localhost:8080", "10.0.0.1:8080"))
		require.Error(t, list.checkName("localhost:8081"))
	})

	t.Run("ANameThatLeadsInsideIsRefusedWithZeroBytes", func(t *testing.T) {
		t.Parallel()
		w := listen(t, func(_ *wire, _ net.Conn, in *bufio.Reader) { in.ReadByte() })
		k := connect(t, "http://api.example.com", func(c *Config) {
			c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(w.url, "http://"))
			}
		})
		result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "api.example.com:80 leads to 127.0.0.1, which is not public")
		received, _, _ := w.counts()
		require.Zero(t, received)
	})
}
