package dispatcher

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"

	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestExecutor is B6: a program of the tenant's takes commands, asks leave, writes, and reports.
func TestExecutor(t *testing.T) {
	t.Parallel()

	t.Run("ACommandIsTakenLeaveIsAskedAndTheReceiptCompletesTheRun", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		command := d.command()
		effect := servicetest.Effect("k")
		require.Equal(t, effect.OperationID(), command.OperationID)
		require.Equal(t, []any{"demo", effect.RunID.String(), warehouseID, "reserve", 1},
			[]any{command.TenantID, command.RunID, command.Connector, command.Operation, command.Attempt})
		e := d.Look("k")
		snapshot, err := intent.Read(e.Canonical, e.IntentHash)
		require.NoError(t, err)
		approved, _ := snapshot.Tree.Pointer("/actions/0")
		require.Equal(t, string(approved.AppendCanonical(nil)), string(command.Action), "byte for byte")
		require.Contains(t, string(command.Action), `"quantity":2.5}`)
		require.WithinDuration(t, e.Now.Add(servicetest.Patience), command.LeaveBy, servicetest.Patience)
		require.Equal(t, int(servicetest.Patience.Milliseconds()), command.LeaveWithinMS)
		require.Equal(t, ledger.EffectSending, e.State, "the attempt is stored before anybody is asked to write")

		leave := d.granted(command)
		require.Equal(t, 1000, leave.BeginWithinMS)
		require.Equal(t, int(servicetest.Patience.Milliseconds()), leave.ReportWithinMS)
		d.write(command.OperationID)
		d.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded", ExternalID: "res-1", RecordVersion: "8"})

		require.Equal(t, ledger.EffectCompleted, d.Look("k").State, "the answer comes after the commit")
		require.Equal(t, "res-1", d.Look("k").ExternalID)
		attempt := d.Attempts("k")[0]
		require.Equal(t, string(outcome.Succeeded), attempt.Class)
		require.True(t, attempt.Sent)
		require.Len(t, attempt.Digest, 32)
		d.inFlight.Wait()
		require.Equal(t, 1, d.Count(`select count(*) from effects where record_version = '8'`))
	})

	t.Run("ARepeatedReceiptIsHarmlessAndAnotherOneIsRefused", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		leave := d.granted(d.command())
		receipt := contracts.Receipt{Token: leave.Token, Status: "succeeded", ExternalID: "res-1"}
		d.recorded(receipt)
		d.recorded(receipt)
		d.inFlight.Wait()
		d.recorded(receipt)
		twice := receipt
		twice.ExternalID = "res-2"
		require.Equal(t, contracts.CodeOwnershipLost, d.tell(twice).code(), "two ids are two writes, which somebody has to look at")
		receipt.Status = "refused"
		got := d.tell(receipt)
		require.Equal(t, contracts.CodeOwnershipLost, got.code())
		require.Contains(t, got.problem.Detail, "succeeded")
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
	})

	t.Run("OfTwoExecutorsThatRaceForACommandOneWrites", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.serve(2)
		d.offer("k")
		d.inFlight.Wait()
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
		require.Equal(t, 1, d.written("k"))
		require.Len(t, d.Attempts("k"), 1)
	})

	t.Run("ACommandThatComesAgainAllowsNoSecondWrite", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		command := d.command()
		leave := d.granted(command)
		again, err := next(d.reader())
		require.NoError(t, err)
		require.Equal(t, command, again)
		refused := d.leave(again)
		require.False(t, refused.Granted)
		require.Equal(t, "leave was given already", refused.Reason)
		d.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded"})
		d.inFlight.Wait()
		require.Contains(t, d.leave(again).Reason, "over")
	})

	t.Run("WhoWasRefusedLeaveCannotSayThatNothingWasWritten", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(50*time.Millisecond))
		d.offer("k")
		command := d.command()
		d.granted(command)
		for range 2 { // while the one with leave is waited for, and when the effect is unknown
			got := d.tell(contracts.Receipt{Token: command.Token, Status: "not_sent"})
			require.Equal(t, contracts.CodeForbidden, got.code())
			d.inFlight.Wait()
		}
		require.Equal(t, ledger.EffectUnknown, d.Look("k").State)
	})

	t.Run("AnExecutorThatFallsSilentAfterLeaveLeavesTheEffectUnknown", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(20*time.Millisecond))
		d.offer("k")
		d.granted(d.command())
		d.inFlight.Wait()
		e := d.Look("k")
		require.Equal(t, ledger.EffectUnknown, e.State)
		require.True(t, e.MaybeSent)
		require.True(t, e.Silent, "its outcome stays open for a receipt")
		d.again()
		require.Len(t, d.Attempts("k"), 1, "nobody sends again what may have been written")
		require.Equal(t, 1, d.Count(`select count(*) from audit_events where move = 'lose' and detail->>'note' like '%did not report%'`))
	})

	t.Run("AnExecutorThatReplaysIsCommandedAgainUnderTheSameOperationID", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, replays, reportWithin(20*time.Millisecond))
		d.offer("k")
		first := d.command()
		d.granted(first)
		d.inFlight.Wait()
		d.repeat("k")
		d.patient(replays).pollNow()
		second := d.command()
		require.Equal(t, 2, second.Attempt)
		require.Equal(t, first.OperationID, second.OperationID)
		require.Equal(t, first.Action, second.Action)
		require.NotEqual(t, first.Token, second.Token)
		require.False(t, d.leave(first).Granted, "the first attempt is over")
		d.recorded(contracts.Receipt{Token: d.granted(second).Token, Status: "succeeded"})
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
	})

	t.Run("WithoutReplayNothingThatMayHaveBeenWrittenIsCommandedAgain", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(20*time.Millisecond))
		d.offer("k")
		d.granted(d.command())
		d.inFlight.Wait()
		d.repeat("k") // as a reconciler with another declaration might
		d.look()
		require.Contains(t, d.Attempts("k")[1].Detail, "nothing was sent")
		require.Equal(t, ledger.EffectUnknown, d.Look("k").State)
	})

	t.Run("ACommandThatNobodyAsksLeaveForIsOverAndMadeAnew", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, leaveWithin(20*time.Millisecond))
		d.offer("k")
		d.inFlight.Wait()
		require.Equal(t, ledger.EffectPending, d.Look("k").State)
		require.False(t, d.Look("k").MaybeSent)
		require.Equal(t, string(outcome.NotSent), d.Attempts("k")[0].Class)
		late := d.leave(d.command())
		require.False(t, late.Granted)
		require.Equal(t, 0, d.written("k"))

		other := d.patient()
		d.DueNow()
		other.pollNow()
		d.recorded(contracts.Receipt{Token: d.granted(d.command()).Token, Status: "succeeded"})
		other.inFlight.Wait()
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
	})

	t.Run("ABrokerThatIsAwayMeansThatNothingWasSent", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.broker.Server.Close()
		d.offer("k")
		d.inFlight.Wait()
		require.Equal(t, string(outcome.NotSent), d.Attempts("k")[0].Class)
		require.Contains(t, d.Attempts("k")[0].Detail, "offer the command")
		require.Equal(t, ledger.EffectPending, d.Look("k").State)
	})
}

