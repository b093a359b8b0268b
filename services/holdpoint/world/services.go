package world

import (
	"context"
	"net/url"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// running is one service in this process, with links and connections of its own.
type running struct {
	name             string
	database, broker *link
	conn             *bus.Conn
	ready            *roster.Ready
	stop             context.CancelFunc
	ended            chan error
}

// wait returns when the service has ended, and lets go of what it held.
func (r *running) wait() error {
	err := <-r.ended
	r.conn.Close()
	r.ready.Close()
	r.database.close()
	r.broker.close()
	return err
}

// Start starts a service: again, or one more of it.
func (w *World) Start(name string) {
	w.t.Helper()
	row, err := roster.Named(name)
	require.NoError(w.t, err)
	cfg, err := w.load()
	require.NoError(w.t, err)
	r := &running{name: name, ended: make(chan error, 1)}
	r.database, err = newLink(w.database, w.databaseCarry())
	require.NoError(w.t, err)
	r.broker, err = newLink(w.broker.target, w.brokerCarry())
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.conn, err = bus.Connect(ctx, bus.ConnectConfig{URL: through(w.broker.url, r.broker), Name: "holdpoint-" + name,
		PublishTimeout: quickPublish, Logger: w.log.logger})
	require.NoError(w.t, err)
	needs := service.Needs{DatabaseURL: through(w.DB.URL, r.database), MaxConns: w.settings.maxConns, Bus: r.conn,
		Config: cfg, Log: w.log.logger, Health: w.health}
	choices := quickChoices()
	choices.Approval, choices.EnableActions = w.approvalChoices(name), w.settings.enabled
	// With bad luck the first connection is cut; a supervisor would start the service again.
	w.Until("start of "+name, func() bool {
		r.ready, err = row.Open(ctx, needs, choices)
		return err == nil || w.settings.luck == (Luck{})
	})
	require.NoError(w.t, err)
	w.add(r)
	go func() { r.ended <- r.ready.Run(ctx) }()
}

func (w *World) databaseCarry() carry {
	if w.settings.luck.CutDatabase > 0 {
		return w.dice.databaseWire
	}
	return plainly
}

func (w *World) brokerCarry() carry {
	l := w.settings.luck
	if l.Drop+l.Duplicate+l.Delay+l.Reorder > 0 || l.CutBroker > 0 {
		return w.dice.brokerWire
	}
	return plainly
}

// through is the address of a server by way of a link.
func through(address string, l *link) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // both servers print addresses that can be read
	}
	u.Host = l.addr()
	return u.String()
}

// Stop drains all replicas of a service, as SIGTERM does, and holds them to a clean end.
func (w *World) Stop(name string) {
	w.t.Helper()
	for _, r := range w.take(name) {
		r.stop()
		require.NoError(w.t, r.wait(), "%s must stop cleanly", name)
	}
}

// Crash ends all replicas of a service as SIGKILL would, as far as anybody else can see: from now on nothing of theirs
// reaches Postgres, the broker or a caller. What they had sent to a provider is with the provider.
func (w *World) Crash(name string) {
	w.t.Helper()
	for _, r := range w.take(name) {
		r.database.sever()
		r.broker.sever()
		r.stop()
		w.mu.Lock()
		w.zombies = append(w.zombies, r)
		w.mu.Unlock()
	}
}

func (w *World) add(r *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = append(w.running, r)
	w.noteIntakes()
}

// take removes the replicas of a service from those that run.
func (w *World) take(name string) []*running {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var taken []*running
	w.running = slices.DeleteFunc(w.running, func(r *running) bool {
		if r.name == name {
			taken = append(taken, r)
		}
		return r.name == name
	})
	require.NotEmpty(w.t, taken, "no %s runs", name)
	w.noteIntakes()
	return taken
}

func (w *World) noteIntakes() {
	var urls []string
	for _, r := range w.running {
		if r.name == ledger.Intake {
			urls = append(urls, "http://"+r.ready.Addr)
		}
	}
	w.intakes.Store(urls)
	w.gates.Store(w.gateURLs())
}

// CutDatabase ends every service's connections to Postgres, once.
func (w *World) CutDatabase() { w.eachDatabase((*link).cut) }

// SeverDatabase takes Postgres away from all services, until MendDatabase.
func (w *World) SeverDatabase() { w.eachDatabase((*link).sever) }

// MendDatabase gives Postgres back.
func (w *World) MendDatabase() { w.eachDatabase((*link).mend) }

func (w *World) eachDatabase(do func(*link)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.running {
		do(r.database)
	}
}
