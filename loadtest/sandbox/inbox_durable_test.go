package sandbox_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/smtp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

func TestInboxIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := sandbox.Config{DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	client, stop := sandboxtest.Start(t, cfg)
	w := world{Client: client, t: t, http: caller()}
	w.refund()
	require.NoError(t, w.post(letter, "rita@example.com"))
	_, err := w.hook("shop", `{"a":1}`, "Webhook-Id", "msg-1")
	require.NoError(t, err)
	mail, hooks := w.mailed("", 1), w.hooked("", 1)
	stop()

	client, stop = sandboxtest.Start(t, cfg)
	t.Cleanup(stop)
	w = world{Client: client, t: t, http: caller()}
	require.Equal(t, mail, w.mailed("", 1))
	require.Equal(t, hooks, w.hooked("", 1))
	w.written(1)
	require.NoError(t, w.post(letter, "rita@example.com"))
	require.EqualValues(t, 2, w.mailed("", 2)[1].ID, "ids go on where they were")
}

func TestIdleMailConnectionDoesNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	client, stop := sandboxtest.Start(t, sandbox.Config{DataDir: t.TempDir(), Logger: quiet})
	w := world{Client: client, t: t, http: caller()}
	idle := w.smtp()
	require.NoError(t, idle.Noop())
	stop()
	require.Error(t, idle.Noop())
}

func TestKilledProcessKeepsEveryAnsweredMessageAndWebhook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, cmd := ownProcess(t, dir)
	addr, err := w.SMTPAddr(t.Context())
	require.NoError(t, err)

	answered := newTally(100)
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("<%d-%d@example.com>", i, n)
				raw := "Message-ID: " + id + "\r\n\r\nGood day."
				if smtp.SendMail(addr, nil, "holdpoint@example.com", []string{"rita@example.com"}, []byte(raw)) != nil {
					return // the process is dead
				}
				answered.add("mail " + id)
			}
		})
		group.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("msg-%d-%d", i, n)
				if status, err := w.hook("shop", `{}`, "Webhook-Id", id); err != nil || status != http.StatusNoContent {
					return
				}
				answered.add("hook " + id)
			}
		})
	}
	stopped := make(chan struct{})
	go func() { group.Wait(); close(stopped) }()
	select {
	case <-answered.enough:
	case <-stopped:
		t.Fatal("the sandbox stopped answering by itself")
	}
	require.NoError(t, cmd.Process.Kill())
	<-stopped
	require.Error(t, cmd.Wait())

	client, stop := sandboxtest.Start(t, sandbox.Config{DataDir: dir})
	t.Cleanup(stop)
	require.Subset(t, everything(t, client), answered.all)
}

// everything names all messages and webhooks that the sandbox holds.
func everything(t *testing.T, client *sandbox.Client) []string {
	t.Helper()
	var found []string
	mail, err := client.Mail(t.Context(), "")
	require.NoError(t, err)
	for _, m := range mail {
		found = append(found, "mail "+m.MessageID)
	}
	hooks, err := client.Hooks(t.Context(), "shop")
	require.NoError(t, err)
	for _, h := range hooks {
		found = append(found, "hook "+h.Header.Get("Webhook-Id"))
	}
	return found
}

// tally collects names until there are enough, and goes on.
type tally struct {
	mu     sync.Mutex
	all    []string
	want   int
	enough chan struct{}
}

func newTally(want int) *tally { return &tally{want: want, enough: make(chan struct{})} }

func (a *tally) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, name)
	if len(a.all) == a.want {
		close(a.enough)
	}
}
