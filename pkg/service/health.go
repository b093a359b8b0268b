package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health answers /healthz (this process runs), /readyz (it can do its work), /metrics, and Go's profiles under
// /debug/pprof/. The port is for the platform, not for callers.
type Health struct {
	mu       sync.Mutex
	checks   map[string]func(context.Context) error
	notes    map[string]func() string
	draining atomic.Bool
	listener net.Listener
}

// NewHealth listens on an address.
func NewHealth(addr string) (*Health, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for health checks (HOLDPOINT_OPS_ADDR): %w", err)
	}
	return &Health{checks: map[string]func(context.Context) error{}, notes: map[string]func() string{},
		listener: listener}, nil
}

// Add names something without which this process is not ready.
func (h *Health) Add(name string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[name] = check
}

// Note names something that an operator wants to read beside the problems, such as which policy is loaded.
func (h *Health) Note(name string, note func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes[name] = note
}

// Addr is where it listens.
func (h *Health) Addr() string { return h.listener.Addr().String() }

// Drain makes /readyz fail, so that a load balancer stops sending before the process stops taking.
func (h *Health) Drain() { h.draining.Store(true) }

// Run serves until the context ends. A process that is being stopped is not ready from that moment on, whether a
// probe is told so or finds the port closed.
func (h *Health) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", h.ready)
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { h.Drain(); server.Close() })
	defer stop()
	if err := server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health checks: %w", err)
	}
	return nil
}

func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	problems := h.problems(r.Context())
	w.Header().Set("Content-Type", "application/json")
	if len(problems) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ready": len(problems) == 0, "problems": problems, "notes": h.told()})
}

func (h *Health) told() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := make(map[string]string, len(h.notes))
	for name, note := range h.notes {
		told[name] = note()
	}
	return told
}

func (h *Health) problems(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	problems := map[string]string{}
	for name, check := range h.checks {
		if err := check(ctx); err != nil {
			problems[name] = err.Error()
		}
	}
	if h.draining.Load() {
		problems["process"] = "stopping"
	}
	return problems
}
