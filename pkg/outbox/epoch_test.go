package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/outbox"
)

func TestObserve(t *testing.T) { // BUS-08, B4
	t.Parallel()
	made := time.Date(2026, 5, 1, 10, 0, 0, 123456789, time.UTC)
	observe := func(t *testing.T, b *bench, created time.Time, last uint64) int64 {
		t.Helper()
		queued, err := b.store.Observe(t.Context(), outbox.Stream{Name: stream, Created: created, LastSeq: last})
		require.NoError(t, err)
		return queued
	}
	// published is a bench whose broker has taken some events and has been observed with them.
	published := func(t *testing.T, n int) (*bench, []uuid.UUID) {
		b := newBench(t)
		ids := b.commit(t, make([]string, n)...)
		require.Zero(t, observe(t, b, made, 0))
		report := b.pass(t, 0, 100)
		require.NoError(t, b.store.Acknowledged(t.Context(), report.Acknowledged))
		require.Zero(t, observe(t, b, made, uint64(n)))
		return b, ids
	}
	again := func(t *testing.T, b *bench) []string {
		t.Helper()
		b.exec(t, `update pending set not_before = now()`)
		b.broker.taken = nil
		b.pass(t, 0, 100)
		ids := make([]string, len(b.broker.taken))
		for i := range b.broker.taken {
			ids[i] = b.broker.taken[i].MessageID()
		}
		return ids
	}

	t.Run("StreamThatGrowsHasLostNothing", func(t *testing.T) {
		t.Parallel()
		b, _ := published(t, 3)
		require.Zero(t, observe(t, b, made, 3))
		require.Zero(t, observe(t, b, made, 10))
		require.Empty(t, again(t, b))
	})

	t.Run("StreamMadeAnewIsFilledWithWhatWasNotHandled", func(t *testing.T) {
		t.Parallel()
		b, ids := published(t, 3)
		b.exec(t, `insert into inbox (consumer, event_id) values (1, $1)`, ids[1])
		require.EqualValues(t, 2, observe(t, b, made.Add(time.Hour), 0))
		require.Equal(t, []string{ids[0].String() + ":2", ids[2].String() + ":2"}, again(t, b), "under a new message id")
		require.Zero(t, observe(t, b, made.Add(time.Hour), 2), "once")
	})

	t.Run("StreamThatWentBackIsFilledWhenItStillSaysSo", func(t *testing.T) {
		t.Parallel()
		b, ids := published(t, 3)
		require.Zero(t, observe(t, b, made, 1), "what the broker said may be older than what we were told since")
		require.EqualValues(t, 3, observe(t, b, made, 1))
		require.Equal(t, []string{ids[0].String() + ":2", ids[1].String() + ":2", ids[2].String() + ":2"}, again(t, b))
		require.Zero(t, observe(t, b, made, 4))
	})

	t.Run("AnOlderAnswerOfTheBrokerIsNoLoss", func(t *testing.T) {
		t.Parallel()
		b, _ := published(t, 3)
		require.Zero(t, observe(t, b, made, 1))
		require.Zero(t, observe(t, b, made, 3))
		require.Zero(t, observe(t, b, made, 1))
		require.Zero(t, observe(t, b, made, 5))
		require.Zero(t, observe(t, b, made.Add(-time.Hour), 9), "asked before another replica saw the stream made anew")
		require.Empty(t, again(t, b))
	})

	t.Run("AcknowledgementBelowAnEarlierOneTellsOfALoss", func(t *testing.T) {
		t.Parallel()
		b, ids := published(t, 3)
		b.broker.seq = 1 // two messages are gone, and new ones take their numbers
		fresh := b.commit(t, "fresh")
		report := b.pass(t, 0, 10)
		require.Equal(t, 1, report.Published)
		require.EqualValues(t, 4, report.Requeued, "the fresh one may have been lost as well, as far as anybody knows")
		require.Equal(t, []string{ids[0].String() + ":2", ids[1].String() + ":2", ids[2].String() + ":2", fresh[0].String() + ":2"}, again(t, b))
		b.commit(t, "more")
		require.Zero(t, b.pass(t, 0, 10).Requeued, "once")
	})

	t.Run("DuplicateSaysNothingOfTheStream", func(t *testing.T) {
		t.Parallel()
		b, _ := published(t, 3)
		b.commit(t, "known to the broker")
		b.broker.refuse = func(outbox.Message) outbox.Receipt { return outbox.Receipt{} }
		b.broker.seq = -1 // its receipts carry no sequence
		require.Zero(t, b.pass(t, 0, 10).Requeued)
	})

	t.Run("WhatWaitsAlreadyIsNotQueuedTwice", func(t *testing.T) {
		t.Parallel()
		b, ids := published(t, 2)
		waiting := b.commit(t, "waiting")
		require.EqualValues(t, 2, observe(t, b, made.Add(time.Hour), 0))
		require.ElementsMatch(t, []string{ids[0].String() + ":2", ids[1].String() + ":2", waiting[0].String() + ":1"}, again(t, b))
	})

	t.Run("OlderThanADayIsNotFilledAgain", func(t *testing.T) {
		t.Parallel()
		b, ids := published(t, 2)
		b.exec(t, `update event_log set event_id = uuid_at(now() - interval '25 hours') where event_id = $1`, ids[0])
		require.EqualValues(t, 1, observe(t, b, made.Add(time.Hour), 0))
	})

	t.Run("OtherStreamsAreLeftAlone", func(t *testing.T) {
		t.Parallel()
		b, _ := published(t, 2)
		queued, err := b.store.Observe(t.Context(), outbox.Stream{Name: "HOLDPOINT_EVENTS_DEMO", Created: made, LastSeq: 5})
		require.NoError(t, err)
		require.Zero(t, queued)
		queued, err = b.store.Observe(t.Context(), outbox.Stream{Name: "HOLDPOINT_EVENTS_DEMO", Created: made.Add(time.Hour), LastSeq: 0})
		require.NoError(t, err)
		require.Zero(t, queued)
	})

	t.Run("EveryLossIsAnEpochOfItsOwn", func(t *testing.T) {
		t.Parallel()
		b, ids := published(t, 1)
		for n := 2; n <= 4; n++ {
			require.EqualValues(t, 1, observe(t, b, made.Add(time.Duration(n)*time.Hour), 0))
			require.Equal(t, []string{ids[0].String() + ":" + string(rune('0'+n))}, again(t, b))
		}
		require.Equal(t, 4, b.count(t, `select epoch from broker_epochs where stream = $1`, stream))
	})
}
