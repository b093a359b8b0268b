package ledger_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// stage is a command whose batches the test lets through one by one.
type stage struct {
	batches chan []int
	let     chan error
}

func newStage() *stage { return &stage{batches: make(chan []int, 100), let: make(chan error)} }

func (s *stage) run(_ context.Context, items []int) ([]int, error) {
	s.batches <- items
	return items, <-s.let
}

func TestGroup(t *testing.T) {
	t.Parallel()
	// answers collects what callers were told.
	type answers struct {
		sync.Mutex
		got  map[int]int
		errs []error
	}
	call := func(t *testing.T, g *ledger.Group[int, int], group *errgroup.Group, a *answers, in int) {
		group.Go(func() error {
			out, err := g.Do(t.Context(), in)
			a.Lock()
			defer a.Unlock()
			if err != nil {
				a.errs = append(a.errs, err)
			} else {
				a.got[in] = out
			}
			return nil
		})
	}

	t.Run("CallersWhoComeMeanwhileShareABatch", func(t *testing.T) {
		t.Parallel()
		s := newStage()
		g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: s.run, Max: 3, Workers: 1})
		defer g.Close()
		var group errgroup.Group
		a := &answers{got: map[int]int{}}
		call(t, g, &group, a, 0)
		require.Equal(t, []int{0}, <-s.batches, "a caller who comes to an idle worker waits for nobody")
		for i := 1; i <= 5; i++ {
			call(t, g, &group, a, i)
		}
		require.Eventually(t, func() bool { return g.Waiting() == 5 }, patience, tick)
		s.let <- nil
		first := <-s.batches
		require.Len(t, first, 3, "no more than fit into a batch")
		s.let <- nil
		require.Len(t, <-s.batches, 2)
		s.let <- nil
		require.NoError(t, group.Wait())
		require.Equal(t, map[int]int{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5}, a.got, "each gets its own result")
		require.Empty(t, a.errs)
	})

	t.Run("ErrorIsForAllOfItsBatchAndNoOther", func(t *testing.T) {
		t.Parallel()
		s := newStage()
		g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: s.run, Workers: 1})
		defer g.Close()
		var group errgroup.Group
		a := &answers{got: map[int]int{}}
		call(t, g, &group, a, 0)
		<-s.batches
		call(t, g, &group, a, 1)
		call(t, g, &group, a, 2)
		require.Eventually(t, func() bool { return g.Waiting() == 2 }, patience, tick)
		broken := errors.New("broken")
		s.let <- nil
		<-s.batches
		s.let <- broken
		require.NoError(t, group.Wait())
		require.Equal(t, map[int]int{0: 0}, a.got)
		require.Equal(t, []error{broken, broken}, a.errs)
	})

	t.Run("CommandThatLosesAnAnswerIsFoundOut", func(t *testing.T) {
		t.Parallel()
		g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: func(context.Context, []int) ([]int, error) { return nil, nil }})
		defer g.Close()
		_, err := g.Do(t.Context(), 1)
		require.ErrorContains(t, err, "0 results for 1 items")
	})

	t.Run("CallerBeyondTheQueueIsSentAway", func(t *testing.T) {
		t.Parallel()
		s := newStage()
		g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: s.run, Workers: 1, Queue: 1})
		var group errgroup.Group
		a := &answers{got: map[int]int{}}
		call(t, g, &group, a, 0)
		<-s.batches
		call(t, g, &group, a, 1)
		require.Eventually(t, func() bool { return g.Waiting() == 1 }, patience, tick)
		_, err := g.Do(t.Context(), 2)
		require.ErrorIs(t, err, ledger.ErrOverloaded)
		s.let <- nil
		s.let <- nil
		require.NoError(t, group.Wait())
		g.Close()
	})

	t.Run("CallerWhoLeavesDoesNotUndoItsItem", func(t *testing.T) {
		t.Parallel()
		s := newStage()
		g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: s.run, Workers: 1})
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := g.Do(ctx, 7); done <- err }()
		require.Equal(t, []int{7}, <-s.batches)
		leave()
		require.ErrorIs(t, <-done, context.Canceled)
		s.let <- nil
		g.Close()
	})

	t.Run("WhoeverWaitsAtTheEndIsStillServed", func(t *testing.T) {
		t.Parallel()
		s := newStage()
		g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: s.run, Workers: 1, Queue: 1})
		var group errgroup.Group
		a := &answers{got: map[int]int{}}
		call(t, g, &group, a, 0)
		<-s.batches
		call(t, g, &group, a, 1)
		require.Eventually(t, func() bool { return g.Waiting() == 1 }, patience, tick)
		closed := make(chan struct{})
		go func() { g.Close(); close(closed) }()
		require.Eventually(t, func() bool {
			_, err := g.Do(t.Context(), 2) // the queue is full, so it is sent away in any case
			return errors.Is(err, ledger.ErrOverloaded) && strings.Contains(err.Error(), "shutting down")
		}, patience, tick, "no new caller is let in")
		s.let <- nil
		s.let <- nil
		<-closed
		require.NoError(t, group.Wait())
		require.Equal(t, map[int]int{0: 0, 1: 1}, a.got)
		g.Close() // again
	})
}

func TestGroupLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	g := ledger.NewGroup(ledger.GroupConfig[int, int]{Run: func(_ context.Context, items []int) ([]int, error) { return items, nil }, Workers: 3})
	_, err := g.Do(t.Context(), 1)
	require.NoError(t, err)
	g.Close()
	goleak.VerifyNone(t, before)
}
