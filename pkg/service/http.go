package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// HTTP serves callers until its context ends, then takes no more and answers the requests that it has.
type HTTP struct {
	Listener net.Listener
	Handler  http.Handler
}

// drainHTTP is how long requests in flight may take after the context has ended. A ledger command's own patience is shorter.
const drainHTTP = 15 * time.Second

// Run is Runner.
func (h HTTP) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           h.Handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(h.Listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainHTTP)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		err = fmt.Errorf("some requests had no answer %s after the stop; their senders repeat them: %w", drainHTTP, err)
		return errors.Join(err, server.Close())
	}
	return nil
}
