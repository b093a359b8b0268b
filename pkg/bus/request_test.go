package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

func TestRequest(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	_, err := b.Conn.Request(ctx, "holdpoint.nobody", []byte("?"))
	require.ErrorIs(t, err, nats.ErrNoResponders, "at once, and not when the time is over")

	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- bus.Serve(serving, b.Conn, bus.ServeConfig{Name: "echo", Version: "1.0.0", Endpoints: []bus.Endpoint{{
			Name: "echo", Subject: "holdpoint.echo",
			Handle: func(_ context.Context, r bus.Request) bus.Reply { return bus.Reply{Data: append(r.Data, '!')} },
		}}})
	}()
	var answer []byte
	require.Eventually(t, func() bool {
		answer, err = b.Conn.Request(ctx, "holdpoint.echo", []byte("hello"))
		return !errors.Is(err, nats.ErrNoResponders)
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, "hello!", string(answer))
	stop()
	require.NoError(t, <-ended)
}
