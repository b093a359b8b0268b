package dispatcher

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// through asks a certain replica, where the broker would choose one.
func through[T any](t *testing.T, replica *Dispatcher, verb *executorVerb, body any) asked[T] {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	answer, problem := replica.answer(t.Context(), verb, &words{tenant: "demo", connector: warehouseID, text: text})
	if problem != nil {
		return asked[T]{problem: problem}
	}
	var got asked[T]
	text, err = json.Marshal(answer)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got.answer))
	return got
}

// TestPeers: whichever replica an executor's words reach, the one that made the command answers, and one that is gone
// is answered for.
func TestPeers(t *testing.T) {
	t.Parallel()

	t.Run("LeaveAndReceiptComeThroughAnother", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		other := d.replica()
		d.offer("k")
		command := d.command()
		leave := through[contracts.Leave](t, other, &leaveVerb, contracts.LeaveRequest{Token: command.Token}).answer
		require.True(t, leave.Granted, leave.Reason)
		require.False(t, d.leave(command).Granted, "once, through whomever")
		foreign := through[contracts.Recorded](t, other, &receiptVerb, contracts.Receipt{Token: command.Token, Status: "not_sent"})
		require.Equal(t, contracts.CodeForbidden, foreign.code())
		receipt := contracts.Receipt{Token: leave.Token, Status: "succeeded", ExternalID: "res-1"}
		require.True(t, through[contracts.Recorded](t, other, &receiptVerb, receipt).answer.Recorded)
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
		require.NotContains(t, d.Logs.String(), "does not answer")
	})

	t.Run("OneWhoseAnswerCannotBeReadCountsAsGone", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.executors.peers = mute{}
		elsewhere := token{instance: uuid.New(), operation: servicetest.Effect("k").OperationID(), attempt: 1, owner: uuid.New(),
			secret: "S"}
		leave := through[contracts.Leave](t, d.Dispatcher, &leaveVerb, contracts.LeaveRequest{Token: elsewhere.String()})
		require.Contains(t, leave.answer.Reason, "gone")
	})

	t.Run("LeaveOfOneThatIsGoneIsRefused", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		gone := d.gone("k")
		leave := through[contracts.Leave](t, d.Dispatcher, &leaveVerb, contracts.LeaveRequest{Token: gone.command.Token}).answer
		require.False(t, leave.Granted)
		require.Contains(t, leave.Reason, "gone")
		require.Equal(t, ledger.EffectSending, d.Look("k").State)
		receipt := contracts.Receipt{Token: gone.leave.Token, Status: "succeeded"}
		require.True(t, through[contracts.Recorded](t, d.Dispatcher, &receiptVerb, receipt).answer.Recorded)
		gone.end()
	})

	t.Run("AReceiptOfOneThatIsGoneMovesTheEffectWhileItsLeaseHolds", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		for status, state := range map[outcome.Class]string{
			outcome.Succeeded: ledger.EffectCompleted, outcome.NotSent: ledger.EffectPending, outcome.Ambiguous: ledger.EffectUnknown,
			outcome.VersionConflict: ledger.EffectHeld,
		} {
			key := string(status)
			gone := d.gone(key)
			receipt := contracts.Receipt{Token: gone.leave.Token, Status: string(status), ExternalID: "res-1"}
			got := through[contracts.Recorded](t, d.Dispatcher, &receiptVerb, receipt)
			require.Nil(t, got.problem)
			require.Equal(t, state, d.Look(key).State)
			require.True(t, through[contracts.Recorded](t, d.Dispatcher, &receiptVerb, receipt).answer.Recorded)
			gone.end()
		}
	})

	t.Run("AfterItsLeaseTheReconcilerReadsTheReceipt", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		gone := d.gone("k")
		d.Exec(`update effects set lease_expires_at = clock_timestamp(), next_check_at = clock_timestamp()`)
		d.reconcile("k", ledger.EffectUnknown)
		d.again()
		require.Len(t, d.Attempts("k"), 1, "nobody sends again what may have been written")
		receipt := contracts.Receipt{Token: gone.leave.Token, Status: "succeeded", ExternalID: "res-1"}
		require.True(t, through[contracts.Recorded](t, d.Dispatcher, &receiptVerb, receipt).answer.Recorded)
		d.reconcile("k", ledger.EffectCompleted)
		gone.end()
	})
}

// mute is a peer whose handler panicked.
type mute struct{}

func (mute) Request(context.Context, string, []byte) ([]byte, error) { return nil, nil }

// goneReplica made a command, gave leave for it, and answers nobody any more.
type goneReplica struct {
	command *contracts.EffectCommand
	leave   contracts.Leave
	// end is the last word of its goroutine, which lives on in the test's process. It changes nothing.
	end func()
}

// gone has a replica fall away after it gave leave for the effect of a key.
func (d *depot) gone(key string) *goneReplica {
	d.t.Helper()
	dead := &depot{bench: d.beside(), warehouse: d.warehouse, broker: d.broker}
	closeDoors := dead.open(dead.Dispatcher)
	dead.offer(key)
	gone := &goneReplica{command: d.command()}
	gone.leave = through[contracts.Leave](d.t, dead.Dispatcher, &leaveVerb, contracts.LeaveRequest{Token: gone.command.Token}).answer
	require.True(d.t, gone.leave.Granted, gone.leave.Reason)
	require.NoError(d.t, closeDoors())
	gone.end = func() {
		granted, err := parseToken(gone.leave.Token)
		require.NoError(d.t, err)
		before := d.Look(key).State
		require.NoError(d.t, dead.executors.find(granted).report(granted, connector.Receipt{Status: outcome.NotSent}))
		dead.inFlight.Wait()
		require.Equal(d.t, before, d.Look(key).State)
	}
	return gone
}
