package connector

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/outcome"
)

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

// TestRowNotSent holds what ends a call before its first byte.
func TestRowNotSent(t *testing.T) {
	t.Parallel()
	stop := errors.New("kill switch is closed")

	check := func(t *testing.T, result Result, said string) {
		t.Helper()
		require.Equal(t, outcome.NotSent, result.Class, result.Detail)
		require.False(t, result.Sent)
		require.Contains(t, result.Detail, said)
		require.Error(t, result.Err)
	}

	t.Run("NameDoesNotResolve", func(t *testing.T) {
		t.Parallel()
		k := connect(t, "https://api.example.com", func(c *Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "api.example.com", IsNotFound: true}
			}
		})
		check(t, k.Execute(t.Context(), prepare(t, k, "pay"), allow), "no such host")
	})

	t.Run("ConnectionRefused", func(t *testing.T) {
		t.Parallel()
		k := connect(t, closedPort(t), nil)
		check(t, k.Execute(t.Context(), prepare(t, k, "pay"), allow), "refused")
	})

	t.Run("CertificateIsNotTrusted", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(answering(200, `{"id":"p"}`))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about us, as it should
		server.StartTLS()
		t.Cleanup(server.Close)
		k := connect(t, server.URL, nil)
		check(t, k.Execute(t.Context(), prepare(t, k, "pay"), allow), "TLS handshake")
	})

	t.Run("ContextEndedBeforeTheCall", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(200, `{"id":"p"}`)), nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check(t, k.Execute(ctx, prepare(t, k, "pay"), allow), "canceled")
	})

	for _, name := range []string{"pay", "delete"} {
		t.Run("GateRefuses/"+name, func(t *testing.T) {
			t.Parallel()
			w := listen(t, func(w *wire, c net.Conn, in *bufio.Reader) {
				for w.readRequest(in) {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"p\"}")
				}
			})
			k := connect(t, w.url, nil)
			r := prepare(t, k, name)
			refuse := func() error { return stop }

			result := k.Execute(t.Context(), r, refuse)
			check(t, result, "kill switch is closed")
			require.ErrorIs(t, result.Err, stop)
			received, _, _ := w.counts()
			require.Zero(t, received, "a cold connection")

			require.Equal(t, outcome.Succeeded, k.Execute(t.Context(), r, allow).Class)
			before, _, _ := w.counts()
			calls := 0
			check(t, k.Execute(t.Context(), r, func() error { calls++; return stop }), "kill switch is closed")
			after, requests, _ := w.counts()
			require.Equal(t, before, after, "a warm connection")
			require.Equal(t, 1, requests)
			require.Equal(t, 1, calls)
		})
	}

	for _, name := range []string{"pay", "delete"} {
		t.Run("ContextEndsWhileTheGateDecides/"+name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			w := listen(t, func(_ *wire, _ net.Conn, in *bufio.Reader) {
				in.ReadByte() // until the client closes
				close(gone)
			})
			k := connect(t, w.url, nil)
			ctx, cancel := context.WithCancel(t.Context())
			check(t, k.Execute(ctx, prepare(t, k, name), func() error { cancel(); return nil }), "canceled")
			<-gone
			received, _, _ := w.counts()
			require.Zero(t, received, "a gate that agrees too late must not let anything through")
		})
	}

	t.Run("AnswerBeforeTheQuestion", func(t *testing.T) {
		t.Parallel()
		asking, returned, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
		w := listen(t, func(_ *wire, c net.Conn, in *bufio.Reader) {
			<-asking
			io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
			in.ReadByte() // until the client closes
			close(gone)
		})
		k := connect(t, w.url, nil)
		result := k.Execute(t.Context(), prepare(t, k, "pay"), func() error {
			close(asking)
			<-returned // only when Execute is over does the gate agree
			return nil
		})
		check(t, result, "answered HTTP 408 before it was asked")
		close(returned)
		<-gone
		received, _, _ := w.counts()
		require.Zero(t, received)
	})

	t.Run("NoGate", func(t *testing.T) {
		t.Parallel()
		k := connect(t, closedPort(t), nil)
		check(t, k.Execute(t.Context(), prepare(t, k, "pay"), nil), "no gate")
	})

	t.Run("StoredRequestWasAltered", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(200, `{"id":"p"}`)), nil)
		r := prepare(t, k, "pay")
		r.Body = []byte(strings.Replace(string(r.Body), "9007199254740993.1", "1", 1))
		check(t, k.Execute(t.Context(), r, allow), "differs from its digest")
	})

	t.Run("ConnectorNowPointsElsewhere", func(t *testing.T) {
		t.Parallel()
		r := prepare(t, connect(t, "https://old.example.com", nil), "pay")
		k := connect(t, "https://new.example.com", nil)
		check(t, k.Execute(t.Context(), r, allow), "now points to https://new.example.com")
	})

	t.Run("OperationIsNoLongerDeclared", func(t *testing.T) {
		t.Parallel()
		k := connect(t, closedPort(t), nil)
		r := prepare(t, k, "pay")
		r.Operation = "gone"
		check(t, k.Execute(t.Context(), r, allow), `no operation "gone"`)
	})
}

func TestRowRejectedBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		wait    time.Duration
	}{
		"429WithRetryAfter":             {answering(429, "", "Retry-After", "7"), 7 * time.Second},
		"429WithoutRetryAfter":          {answering(429, ""), 0},
		"429WithNonsense":               {answering(429, "", "Retry-After", "soon"), 0},
		"Declared503WithRetryAfter":     {answering(503, "busy", "Retry-After", "3"), 3 * time.Second},
		"Declared503WithNonsenseHeader": {answering(503, "", "Retry-After", "x"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, c.handler), nil)
			result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
			require.Equal(t, outcome.RejectedBusy, result.Class, result.Detail)
			require.Equal(t, c.wait, result.RetryAfter)
			require.True(t, result.Sent)
		})
	}
}

func TestRowInProgressAtProvider(t *testing.T) {
	t.Parallel()
	k := connect(t, serve(t, answering(409, `{"error":{"code":"key_in_use"}}`)), nil)
	result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
	require.Equal(t, outcome.InProgress, result.Class, result.Detail)
	require.Equal(t, `HTTP 409 with code "key_in_use"`, result.Detail)
}

// TestRowAmbiguous holds the answers that tell nothing. Cut connections are in conn_test.go.
func TestRowAmbiguous(t *testing.T) {
	t.Parallel()
	cases := map[string]http.HandlerFunc{
		"Bare503":                   answering(503, ""),
		"UnlistedStatus":            answering(418, ""),
		"UnlistedSuccess":           answering(206, `{"id":"p"}`),
		"Unconditional409":          answering(409, `{"error":{"code":"exists"}}`),
		"SuccessWithoutTheID":       answering(200, `{"ok":true}`),
		"SuccessWithAnEmptyID":      answering(200, `{"id":""}`),
		"SuccessWithAnIDOfNoUse":    answering(200, `{"id":{"a":1}}`),
		"SuccessWithAnEndlessID":    answering(200, `{"id":"`+strings.Repeat("x", maxID+1)+`"}`),
		"SuccessThatIsNoJSON":       answering(200, `<html>`),
		"SuccessWithTwoIDs":         answering(200, `{"id":"a","id":"b"}`),
		"SuccessWithNoBody":         answering(204, ``),
		"ErrorInsideSuccess":        answering(200, `{"id":"p","error":{"code":"channel_not_found"}}`),
		"SuccessOverTheSizeLimit":   answering(200, `{"id":"p","pad":"`+strings.Repeat("x", 5000)+`"}`),
		"DeclaredLengthOverLimit":   answering(200, `{"id":"p"}`+strings.Repeat(" ", 5000), "Content-Length", "5010"),
		"ErrorOverTheSizeLimit":     answering(400, strings.Repeat("x", 5000)), // its code could be "key in flight"
		"UnreadableChunkedEncoding": func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, chunkedThenBroken) },
		"TruncatedSuccess":          func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, truncated) },
		"TruncatedInTheHeader":      func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, "HTTP/1.1 200 OK\r\nCont") },
		"NotHTTP":                   func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, "hello\r\n\r\n") },
	}
	for _, status := range []int{500, 502, 504} {
		cases[fmt.Sprintf("Status%d", status)] = answering(status, "", "Retry-After", "1")
	}
	for name, handler := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, handler), nil)
			result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
			require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
			require.True(t, result.Sent)
			require.NotEmpty(t, result.Detail)
			require.Zero(t, result.RetryAfter)
		})
	}

	t.Run("TruncatedSuccessOfWhichNothingIsNeeded", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, truncated) }), nil)
		result := k.Execute(t.Context(), prepare(t, k, "delete"), allow)
		require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
	})

	t.Run("TimeoutAfterTheFirstByte", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{})
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			close(arrived)
			<-r.Context().Done()
		})
		k := connect(t, url, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		result := k.Execute(ctx, prepare(t, k, "pay"), allow)
		require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
		require.ErrorIs(t, result.Err, context.Canceled)
	})

	t.Run("ConnectorsOwnTimeout", func(t *testing.T) {
		t.Parallel()
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		k := connect(t, url, func(c *Config) { c.Connector.Timeout = 50 * time.Millisecond })
		result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
		require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
		require.ErrorIs(t, result.Err, context.DeadlineExceeded)
	})
}