// TestLeaveOfExecutors is D9 for executors: leave is what the kill switch, the lease and execute-by allow.
func TestLeaveOfExecutors(t *testing.T) {
	t.Parallel()

	refused := func(t *testing.T, d *depot, says string) {
		t.Helper()
		leave := d.leave(d.command())
		require.False(t, leave.Granted)
		require.Contains(t, leave.Reason, says)
		require.Empty(t, leave.Token)
		d.inFlight.Wait()
		attempt := d.Attempts("k")[0]
		require.Equal(t, string(outcome.NotSent), attempt.Class)
		require.Contains(t, attempt.Detail, says)
		require.False(t, attempt.Sent)
		require.False(t, d.Look("k").MaybeSent)
	}

	t.Run("ASwitchThatClosesBetweenCommandAndLeaveRefusesIt", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		d.set(ledger.ScopeConnector, "demo/"+warehouseID, true)
		refused(t, d, "the kill switch is closed: connector demo/test-warehouse (ann: a test)")
		require.Equal(t, ledger.EffectPending, d.Look("k").State)
	})

	t.Run("AnExecuteByThatHasPassedRefusesIt", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.Authorize(d.stock("k"))
		d.Exec(`update effects set execute_by = clock_timestamp() + interval '4 seconds'`)
		d.take("k")
		leased := time.Now() // at the earliest: the dispatcher's clock may be a round trip behind
		command := d.command()
		d.Eventually(func() bool { return time.Since(leased) > 4*time.Second }, "its time is over")
		leave := d.leave(command)
		require.False(t, leave.Granted)
		require.Contains(t, leave.Reason, "execute-by has passed")
		d.inFlight.Wait()
		require.False(t, d.Look("k").MaybeSent)
	})

	t.Run("ALeaseThatIsAnothersRefusesIt", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		d.Exec(`update effects set lease_expires_at = clock_timestamp()`)
		refused(t, d, "the lease has ended")
	})

	t.Run("AStopTakesBackWhatNobodyHasAskedLeaveFor", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k", "asked")
		for range 2 {
			if command := d.command(); command.OperationID == servicetest.Effect("asked").OperationID() {
				leave := d.granted(command)
				defer func() {
					d.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded"})
					d.inFlight.Wait()
					require.Equal(t, ledger.EffectCompleted, d.Look("asked").State, "who has leave is waited for")
				}()
			}
		}
		d.executors.stop()
		d.Eventually(func() bool { return d.Look("k").State == ledger.EffectPending }, "it goes back at once")
		require.Contains(t, d.Attempts("k")[0].Detail, "the dispatcher stops")
	})
}

