package ledger_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestCallbackRows(t *testing.T) {
	t.Parallel()
	asking := func(key, address string) ledger.Claim {
		c := ledgertest.Event(key)
		c.Callback = address
		return c
	}
	setup := func(t *testing.T) (*ledgertest.Bench, func() []ledger.Callback) {
		t.Helper()
		b := ledgertest.New(t)
		return b, func() []ledger.Callback {
			due, err := b.Intake.TakeCallbacks(t.Context(), 10, time.Minute)
			require.NoError(t, err)
			return due
		}
	}
	end := func(b *ledgertest.Bench) {
		b.Exec(`update runs set state = 'failed_terminal', outcome = 'rejected', ended_at = now()`)
		b.Exec(`update callbacks set next_at = clock_timestamp()`)
	}

	t.Run("ItIsDueWhenItsRunHasEndedAndTakenByOne", func(t *testing.T) {
		t.Parallel()
		b, take := setup(t)
		b.Claim(asking("k", "http://a/1"))
		require.Empty(t, take())
		require.Equal(t, 1, b.Count(`select count(*) from callbacks where next_at > clock_timestamp()`), "it is looked at later")
		end(b)
		due := take()
		require.Len(t, due, 1)
		require.Equal(t, "http://a/1", due[0].URL)
		require.Equal(t, 1, due[0].Attempt)
		require.Equal(t, "rejected", due[0].Run.Outcome)
		require.Empty(t, take(), "who took it has a minute")
	})

	t.Run("WhatFailedComesAgainAndWhatWasTakenDoesNot", func(t *testing.T) {
		t.Parallel()
		b, take := setup(t)
		b.Claim(asking("k", "http://a/1"))
		end(b)
		first := take()
		require.NoError(t, b.Intake.RecordCallbacks(t.Context(), []ledger.CallbackResult{{Callback: &first[0],
			Err: errors.New("away"), Again: time.Hour}}))
		require.Equal(t, "waiting away", b.Text(`select state || ' ' || last_error from callbacks`))
		end(b)
		second := take()
		require.Equal(t, 2, second[0].Attempt)
		require.NoError(t, b.Intake.RecordCallbacks(t.Context(), []ledger.CallbackResult{{Callback: &second[0]}}))
		end(b)
		require.Empty(t, take())
		require.Equal(t, "sent", b.Text(`select state from callbacks`))
	})

	t.Run("ALostAnswerAsksOnce", func(t *testing.T) {
		t.Parallel()
		b, _ := setup(t)
		cut, point := b.Cut(ledger.Intake)
		point.Arm(ledgertest.AfterExecute, 1) // of the second statement: the first is the claim
		_, err := cut.Claim(t.Context(), []ledger.Claim{asking("k", "http://a/1")})
		require.NoError(t, err)
		require.True(t, point.Fired())
		require.Equal(t, 1, b.Count(`select count(*) from callbacks`))
	})

	t.Run("OneRunCannotCallTheWholeWorld", func(t *testing.T) {
		t.Parallel()
		b, _ := setup(t)
		for i := range 25 {
			b.Claim(asking("k", "http://a/"+strconv.Itoa(i)))
		}
		require.Equal(t, 20, b.Count(`select count(*) from callbacks`))
	})
}