const (
	truncated         = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":\"p\"}"
	chunkedThenBroken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"id\":\"p\"}\r\nzz"
)

// hijackWrite sends raw bytes and closes the connection.
func hijackWrite(w http.ResponseWriter, raw string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	io.WriteString(c, raw)
}

// TestRedirectIsAmbiguousAndNotFollowed covers every redirect, to every kind of place.
func TestRedirectIsAmbiguousAndNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		for _, place := range []string{"other host", "same host", "http://169.254.169.254/latest?x=1", `/\evil.test`} {
			t.Run(fmt.Sprint(status, " ", place), func(t *testing.T) {
				t.Parallel()
				visits := make(chan string, 8)
				other := serve(t, func(http.ResponseWriter, *http.Request) { visits <- "other host" })
				to := strings.Replace(place, "other host", other+"/there?token=secret#f", 1)
				to = strings.Replace(to, "same host", "/there?token=secret", 1)
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					visits <- r.URL.Path
					answering(status, "", "Location", to)(w, r)
				})
				k := connect(t, url, func(c *Config) { c.Connector.AllowedHosts = []string{"127.0.0.1"} })
				result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
				require.Equal(t, outcome.Ambiguous, result.Class)
				require.Equal(t, status, result.HTTPStatus)
				require.Contains(t, result.Detail, "not followed")
				require.NotContains(t, result.Detail, "secret")
				require.NotContains(t, result.Detail, "?")
				require.Len(t, visits, 1)
			})
		}
	}
}

func TestRowAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		id     string
	}{
		"202":               {202, `{"id":"p-1"}`, "p-1"},
		"202WithoutBody":    {202, ``, ""},
		"DeclaredAsPending": {201, `{"id":"p-1"}`, "p-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(c.status, c.body)), func(cfg *Config) {
				cfg.Connector.Operations[0].Success.Pending = []int{201, 202}
			})
			result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
			require.Equal(t, outcome.Accepted, result.Class, result.Detail)
			require.Equal(t, c.id, result.ExternalID)
		})
	}
}

