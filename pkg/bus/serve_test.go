package bus_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

func TestServe(t *testing.T) {
	t.Parallel()

	// door is a service whose requests wait until they are let go.
	type door struct {
		*bustest.Bus
		nc      *nats.Conn
		entered chan bus.Request
		release chan bus.Reply
		stop    func() error
	}
	setup := func(t *testing.T, change func(*bus.ServeConfig)) *door {
		t.Helper()
		t.Parallel()
		d := &door{Bus: bustest.New(t), entered: make(chan bus.Request, 10), release: make(chan bus.Reply, 10)}
		d.nc, _ = raw(t, d.Bus)
		cfg := bus.ServeConfig{Name: "test", Version: "1.0.0", Overloaded: bus.Reply{ErrorCode: "503", Error: "later"},
			Endpoints: []bus.Endpoint{
				{Name: "wait", Subject: bus.APISubject("demo", "wait.*"),
					Handle: func(_ context.Context, r bus.Request) bus.Reply {
						d.entered <- r
						return <-d.release
					}},
				{Name: "panic", Subject: bus.APISubject("demo", "panic"),
					Handle: func(context.Context, bus.Request) bus.Reply { panic("no") }},
				{Name: "ping", Subject: bus.APISubject("demo", "ping"),
					Handle: func(context.Context, bus.Request) bus.Reply { return bus.Reply{} }},
			}}
		if change != nil {
			change(&cfg)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- bus.Serve(ctx, d.Conn, cfg) }()
		d.stop = sync.OnceValue(func() error { cancel(); return <-ended })
		t.Cleanup(func() { _ = d.stop() })
		require.Eventually(t, func() bool {
			_, err := d.nc.Request(bus.APISubject("demo", "ping"), nil, waitLimit)
			return err == nil
		}, waitLimit, pollEvery)
		return d
	}
	request := func(d *door, verb string) <-chan *nats.Msg {
		answer := make(chan *nats.Msg, 1)
		go func() {
			msg := nats.NewMsg(bus.APISubject("demo", verb))
			msg.Data = []byte("data")
			msg.Header["x-name"] = []string{"a", "b"}
			response, err := d.nc.RequestMsg(msg, waitLimit)
			if err != nil {
				response = nil
			}
			answer <- response
		}()
		return answer
	}

	t.Run("RequestsAreHandledSideBySideAndAnsweredWithHeaders", func(t *testing.T) {
		d := setup(t, nil)
		first, second := request(d, "wait.a"), request(d, "wait.b")
		seen := map[string]bool{}
		for range 2 {
			r := <-d.entered
			seen[r.Subject] = true
			require.Equal(t, "data", string(r.Data))
			require.Equal(t, []string{"a", "b"}, r.Header.Values("X-Name"))
		}
		require.Len(t, seen, 2)
		for range 2 {
			d.release <- bus.Reply{Header: map[string]string{"Retry-After": "3"}, Data: []byte("done")}
		}
		for _, answer := range []*nats.Msg{<-first, <-second} {
			require.NotNil(t, answer)
			require.Equal(t, "done", string(answer.Data))
			require.Equal(t, "3", answer.Header.Get("Retry-After"))
			require.Empty(t, answer.Header.Get(micro.ErrorCodeHeader))
		}
	})

	t.Run("AnErrorIsMarkedForClients", func(t *testing.T) {
		d := setup(t, nil)
		answer := request(d, "wait.a")
		<-d.entered
		d.release <- bus.Reply{Data: []byte("why"), ErrorCode: "404", Error: "no such thing"}
		got := <-answer
		require.Equal(t, "404", got.Header.Get(micro.ErrorCodeHeader))
		require.Equal(t, "no such thing", got.Header.Get(micro.ErrorHeader))
		require.Equal(t, "why", string(got.Data))
	})

	t.Run("TooManyAtOnceAreToldToComeLater", func(t *testing.T) {
		d := setup(t, func(cfg *bus.ServeConfig) { cfg.MaxInFlight = 1 })
		answer := request(d, "wait.a")
		<-d.entered
		require.Equal(t, "503", (<-request(d, "wait.b")).Header.Get(micro.ErrorCodeHeader))
		d.release <- bus.Reply{}
		require.NotNil(t, <-answer)
		require.Eventually(t, func() bool { return (<-request(d, "ping")).Header.Get(micro.ErrorCodeHeader) == "" },
			waitLimit, pollEvery)
	})

	t.Run("APanicIsAnError", func(t *testing.T) {
		d := setup(t, nil)
		require.Equal(t, "500", (<-request(d, "panic")).Header.Get(micro.ErrorCodeHeader))
		require.NotNil(t, <-request(d, "ping"), "the service goes on")
	})

	t.Run("AStopAnswersWhatWasTakenAndTakesNoMore", func(t *testing.T) {
		d := setup(t, nil)
		answer := request(d, "wait.a")
		<-d.entered
		stopped := make(chan error, 1)
		go func() { stopped <- d.stop() }()
		require.Eventually(t, func() bool {
			_, err := d.nc.Request(bus.APISubject("demo", "ping"), nil, waitLimit)
			return err == nats.ErrNoResponders
		}, waitLimit, pollEvery)
		require.Empty(t, stopped)
		d.release <- bus.Reply{Data: []byte("done")}
		require.Equal(t, "done", string((<-answer).Data))
		require.NoError(t, <-stopped)
	})

	t.Run("WhatIsNotAnsweredInTimeIsAnError", func(t *testing.T) {
		d := setup(t, func(cfg *bus.ServeConfig) { cfg.DrainTimeout = time.Millisecond })
		answer := request(d, "wait.a")
		<-d.entered
		require.ErrorContains(t, d.stop(), "1 requests had no answer")
		d.release <- bus.Reply{}
		<-answer
	})

	t.Run("ABadEndpointIsAnError", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		err := bus.Serve(t.Context(), b.Conn, bus.ServeConfig{Name: "test", Version: "1.0.0",
			Endpoints: []bus.Endpoint{{Name: "a b", Subject: "x"}}})
		require.ErrorContains(t, err, "endpoint a b")
		err = bus.Serve(t.Context(), b.Conn, bus.ServeConfig{Name: "test", Version: "one"})
		require.ErrorContains(t, err, "serve test")
	})

	t.Run("ItSurvivesTheBroker", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		server, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: t.TempDir(), Port: port})
		require.NoError(t, err)
		conn := bustest.Connect(t, server.URL())
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- bus.Serve(ctx, conn, bus.ServeConfig{Name: "test", Version: "1.0.0", Endpoints: []bus.Endpoint{
				{Name: "ping", Subject: bus.APISubject("demo", "ping"),
					Handle: func(context.Context, bus.Request) bus.Reply { return bus.Reply{} }}}})
		}()
		nc, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
		require.NoError(t, err)
		defer nc.Close()
		answers := func() bool {
			_, err := nc.Request(bus.APISubject("demo", "ping"), nil, time.Second)
			return err == nil
		}
		require.Eventually(t, answers, waitLimit, pollEvery)
		server.Close()
		server, err = bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: t.TempDir(), Port: port})
		require.NoError(t, err)
		defer server.Close()
		require.Eventually(t, answers, waitLimit, pollEvery)
		cancel()
		require.NoError(t, <-ended)
	})
}
