package connector

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// drip writes text again and again, with a pause, until the client has gone.
func drip(c net.Conn, text string, pause time.Duration) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// TestHostileAnswers: whatever a provider answers with, a call ends in its time, and what is not understood is unknown (D6, D12).
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond
	for name, answer := range map[string]func(c net.Conn){
		// net/http ends no read after a 101 with its context.
		"AnotherProtocol": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
			io.Copy(io.Discard, c)
		},
		"ABodyThatDrips": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{")
			drip(c, " ", 20*time.Millisecond)
		},
		"ABodyThatDripsInChunks": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
			drip(c, "1\r\n \r\n", 20*time.Millisecond)
		},
		"ABodyWithoutEnd": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			drip(c, strings.Repeat(" ", 64<<10), 0)
		},
		"AHeaderThatDrips": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Long: ")
			drip(c, "x", 20*time.Millisecond)
		},
		"AHeaderWithoutEnd": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			drip(c, "X-Long: "+strings.Repeat("x", 1000)+"\r\n", 0)
		},
		"ContinueWithoutEnd": func(c net.Conn) { drip(c, "HTTP/1.1 100 Continue\r\n\r\n", time.Millisecond) },
		"HintsWithoutEnd":    func(c net.Conn) { drip(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0) },
		"CompressedUnasked": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
		},
		"TwoLengths": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 11\r\n\r\n{\"id\":\"p\"}")
		},
		"ALengthThatLies": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"id\":\"p\"}")
		},
		"AChunkThatIsCut": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"id\":\"p\"}\r\n")
		},
		"NotHTTP": func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n") },
		"HTTP2":   func(c net.Conn) { io.WriteString(c, "\x00\x00\x00\x04\x00\x00\x00\x00\x00") },
		"NoLine":  func(c net.Conn) { io.WriteString(c, "\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := listen(t, func(w *wire, c net.Conn, in *bufio.Reader) {
				if w.readRequest(in) {
					answer(c)
				}
			})
			k := connect(t, w.url, func(c *Config) { c.Connector.Timeout = timeout })
			ended := make(chan Result, 1)
			go func() { ended <- k.Execute(t.Context(), prepare(t, k, "pay"), allow) }()
			select {
			case result := <-ended:
				require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
				require.True(t, result.Sent)
				require.LessOrEqual(t, len(result.Detail), 310)
				_, requests, _ := w.counts()
				require.Equal(t, 1, requests)
			case <-time.After(10 * timeout):
				t.Error("the call has no end")
				w.end()
			}
		})
	}

	for _, status := range []int{408, 425, 426, 428, 431, 451, 499, 520, 304, 206 + 100} {
		t.Run(fmt.Sprint("Status", status), func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(status, "", "Retry-After", "1")), nil)
			result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
			require.Equal(t, outcome.Ambiguous, result.Class, result.Detail)
			require.Zero(t, result.RetryAfter)
		})
	}
}

// TestAnAnswerToNobody: bytes that a provider, or what stands before it, has sent beyond an answer are not the answer to the next
// request on the connection, whose own answer says that it failed.
func TestAnAnswerToNobody(t *testing.T) {
	t.Parallel()
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"id\":\"forged\"}"
	w := listen(t, func(w *wire, c net.Conn, in *bufio.Reader) {
		for n := 0; w.readRequest(in); n++ {
			text := accepted + forged
			if n > 0 {
				text = "HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 0\r\n\r\n"
			}
			io.WriteString(c, text)
		}
	})
	k := connect(t, w.url, nil)
	r := prepare(t, k, "pay")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				if result := k.Execute(t.Context(), r, allow); result.ExternalID == "forged" {
					t.Error("the forged answer was taken for the request's own")
					return
				}
			}
		})
	}
	all.Wait()
}

// TestAnAnswerThatRepeatsTheCredential: what a system says of a credential that it refuses is kept, the credential is not (D12).
func TestAnAnswerThatRepeatsTheCredential(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t/t0ken+of+the+crm==that-is-longer-than-what-is-kept-of-a-code-by-far"
	for name, change := range map[string]func(*config.Connector){
		"Bearer": func(c *config.Connector) { c.BearerEnv = "SECRET" },
		"Basic": func(c *config.Connector) {
			c.Basic = &config.Basic{Username: "u", Password: config.SecretRef{Env: "SECRET"}}
		},
		"Key": func(c *config.Connector) {
			c.HeaderKey = &config.HeaderKey{Header: "X-Api-Key", Value: config.SecretRef{Env: "SECRET"}}
		},
	} {
		for escaped, say := range map[string]func(string) string{
			"AsItIs":  func(s string) string { return s },
			"Escaped": func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
		} {
			t.Run(name+escaped, func(t *testing.T) {
				t.Parallel()
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					said := cmp.Or(r.Header.Get("X-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
					if _, password, ok := r.BasicAuth(); ok {
						said += " " + password
					}
					answering(401, `{"error":{"code":"invalid `+say(said)+`"}}`, "X-Request-Id", "req "+said)(w, r)
				})
				k := connect(t, url, func(c *Config) {
					change(c.Connector)
					c.Env = func(string) string { return secret }
				})
				result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
				require.Equal(t, outcome.Unauthorized, result.Class, result.Detail)
				require.Contains(t, result.Detail, "(credential)")
				pair := base64.StdEncoding.EncodeToString([]byte("u:" + secret))
				for _, text := range []string{result.Detail, result.ProviderRequestID, result.ExternalID, fmt.Sprint(result.Err)} {
					require.NotContains(t, text, secret[:6])
					require.NotContains(t, text, pair[:6])
				}
			})
		}
	}
}

// TestNoClientAsksAProxy: HTTP_PROXY in the environment of a process leads no call elsewhere (D12).
func TestNoClientAsksAProxy(t *testing.T) {
	t.Parallel()
	k := connect(t, "https://api.example.com", nil)
	require.Nil(t, k.transport.Proxy)
	client, err := NewClient(ClientConfig{BaseURL: "https://api.example.com", Timeout: time.Second})
	require.NoError(t, err)
	require.Nil(t, client.Transport.(unswitched).Proxy)
}

// TestClientEndsInTime: what is fetched besides effects, such as access tokens, ends in its time too.
func TestClientEndsInTime(t *testing.T) {
	t.Parallel()
	w := listen(t, func(w *wire, c net.Conn, in *bufio.Reader) {
		if w.readRequest(in) {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
			io.Copy(io.Discard, c)
		}
	})
	client, err := NewClient(ClientConfig{BaseURL: w.url, Timeout: 400 * time.Millisecond})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		response, err := client.Post(w.url, "application/json", http.NoBody)
		if err == nil {
			_, err = io.ReadAll(response.Body)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, errSwitched)
	case <-time.After(5 * time.Second):
		t.Error("the call has no end")
		w.end()
	}
}