func TestRowSucceeded(t *testing.T) {
	t.Parallel()

	t.Run("WithAllThatTheAnswerTells", func(t *testing.T) {
		t.Parallel()
		clock := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
		handler := answering(201, `{"id":9007199254740993,"version":"v8","error":null}`, "X-Request-Id", "req-\t1")
		k := connect(t, serve(t, handler), func(c *Config) {
			c.Clock = func() time.Time { clock = clock.Add(time.Second); return clock }
		})
		result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
		require.Equal(t, Result{
			Class: outcome.Succeeded, Sent: true, HTTPStatus: 201, ExternalID: "9007199254740993", RecordVersion: "v8",
			ProviderRequestID: "req- 1", Detail: "HTTP 201", StartedAt: clock.Add(-2 * time.Second), Duration: 2 * time.Second,
		}, result)
	})

	t.Run("WithoutABodyWhereNoneIsNeeded", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(204, "")), func(c *Config) {
			c.Connector.Operations[1].ReceiptVersion = "/version"
		})
		for _, name := range []string{"update", "delete"} {
			result := k.Execute(t.Context(), prepare(t, k, name), allow)
			require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
		}
	})

	t.Run("ByADeclaredStatusOnly", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(200, "")), func(c *Config) {
			c.Connector.Operations[2].Success.Statuses = []int{204}
		})
		require.Equal(t, outcome.Ambiguous, k.Execute(t.Context(), prepare(t, k, "delete"), allow).Class)
	})
}

func TestRowRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 404, 410, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(status, `{"error":{"code":"closed_account"}}`)), nil)
			result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
			require.Equal(t, outcome.Refused, result.Class)
			require.Equal(t, fmt.Sprintf(`HTTP %d with code "closed_account"`, status), result.Detail)
		})
	}

	t.Run("OnlyWhatIsListed", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(400, "")), func(c *Config) { c.Connector.Operations[0].Refused = []int{422} })
		require.Equal(t, outcome.Ambiguous, k.Execute(t.Context(), prepare(t, k, "pay"), allow).Class)
	})
}

func TestRowVersionConflict(t *testing.T) {
	t.Parallel()
	for _, status := range []int{409, 412} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(status, "")), nil)
			require.Equal(t, outcome.VersionConflict, k.Execute(t.Context(), prepare(t, k, "update"), allow).Class)
			require.Equal(t, outcome.Ambiguous, k.Execute(t.Context(), prepare(t, k, "delete"), allow).Class)

			unproved := func(c *Config) { c.Connector.Operations[1].Conditional.Unproved = true }
			k = connect(t, serve(t, answering(status, "")), unproved)
			require.Equal(t, outcome.Ambiguous, k.Execute(t.Context(), prepare(t, k, "update"), allow).Class, "no check has shown that "+
				"nothing is written then (D13)")
		})
	}
}

func TestRowUnauthorized(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(status, "")), nil)
			require.Equal(t, outcome.Unauthorized, k.Execute(t.Context(), prepare(t, k, "pay"), allow).Class)
		})
	}
}

func TestRowKeyReused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 409, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(status, `{"error":{"code":"key_reused"}}`)), nil)
			require.Equal(t, outcome.KeyReused, k.Execute(t.Context(), prepare(t, k, "pay"), allow).Class)
		})
	}
}

// TestTLS runs a write over TLS, where the handshake's own bytes must not count as the request's.
func TestTLS(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, handler http.HandlerFunc) (k *Connector, shaken *bool) {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = true
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that a refusing gate leaves behind
		server.StartTLS()
		t.Cleanup(server.Close)
		shaken = new(bool)
		return connect(t, server.URL, func(c *Config) {
			c.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			c.TLS.VerifyConnection = func(tls.ConnectionState) error { *shaken = true; return nil }
		}), shaken
	}

	t.Run("GateRunsAfterTheHandshakeAndHTTP1IsSpoken", func(t *testing.T) {
		t.Parallel()
		protocol := make(chan string, 1)
		k, shaken := setup(t, func(w http.ResponseWriter, r *http.Request) {
			protocol <- r.Proto
			io.WriteString(w, `{"id":"p"}`)
		})
		result := k.Execute(t.Context(), prepare(t, k, "pay"), func() error {
			require.True(t, *shaken)
			return nil
		})
		require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
		require.Equal(t, "HTTP/1.1", <-protocol)
	})

	t.Run("GateThatRefusesLeavesNothingSent", func(t *testing.T) {
		t.Parallel()
		k, _ := setup(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
		result := k.Execute(t.Context(), prepare(t, k, "pay"), func() error { return errors.New("no") })
		require.Equal(t, outcome.NotSent, result.Class)
	})
}
