package world_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

func TestWorker(t *testing.T) {
	t.Parallel()

	t.Run("ClaimsRenewsAndSubmitsAndTheRunCompletes", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		task, worker := w.Task(), w.Worker()
		claimed := worker.Claim(task)
		require.Equal(t, contracts.ResultAccepted, claimed.Result)
		renewed := worker.Renew(task, claimed.Lease)
		require.Nil(t, renewed.Problem)
		require.True(t, renewed.Lease.ExpiresAt.After(claimed.Lease.ExpiresAt))
		require.Nil(t, worker.Submit(task, renewed.Lease).Problem)
		w.Arrive([]world.Event{task})
	})

	// The first worker dies. Its lease ends, a second takes over, and the first, come back, may do nothing (K6, K8).
	t.Run("DiesAndAnotherTakesOverAndTheFirstIsRefused", func(t *testing.T) {
		t.Parallel()
		const lease = 1500 * time.Millisecond
		w := world.New(t, world.WithConfig(func(c *config.Config) {
			for _, s := range c.Tenants[0].Sources {
				s.Lease.Duration = lease
			}
		}))
		task, first, second := w.Task(), w.Worker(), w.Worker()
		stale := first.Claim(task).Lease
		require.NotNil(t, stale)
		held := second.Claim(task)
		require.Equal(t, contracts.ResultDuplicate, held.Result)
		require.Nil(t, held.Lease, "the lease is told to its owner alone")

		var taken world.Reply
		w.Until("takeover", func() bool {
			taken = second.Claim(task)
			return taken.Result == contracts.ResultAccepted
		})
		require.False(t, time.Now().Before(stale.ExpiresAt), "nobody takes over a lease that holds")
		for _, refused := range []world.Reply{first.Renew(task, stale), first.Submit(task, stale)} {
			require.Equal(t, http.StatusConflict, refused.Status)
			require.Equal(t, contracts.CodeOwnershipLost, refused.Problem.Code)
		}
		require.Empty(t, w.Explain(task).Intents)
		renewed := second.Renew(task, taken.Lease) // a loaded machine may need longer than one lease
		require.Nil(t, renewed.Problem)
		require.Nil(t, second.Submit(task, renewed.Lease).Problem)
		w.Arrive([]world.Event{task})
		require.EqualValues(t, 1, w.Count("select takeovers from runs"))
	})
}
