package proposer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
	"github.com/holdpoint/holdpoint/services/proposer/modeltest"
)

// drafting is what a handler made of a run.
type drafting struct {
	source   string
	proposal contracts.Proposal
	err      error
}

// fakeQueue gives its tasks to the handler one by one and then waits to be stopped.
type fakeQueue struct {
	tasks []*client.Task
	done  chan drafting
}

func (q *fakeQueue) Work(ctx context.Context, source string, c client.WorkConfig) error {
	for _, t := range q.tasks {
		p, err := c.Handle(ctx, t)
		q.done <- drafting{source, p, err}
	}
	<-ctx.Done()
	return nil
}

// closedQueue gives no work at all.
type closedQueue struct{ err error }

func (q closedQueue) Work(context.Context, string, client.WorkConfig) error { return q.err }

func TestService(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T, script ...modeltest.Reply) (Config, *servicetest.Logs) {
		t.Helper()
		logs := &servicetest.Logs{}
		server := modeltest.Start(t, script...)
		tenant := demoTenant(t, server.URL, "api_key_env: DRAFTED_KEY", "api_key_file: "+keyFile(t))
		return Config{Tenants: []*config.Tenant{tenant}, Log: slog.New(slog.NewTextHandler(logs, nil))}, logs
	}

	t.Run("DraftsWhatTheQueueHasAndEndsWhenItIsStopped", func(t *testing.T) {
		t.Parallel()
		c, logs := setup(t, modeltest.Says(lisbon), modeltest.Fails(401, ""), modeltest.Fails(429, "", "Retry-After", "300"))
		queue := &fakeQueue{[]*client.Task{task(event), task(event), task(event)}, make(chan drafting, 3)}
		c.Queue = func(tenant string) (Queue, error) {
			require.Equal(t, "demo", tenant)
			return queue, nil
		}
		p, err := New(t.Context(), c)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()

		first := <-queue.done
		require.NoError(t, first.err)
		require.Equal(t, "drafted", first.source)
		require.Equal(t, "c-1001", first.proposal.Target.RecordID)
		require.ErrorContains(t, (<-queue.done).err, "answered 401")
		require.ErrorContains(t, (<-queue.done).err, "answered 429")
		stop()
		require.NoError(t, <-ended)
		require.Len(t, logs.Errors(), 1, "somebody is called about what has ended, and about nothing else")
		require.Contains(t, logs.Errors()[0], "no proposal can be drafted; the run has failed")
	})

	t.Run("EndsWhereTheQueueGivesNoWorkAtAll", func(t *testing.T) {
		t.Parallel()
		c, _ := setup(t)
		refused := errors.New("the key has no scope work")
		c.Queue = func(string) (Queue, error) { return closedQueue{refused}, nil }
		p, err := New(t.Context(), c)
		require.NoError(t, err)
		err = p.Run(t.Context())
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, "work of source ") // whichever of them asked first
	})

	t.Run("DoesNotStartWithNothingToDoOrNobodyToAsk", func(t *testing.T) {
		t.Parallel()
		_, err := New(t.Context(), Config{})
		require.ErrorContains(t, err, "Queue is missing")
		require.ErrorContains(t, err, "no source declares a proposer or an agent")
	})

	t.Run("DoesNotStartWithoutACredentialThatIsDeclared", func(t *testing.T) {
		t.Parallel()
		c, _ := setup(t)
		c.Queue = func(string) (Queue, error) { return &fakeQueue{}, nil }
		declared := drafted(c.Tenants[0]).Proposer
		declared.APIKeyFile = filepath.Join(t.TempDir(), "none")
		_, err := New(t.Context(), c)
		require.ErrorContains(t, err, "proposer of source drafted of tenant demo: read the model's API key")
		require.NoError(t, os.WriteFile(declared.APIKeyFile, []byte(" \n"), 0o600))
		_, err = New(t.Context(), c)
		require.ErrorContains(t, err, "which holds the model's API key, is empty")
		declared.APIKeyFile, declared.APIKeyEnv = "", "HOLDPOINT_TEST_NO_SUCH_VARIABLE"
		_, err = New(t.Context(), c)
		require.ErrorContains(t, err, "the environment variable HOLDPOINT_TEST_NO_SUCH_VARIABLE")
	})

	t.Run("ACredentialThatVanishesSendsNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		require.NoError(t, os.Remove(drafted(w.tenant).Proposer.APIKeyFile))
		require.Equal(t, contracts.FailedNotSent, w.fails().Class)
	})

	t.Run("ATenantWithoutAQueueStopsTheStart", func(t *testing.T) {
		t.Parallel()
		c, _ := setup(t)
		c.Queue = func(string) (Queue, error) { return nil, errors.New("no key") }
		_, err := New(t.Context(), c)
		require.ErrorContains(t, err, "work of tenant demo: no key")
	})
}

func TestReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.tally.report(task(event), &client.Failure{Class: contracts.FailedBusy})
	ctx, lose := context.WithCancelCause(t.Context())
	lose(client.ErrOwnershipLost)
	w.tally.report(task(event), stopped(ctx))
	require.Empty(t, w.logs.String(), "both were told already")
	w.tally.report(task(event), client.ErrOwnershipLost)
	require.Contains(t, w.logs.String(), "level=WARN msg=\"a proposal was dropped")
	w.tally.report(task(event), contracts.NewProblem(contracts.CodeSchemaInvalid, "no such thing"))
	require.Contains(t, w.logs.String(), "a proposal was not taken")
}

func TestSettings(t *testing.T) {
	t.Parallel()

	t.Run("AFileForEachTenantHoldsItsKey", func(t *testing.T) {
		t.Parallel()
		seen := make(chan string, 1)
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.URL.Path + " " + r.Header.Get("Authorization")
			w.Header().Set("Content-Type", contracts.ProblemContentType)
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"type":"about:blank","title":"no","status":403,"code":"forbidden"}`))
		}))
		t.Cleanup(api.Close)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "demo"), []byte("hp_key\n"), 0o600))
		queues, err := Settings{IntakeURL: api.URL, APIKeysDir: dir}.Queues()
		require.NoError(t, err)
		queue, err := queues("demo")
		require.NoError(t, err)
		err = queue.Work(t.Context(), "drafted", client.WorkConfig{Handle: (&desk{}).work})
		require.Error(t, err)
		require.Equal(t, "/v1/sources/drafted/work Bearer hp_key", <-seen)

		_, err = queues("other")
		require.ErrorContains(t, err, "must stand in a file named by the tenant")
	})

	t.Run("BothMustBeSet", func(t *testing.T) {
		t.Parallel()
		_, err := Settings{IntakeURL: "http://127.0.0.1:1"}.Queues()
		require.ErrorContains(t, err, "HOLDPOINT_PROPOSER_API_KEYS_DIR must be set")
	})
}
