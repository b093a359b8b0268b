package client_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// asEvent is an event of the world as this package sends it.
func asEvent(e world.Event) client.Event { return client.Event{Key: e.Key, Body: e.Text()} }

// change is the proposal of a worker for a task of the world; the example's rules let it through.
func change(t *testing.T, e world.Event) (p contracts.Proposal) {
	t.Helper()
	text, err := json.Marshal(e.Proposal("crm.contact.update"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &p))
	return p
}

// The whole way, against the real services, their database and their broker.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.WithReplicas(ledger.Approval, 0))
	c, err := client.New(client.Config{BaseURL: w.URL(), APIKey: roster.DemoKey})
	require.NoError(t, err)
	// await is a context for one case.
	await := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		return ctx
	}

	t.Run("AnEventIsPublishedOnceAndAwaited", func(t *testing.T) {
		event := w.Update()
		first, err := c.Publish(await(t), event.Source, asEvent(event))
		require.NoError(t, err)
		require.Equal(t, contracts.ResultAccepted, first.Result)
		done, err := c.Await(await(t), first.RunID)
		require.NoError(t, err)
		require.Equal(t, contracts.OutcomeExecuted, done.Outcome)
		again, err := c.Publish(await(t), event.Source, asEvent(event))
		require.NoError(t, err)
		require.Equal(t, contracts.ResultDuplicateWithResult, again.Result)
		require.Equal(t, done.Effects, again.Effects)
		found, err := c.Find(await(t), event.Key, time.Second)
		require.NoError(t, err)
		require.Equal(t, first.RunID, found.RunID)
		require.Len(t, w.Writes(event), 1)
	})

	t.Run("AnotherBodyUnderTheKeyIsAMismatch", func(t *testing.T) {
		event := w.Update()
		_, err := c.Publish(await(t), event.Source, asEvent(event))
		require.NoError(t, err)
		_, err = c.Publish(await(t), event.Source, asEvent(event.Proposing("crm.contact.delete")))
		var problem *contracts.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, contracts.CodePayloadMismatch, problem.Code)
	})

	t.Run("AClaimedRunIsSubmittedTwiceAndExecutedOnce", func(t *testing.T) {
		event := w.Task()
		task, err := c.Claim(await(t), event.Source, asEvent(event))
		require.NoError(t, err)
		_, err = c.Claim(await(t), event.Source, asEvent(event))
		var taken *client.TakenError
		require.ErrorAs(t, err, &taken)
		require.Positive(t, taken.RetryAfter)
		misfit := change(t, event)
		misfit.ProposedChange = json.RawMessage(`{"fields":{"phone":"none"}}`)
		_, err = task.Submit(await(t), misfit)
		var problem *contracts.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, "/proposal/proposed_change/fields/phone", problem.Errors[0].Pointer)
		for range 2 {
			answer, err := task.Submit(await(t), change(t, event))
			require.NoError(t, err)
			require.Equal(t, contracts.ResultAccepted, answer.Result)
		}
		done, err := c.Await(await(t), task.Run.RunID)
		require.NoError(t, err)
		require.Equal(t, contracts.OutcomeExecuted, done.Outcome)
		require.Len(t, w.Writes(event), 1)
	})

	t.Run("ALeaseThatSomebodyElseHasIsLost", func(t *testing.T) {
		event := w.Task()
		task, err := c.Claim(await(t), event.Source, asEvent(event))
		require.NoError(t, err)
		defer task.Close()
		_, err = w.DB.Pool("").Exec(await(t),
			"update runs set lease_owner = gen_random_uuid() where idempotency_key = $1", event.Key)
		require.NoError(t, err)
		_, err = task.Submit(await(t), change(t, event))
		require.ErrorIs(t, err, client.ErrOwnershipLost)
		require.ErrorIs(t, context.Cause(task.Context()), client.ErrOwnershipLost)
	})

	t.Run("WorkHandlesWhatWasPublished", func(t *testing.T) {
		events := map[string]world.Event{}
		for range 5 {
			event := w.Task()
			_, err := c.Publish(await(t), event.Source, asEvent(event))
			require.NoError(t, err)
			events[event.Key] = event
		}
		ctx, stop := context.WithCancel(await(t))
		ended := make(chan error, 1)
		go func() {
			ended <- c.Work(ctx, "agent-drafts", client.WorkConfig{Concurrency: 3,
				Handle: func(_ context.Context, task *client.Task) (contracts.Proposal, error) {
					return change(t, events[task.Run.IdempotencyKey]), nil
				}})
		}()
		for key, event := range events {
			found, err := c.Find(await(t), key, 0)
			require.NoError(t, err)
			done, err := c.Await(await(t), found.RunID)
			require.NoError(t, err)
			require.Equal(t, contracts.OutcomeExecuted, done.Outcome)
			require.Len(t, w.Writes(event), 1)
		}
		stop()
		require.NoError(t, <-ended)
	})
}