// TestWholeServiceWithExecutors runs the dispatcher as it is run.
func TestWholeServiceWithExecutors(t *testing.T) {
	t.Parallel()

	t.Run("TwoHundredEffectsWithDuplicatedCommandsAreTwoHundredWrites", func(t *testing.T) {
		t.Parallel()
		const n = 200
		d := newDepot(t)
		d.serve(4) // each takes every command, so each command is there four times
		claims := make([]ledger.Claim, n)
		keys := make([]string, n)
		for i := range claims {
			keys[i] = "k-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			claims[i] = d.stock(keys[i])
		}
		d.Authorize(claims...)
		d.DueNow()
		stop := d.Start(d.Dispatcher)
		d.Eventually(func() bool { return d.Count(`select count(*) from effects where state = 'completed'`) == n }, "all are done")
		require.NoError(t, stop())
		for _, key := range keys {
			require.Equal(t, 1, d.written(key), key)
		}
		require.Equal(t, n, d.Count(`select count(distinct external_id) from effects`))
		require.Equal(t, n, d.Count(`select count(*) from effect_attempts`))
	})

	t.Run("TheTenantsOwnLoginIsEnough", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() { watched <- bus.Watch(ctx, d.broker.Conn, d.broker.Topology, 0) }() // as the relay does, for readers
		nc := login(t, d.broker.TenantURL("demo"))
		d.Eventually(func() bool {
			_, err := nc.Request("$JS.API.CONSUMER.CREATE."+bus.ExecStream("demo"), nil, time.Second)
			return err == nil
		}, "somebody makes readers")
		tenant := newWarehouse(t, nc)
		d.Authorize(d.stock("k"))
		d.take("k")
		leave := tenant.granted(tenant.command())
		tenant.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded"})
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
		cancel()
		require.NoError(t, <-watched)
	})

	t.Run("AStopWaitsForAReceipt", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.Authorize(d.stock("k"))
		d.DueNow()
		stop := d.Start(d.Dispatcher)
		leave := d.granted(d.command())
		stopped := make(chan error)
		go func() { stopped <- stop() }()
		<-d.executors.halt
		d.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded"})
		require.NoError(t, <-stopped)
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
	})

	t.Run("ADoorThatCannotOpenEndsTheService", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		other := another(t, d.World)
		other.env.Bus.Close()
		require.Error(t, other.Run(t.Context()))
	})
}
