// Package modeltest is an OpenAI-compatible model endpoint that does what a test says, one reply a call.
package modeltest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Reply answers one call whose body has been read.
type Reply func(http.ResponseWriter, *http.Request)

// Call is one request as it arrived.
type Call struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server plays its script from the first reply to the last.
type Server struct {
	URL string // a base URL, ending in /v1

	mu      sync.Mutex
	script  []Reply
	calls   []Call
	arrived chan struct{} // a token for every call
}

// mostCalls is more than any conversation has.
const mostCalls = 64

// Start listens on the loopback interface until the test ends. A call beyond the script fails the test.
func Start(t testing.TB, script ...Reply) *Server {
	t.Helper()
	s := &Server{script: script, arrived: make(chan struct{}, mostCalls)}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := s.next(r)
		if reply == nil {
			t.Errorf("the model was called more often than the %d times that the script has", len(script))
			w.WriteHeader(http.StatusTeapot)
			return
		}
		reply(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections) // runs first, and ends whoever hangs
	s.URL = web.URL + "/v1"
	return s
}

func (s *Server) next(r *http.Request) Reply {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{r.URL.Path, r.Header.Clone(), body})
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	if len(s.calls) > len(s.script) {
		return nil
	}
	return s.script[len(s.calls)-1]
}

// Arrived has a value for every call that has arrived.
func (s *Server) Arrived() <-chan struct{} { return s.arrived }

// Calls are those that have arrived so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}
