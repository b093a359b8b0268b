package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConn(t *testing.T) {
	t.Parallel()

	// setup serves raw TCP: for each connection the script says what is answered to the nth request on it, and an empty
	// answer closes.
	type bundle struct {
		*conn
		arrived func() int
		dialled func() int
	}
	setup := func(t *testing.T, script ...[]string) bundle {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		requests, dials := make(chan struct{}, 100), make(chan struct{}, 100)
		go func() {
			for _, answers := range script {
				accepted, err := listener.Accept()
				if err != nil {
					return
				}
				dials <- struct{}{}
				reader := bufio.NewReader(accepted)
				for _, answer := range append(answers, "") {
					request, err := http.ReadRequest(reader)
					if err != nil {
						break
					}
					io.Copy(io.Discard, request.Body)
					requests <- struct{}{}
					if answer == "" {
						break
					}
					io.WriteString(accepted, answer)
				}
				accepted.Close()
			}
		}()
		c := &conn{addr: listener.Addr().String()}
		t.Cleanup(func() { c.close(); listener.Close() })
		return bundle{c, func() int { return len(requests) }, func() int { return len(dials) }}
	}
	request := []byte("POST /e HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}")
	const fixed = "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello"
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
	const closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"

	t.Run("AnswersOfEveryFramingComeOverOneConnection", func(t *testing.T) {
		t.Parallel()
		b := setup(t, []string{fixed, chunked, fixed})
		for range 3 {
			_, body, err := b.do(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, "hello", string(body))
		}
		require.Equal(t, 1, b.dialled())
	})

	t.Run("ClosingAnswerIsTakenAndTheNextRequestDialsAnew", func(t *testing.T) {
		t.Parallel()
		b := setup(t, []string{closing}, []string{fixed})
		for range 2 {
			_, body, err := b.do(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, "hello", string(body))
		}
		require.Equal(t, 2, b.dialled())
	})

	t.Run("CutRequestIsAnErrorAndIsNeverSentAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t, []string{fixed, ""}, []string{fixed})
		_, _, err := b.do(t.Context(), request)
		require.NoError(t, err)
		_, _, err = b.do(t.Context(), request)
		require.ErrorContains(t, err, "read the answer")
		require.Equal(t, 2, b.arrived())
		_, _, err = b.do(t.Context(), request)
		require.NoError(t, err, "the next request uses a new connection")
	})

	t.Run("LongIdleConnectionIsMadeAnew", func(t *testing.T) {
		t.Parallel()
		b := setup(t, []string{fixed}, []string{fixed})
		_, _, err := b.do(t.Context(), request)
		require.NoError(t, err)
		b.used = b.used.Add(-staleAfter - time.Second)
		_, _, err = b.do(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, 2, b.dialled())
	})

	t.Run("HugeAnswerIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t, []string{strings.Replace(fixed, "Length: 5", "Length: 2000000", 1)})
		_, _, err := b.do(t.Context(), request)
		require.ErrorContains(t, err, "over 1 MiB")
	})

	t.Run("HostComesFromAPlainURLOnly", func(t *testing.T) {
		t.Parallel()
		for base, want := range map[string]string{
			"http://127.0.0.1:8080/": "127.0.0.1:8080", "http://intake": "intake:80", "http://[::1]": "[::1]:80",
		} {
			host, err := hostOf(base)
			require.NoError(t, err)
			require.Equal(t, want, host)
		}
		for _, base := range []string{"https://intake:443", "intake:8080", "::"} {
			_, err := hostOf(base)
			require.Error(t, err, base)
		}
	})
}
