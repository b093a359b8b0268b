package dispatcher

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestCall is the contract of a call, by a clock that only the test moves.
func TestCall(t *testing.T) {
	t.Parallel()

	const leaveWithin, reportWithin = 10 * time.Second, 20 * time.Second
	type bundle struct {
		*call

		asked int
		gate  func() error
		halt  chan struct{}
		took  time.Duration
	}
	setup := func() *bundle {
		b := &bundle{gate: func() error { return nil }, halt: make(chan struct{})}
		b.call = newCall("demo", "warehouse", token{instance: uuid.New(), attempt: 1}, reportWithin, func() error {
			b.asked++
			return b.gate()
		})
		return b
	}
	wait := func(b *bundle) <-chan connector.Result {
		came := make(chan connector.Result, 1)
		go func() {
			began := time.Now()
			result := b.wait(leaveWithin, b.halt)
			b.took = time.Since(began)
			came <- result
		}()
		synctest.Wait()
		return came
	}
	run := func(name string, test func(t *testing.T, b *bundle)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, setup()) }) })
	}
	// reported sends a receipt with the token that leave came with, or with the command's.
	reported := func(b *bundle, leave bool, status outcome.Class) error {
		given := b.token
		if leave {
			given.leave = b.leave
		}
		return b.report(given, connector.Receipt{Status: status})
	}

	run("WithoutLeaveNothingWasSentAndNothingCanBe", func(t *testing.T, b *bundle) {
		result := <-wait(b)
		require.Equal(t, outcome.NotSent, result.Class)
		require.False(t, result.Sent)
		require.Equal(t, leaveWithin, b.took)
		require.False(t, b.ask().Granted)
		require.Zero(t, b.asked, "the gate is not asked for what is over")
	})

	run("TheGateIsAskedOnceHoweverManyAsk", func(t *testing.T, b *bundle) {
		came := wait(b)
		require.True(t, b.ask().Granted)
		for range 3 {
			require.Equal(t, contracts.Leave{Reason: "leave was given already"}, b.ask())
		}
		require.Equal(t, 1, b.asked)
		require.NoError(t, reported(b, true, outcome.Succeeded))
		require.Equal(t, outcome.Succeeded, (<-came).Class)
		require.False(t, b.ask().Granted)
	})

	run("AGateThatRefusesEndsTheCallAtOnce", func(t *testing.T, b *bundle) {
		b.gate = func() error { return errors.New("the kill switch is closed") }
		came := wait(b)
		require.Equal(t, "the kill switch is closed", b.ask().Reason)
		result := <-came
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "the kill switch is closed")
		require.Zero(t, b.took)
		require.Contains(t, b.ask().Reason, "over")
		require.Equal(t, 1, b.asked)
	})

	run("AGateThatPanicsRefuses", func(t *testing.T, b *bundle) {
		b.gate = func() error { panic("boom") }
		came := wait(b)
		require.PanicsWithValue(t, "boom", func() { b.ask() })
		require.Equal(t, outcome.NotSent, (<-came).Class)
	})

	run("AGateThatIsStillThinkingIsWaitedFor", func(t *testing.T, b *bundle) {
		b.gate = func() error { <-time.After(2 * leaveWithin); return nil }
		came := wait(b)
		granted := make(chan contracts.Leave, 1)
		go func() { granted <- b.ask() }()
		require.True(t, (<-granted).Granted)
		synctest.Wait()
		require.Empty(t, came, "leave was given, so the receipt is waited for")
		require.NoError(t, reported(b, true, outcome.Refused))
		require.Equal(t, outcome.Refused, (<-came).Class)
	})

	run("LeaveWithoutAReceiptIsAmbiguousAndUnfinished", func(t *testing.T, b *bundle) {
		came := wait(b)
		require.True(t, b.ask().Granted)
		result := <-came
		require.Equal(t, outcome.Ambiguous, result.Class)
		require.True(t, result.Sent)
		require.True(t, result.Unfinished)
		require.Equal(t, reportWithin, b.took)
		require.ErrorIs(t, reported(b, true, outcome.Succeeded), errLate)
	})

	run("ThatNothingWillBeWrittenCanBeSaidWithoutLeave", func(t *testing.T, b *bundle) {
		came := wait(b)
		require.NoError(t, reported(b, false, outcome.Refused))
		result := <-came
		require.Equal(t, outcome.Refused, result.Class)
		require.False(t, result.Sent)
		require.Zero(t, b.asked)
		require.False(t, b.ask().Granted)
	})

	run("OnlyWhoHasLeaveReportsAndOnlyOneThing", func(t *testing.T, b *bundle) {
		came := wait(b)
		require.True(t, b.ask().Granted)
		require.ErrorContains(t, reported(b, false, outcome.NotSent), "given to another")
		forged := b.token
		forged.leave = "guessed"
		require.ErrorContains(t, b.report(forged, connector.Receipt{Status: outcome.NotSent}), "given to another")
		require.NoError(t, reported(b, true, outcome.Succeeded))
		require.NoError(t, reported(b, true, outcome.Succeeded), "again")
		require.ErrorContains(t, reported(b, true, outcome.Refused), "succeeded")
		require.Equal(t, outcome.Succeeded, (<-came).Class)
	})

	run("AStopEndsWhatNobodyHasAskedLeaveFor", func(t *testing.T, b *bundle) {
		came := wait(b)
		close(b.halt)
		require.ErrorIs(t, (<-came).Err, errStopping)
		require.Zero(t, b.took)
	})

	run("AStopWaitsForWhoHasLeave", func(t *testing.T, b *bundle) {
		came := wait(b)
		require.True(t, b.ask().Granted)
		close(b.halt)
		synctest.Wait()
		require.Empty(t, came)
		require.NoError(t, reported(b, true, outcome.Succeeded))
		require.Equal(t, outcome.Succeeded, (<-came).Class)
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	good := token{instance: uuid.New(), operation: servicetest.Effect("k").OperationID(), attempt: 3, owner: uuid.New(),
		secret: "S"}

	t.Run("ReadsBackAsItWasWritten", func(t *testing.T) {
		t.Parallel()
		for _, leave := range []string{"", "L"} {
			want := good
			want.leave = leave
			got, err := parseToken(want.String())
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, good.String(), got.command())
			require.Equal(t, servicetest.Effect("k"), got.key("demo"))
		}
	})

	t.Run("AnythingElseIsRefused", func(t *testing.T) {
		t.Parallel()
		zero, upper := good, good.String()
		zero.attempt = 0
		for _, text := range []string{"", "....", good.String() + ".a.b", good.String() + ".", zero.String(), upper[1:],
			"*" + upper[1:], "{" + upper + "}"} {
			_, err := parseToken(text)
			require.ErrorIs(t, err, errToken, text)
		}
	})
}
