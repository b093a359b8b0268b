package reconciler

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func lookupsOf(key string) sandbox.Match {
	return sandbox.Match{Operation: sandbox.Lookup, Reference: servicetest.Effect(key).OperationID()}
}

// TestUnknown is R1, R2 and R8: what became of a write is found out by reading.
func TestUnknown(t *testing.T) {
	t.Parallel()
	world := setup(t)
	run := func(name string, test func(*bench, string)) {
		t.Run(name, func(t *testing.T) { // one after the other: a scan takes up whatever is due
			b := world.forCase(t)
			b.Heal()
			b.Authorize(b.Contact(name))
			test(b, name)
		})
	}

	run("FoundOnceIsCompletedWithItsEvidence", func(b *bench, key string) {
		b.lost(key, true)
		b.after(key, time.Second)
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectCompleted, e.State)
		require.Equal(b.t, b.Writes(key)[0].UpdateID, e.ExternalID)
		require.Equal(b.t, 1, b.Count(`select count(*) from lookups where run_id = $1 and lookup = 1 and verdict = 'found'
  and conclusive and external_id = $2 and evidence like '1 of 1 match, HTTP 200, body sha256 %'`, e.RunID, e.ExternalID))
		require.Equal(b.t, ledger.OutcomeExecuted, b.World.Run(key).Outcome)
		require.Equal(b.t, "2", b.Text(`select record_version from effects where run_id = $1`, e.RunID))
		require.Equal(b.t, 1, b.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.completed'`,
			e.RunID))
	})

	run("NotFoundIsNotNotDone", func(b *bench, key string) { // REC-03
		b.lost(key, true)
		lagging := b.Fault(lookupsOf(key), sandbox.Fault{Kind: sandbox.LookupLag, Duration: sandbox.Duration(time.Hour)})
		b.after(key, 5*time.Second)
		b.after(key, 15*time.Second)
		require.NoError(b.t, b.Sandbox.AwaitFault(b.t.Context(), lagging, 2))
		require.Equal(b.t, 2, b.lookups(key, "absent"), "the empty answers are kept")
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectUnknown, e.State)
		require.Zero(b.t, e.Absences, "an index that may lag proves nothing")
		b.Heal()
		b.after(key, 20*time.Second)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		require.Len(b.t, b.Writes(key), 1)
	})

	run("ProvenAbsentWaitsToBeSentUnderTheSameKey", func(b *bench, key string) {
		b.lost(key, false)
		b.after(key, servicetest.IndexLag+time.Second)
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectUnknown, e.State, "one probe is no proof")
		require.Equal(b.t, 1, e.Absences)
		b.after(key, servicetest.IndexLag-2*time.Second)
		require.Equal(b.t, ledger.EffectUnknown, b.Look(key).State, "the second must be twice the lag away")
		b.after(key, 2*time.Second)
		e = b.Look(key)
		require.Equal(b.t, ledger.EffectPending, e.State)
		require.False(b.t, e.MaybeSent, "a conclusive lookup ends the doubt (D6)")
		require.Equal(b.t, 3, b.lookups(key, "absent"))
		again := b.lease(key)
		require.Equal(b.t, 2, again.Attempt)
		require.Equal(b.t, servicetest.Effect(key).OperationID(), again.OperationID())
	})

	run("SeveralAreAnIncident", func(b *bench, key string) {
		b.lost(key, true)
		b.Fault(lookupsOf(key), sandbox.Fault{Kind: sandbox.LookupDuplicate})
		b.after(key, time.Hour)
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectHeld, e.State)
		require.Equal(b.t, ledger.HoldIncident, e.HoldReason)
		require.Equal(b.t, 1, b.lookups(key, "several"))
		require.Contains(b.t, b.Logs.String(), "more than one object for one operation")
		require.Equal(b.t, ledger.RunApproved, b.World.Run(key).State)
	})

	run("UnclearStaysUnknownAndIsLookedAtAgain", func(b *bench, key string) {
		b.lost(key, true)
		b.Fault(lookupsOf(key), sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.after(key, time.Hour)
		b.after(key, time.Hour)
		require.Equal(b.t, ledger.EffectUnknown, b.Look(key).State)
		require.Equal(b.t, 2, b.lookups(key, "unclear"))
		require.Equal(b.t, 1, b.Count(`select count(*) from effects where run_id = $1 and next_check_at > clock_timestamp()`,
			servicetest.Effect(key).RunID))
		b.Heal()
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})

	run("AnAbsenceThatAnUnclearAnswerInterruptsStillCounts", func(b *bench, key string) {
		b.lost(key, false)
		b.after(key, time.Hour)
		b.Fault(lookupsOf(key), sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.after(key, time.Second)
		b.Heal()
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectPending, b.Look(key).State)
	})

	run("AnExpiredLeaseIsUnknownAndNeverFailed", func(b *bench, key string) { // DSP-08
		b.write(b.lease(key))
		b.look()
		require.Equal(b.t, ledger.EffectSending, b.Look(key).State, "while the lease lasts nobody touches it")
		b.after(key, time.Hour)
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectUnknown, e.State)
		require.True(b.t, e.MaybeSent)
		require.Equal(b.t, 1, b.Count(`select count(*) from effects where run_id = $1 and first_sent_at = (select started_at
  from effect_attempts where run_id = $1)`, e.RunID), "the key's window began with the attempt")
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		require.Len(b.t, b.Writes(key), 1)
	})

	run("TheSuccessOfAFormerOwnerResolvesIt", func(b *bench, key string) { // D7
		e := b.lease(key)
		result := b.write(e)
		b.after(key, time.Hour)
		require.Equal(b.t, ledger.EffectUnknown, b.Look(key).State)
		require.False(b.t, b.report(e, ledger.Settlement{Move: "succeed", MaybeSent: true, ExternalID: result.ExternalID},
			outcome.Succeeded))
		require.True(b.t, b.Look(key).UnreadOutcome)
		b.look()
		done := b.Look(key)
		require.Equal(b.t, ledger.EffectCompleted, done.State)
		require.Equal(b.t, result.ExternalID, done.ExternalID)
		require.False(b.t, done.UnreadOutcome)
		require.Zero(b.t, b.lookups(key, "found"), "nobody had to be asked")
	})

	run("ADisputedEffectIsNotRevived", func(b *bench, key string) {
		e := b.lease(key)
		result := b.write(e)
		b.after(key, time.Hour)
		b.Settle(b.Operator, "resolve", ledger.Settlement{EffectKey: e.EffectKey, Move: "dispute",
			HoldReason: ledger.HoldDisputed, Actor: "ann"})
		b.report(e, ledger.Settlement{Move: "succeed", MaybeSent: true, ExternalID: result.ExternalID}, outcome.Succeeded)
		b.look()
		disputed := b.Look(key)
		require.Equal(b.t, ledger.HoldDisputed, disputed.HoldReason)
		require.False(b.t, disputed.UnreadOutcome, "it was read")
		require.Equal(b.t, 1, b.Count(`
select count(*) from effects where run_id = $1 and next_check_at > clock_timestamp() + interval '1 year'`, e.RunID))
	})

	run("AnOverdueAcceptanceIsAskedFor", func(b *bench, key string) { // R5
		e := b.lease(key)
		b.write(e)
		b.report(e, ledger.Settlement{Move: "accept", MaybeSent: true, NextCheck: outcome.AcceptedDeadline}, outcome.Accepted)
		b.look()
		b.after(key, outcome.AcceptedDeadline-time.Minute)
		require.Equal(b.t, ledger.EffectAccepted, b.Look(key).State, "it has until its deadline")
		b.after(key, time.Minute)
		require.Equal(b.t, ledger.EffectUnknown, b.Look(key).State)
		b.look()
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})

	run("AClosedKillSwitchStopsNoLookup", func(b *bench, key string) {
		b.lost(key, true)
		_, err := b.Operator.SetSwitch(b.t.Context(), ledger.Switch{Scope: ledger.ScopeTenant, Key: "other", Closed: true,
			ChangedBy: "a", Reason: "b"})
		require.NoError(b.t, err)
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})
}

// TestNotInTime is A14 and the overdue half of the reconciler.
func TestNotInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Authorize(b.Contact("unsent"), b.Contact("maybe"), b.Contact("fresh"))
	b.lost("maybe", false)
	b.Settle(b.World.Reconciler, "record_lookups", ledger.Settlement{EffectKey: servicetest.Effect("maybe"),
		Move: "retry_same_key", MaybeSent: true})
	b.Exec(`update effects set execute_by = clock_timestamp(), next_check_at = clock_timestamp() where run_id in ($1, $2)`,
		servicetest.Effect("unsent").RunID, servicetest.Effect("maybe").RunID)
	_, err := b.scanOverdue(t.Context())
	require.NoError(t, err)

	unsent := b.Look("unsent")
	require.Equal(t, ledger.HoldReview, unsent.HoldReason)
	require.Equal(t, ledger.RunAwaitingHuman, b.World.Run("unsent").State)
	require.Equal(t, 1, b.Count(`
select count(*) from approvals where run_id = $1 and reasons::text like '%execute_by_passed%'
  and audience = '{sales-operations}' and execute_within = '4 hours'`, unsent.RunID))
	require.Equal(t, ledger.EffectUnknown, b.Look("maybe").State,
		"what may have been sent is not asked about again, but looked up")
	require.Equal(t, ledger.EffectPending, b.Look("fresh").State)
}

// TestSameKey is D13 and R3.
func TestSameKey(t *testing.T) {
	t.Parallel()
	withoutLookup := func(c *config.Tenant) {
		for _, connector := range c.Connectors {
			connector.Operations[0].Lookup = nil
		}
	}
	refund := func(t *testing.T, changes ...func(*config.Tenant)) *bench {
		b := setup(t, changes...)
		b.Authorize(b.Refund("k"))
		return b
	}

	t.Run("ALookupComesFirst", func(t *testing.T) {
		t.Parallel()
		b := refund(t)
		b.lost("k", true)
		b.after("k", time.Second)
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
		require.Equal(t, 1, b.lookups("k", "found"))
	})

	t.Run("WhereTheLookupIsNotClearTheKeyIsRepeatedInsideItsWindow", func(t *testing.T) {
		t.Parallel()
		b := refund(t)
		b.lost("k", true)
		b.Fault(lookupsOf("k"), sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.after("k", 22*time.Hour)
		e := b.Look("k")
		require.Equal(t, ledger.EffectPending, e.State)
		require.True(t, e.MaybeSent)
		require.Equal(t, 1, b.lookups("k", "unclear"))
		b.write(b.lease("k"))
		require.Len(t, b.Writes("k"), 1, "the provider replays its first answer")
	})

	t.Run("AKeyPastItsWindowIsNoProof", func(t *testing.T) {
		t.Parallel()
		b := refund(t)
		b.lost("k", true)
		b.Fault(lookupsOf("k"), sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.after("k", 23*time.Hour+time.Second)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
	})

	t.Run("WithoutLookupAReplayIsAllThereIs", func(t *testing.T) {
		t.Parallel()
		b := refund(t, withoutLookup)
		b.lost("k", true)
		b.after("k", time.Minute)
		require.Equal(t, ledger.EffectPending, b.Look("k").State)
	})

	t.Run("WithoutLookupAfterTheWindowAnOperatorMustSettleIt", func(t *testing.T) {
		t.Parallel()
		b := refund(t, withoutLookup)
		b.lost("k", true)
		b.after("k", 24*time.Hour)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Len(t, b.Logs.Errors(), 1)
		require.Contains(t, b.Logs.Errors()[0], "an operator must settle it")
	})

	t.Run("WithoutLookupAndReplayAnOperatorMustSettleIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withoutLookup)
		b.Authorize(b.Contact("k"))
		b.lost("k", true)
		b.after("k", time.Second)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Equal(t, 1, b.Count(`
select count(*) from audit_events where move = 'look' and detail->>'note' like '%operator%'`))
		require.Contains(t, b.Logs.Errors()[0], "an operator must settle it")
	})

	// executed turns the refunds' connector into one whose writes a program of the tenant's makes.
	executed := func(c *config.Tenant) {
		payments := servicetest.Connector(c, servicetest.Payments)
		payments.Kind, payments.BaseURL, payments.Timeout = config.ConnectorExecutor, "", time.Hour
		payments.Operations = []*config.Operation{{Name: servicetest.Refund, Kind: config.OperationCreate,
			IdempotencyHeader: config.OperationIDMember}}
	}

	t.Run("AnExecutorIsNotAskedAndAnOperatorMustSettleIt", func(t *testing.T) {
		t.Parallel()
		b := refund(t, executed)
		require.Less(t, b.hold, time.Minute, "nothing is read from it, however long it may take to report")
		b.lost("k", false)
		b.after("k", time.Second)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Zero(t, b.Look("k").Lookups)
		require.Contains(t, b.Logs.Errors()[0], "an operator must settle it")
	})

	t.Run("WithoutAPassingCheckAnOperatorMustSettleIt", func(t *testing.T) { // D13
		t.Parallel()
		b := refund(t, servicetest.Unproven(t, config.CapabilityReplay, config.CapabilityLookup))
		b.lost("k", false)
		b.after("k", time.Minute)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State, "the key is not sent again")
		require.Zero(t, b.Look("k").Lookups, "and nothing is concluded from a lookup")
		require.Contains(t, b.Logs.Errors()[0], "an operator must settle it")
	})

	t.Run("WithoutAPassingCheckAbsenceIsNoProof", func(t *testing.T) { // R2, R8
		t.Parallel()
		b := refund(t, servicetest.Unproven(t, config.CapabilityReplay, config.CapabilityConclusive))
		b.lost("k", false)
		for range 3 {
			b.after("k", 10*time.Minute)
			b.DueNow()
		}
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Positive(t, b.Look("k").Lookups)
		require.Zero(t, b.Look("k").Absences)
	})

	t.Run("AMailServerIsNotAskedAndAnOperatorMustSettleIt", func(t *testing.T) {
		t.Parallel()
		b := refund(t, func(c *config.Tenant) {
			payments := servicetest.Connector(c, servicetest.Payments)
			payments.Kind, payments.BaseURL, payments.AllowedHosts = config.ConnectorSMTP, "smtp://127.0.0.1:1", nil
			payments.Timeout, payments.Webhook = time.Hour, nil
			payments.Mail = &config.MailServer{Server: "127.0.0.1:1", TLS: config.TLSNone, From: "support@holdpoint.example"}
			payments.Operations = []*config.Operation{{Name: servicetest.Refund, Kind: config.OperationSend,
				Mail: &config.Mail{To: []string{"rita@example.test"}, Subject: "s", Text: "t"}}}
		})
		require.Less(t, b.hold, time.Minute, "nothing is read from it, however long a message may take")
		b.lost("k", false)
		b.after("k", time.Second)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Zero(t, b.Look("k").Lookups)
		require.Contains(t, b.Logs.Errors()[0], "cannot be found by reading")
	})

	t.Run("AnExecutorThatReplaysIsCommandedAgain", func(t *testing.T) {
		t.Parallel()
		b := refund(t, executed, func(c *config.Tenant) {
			op := servicetest.Operation(c, servicetest.Payments)
			op.Replays, op.KeyWindow = true, time.Hour
		})
		b.lost("k", false)
		b.after("k", time.Minute)
		require.Equal(t, ledger.EffectPending, b.Look("k").State)
		require.True(t, b.Look("k").MaybeSent)
	})

	t.Run("AnOperationThatIsNoLongerDeclaredPromisesNothing", func(t *testing.T) {
		t.Parallel()
		b := refund(t)
		b.lost("k", true)
		servicetest.Operation(b.Config.Tenants[0], servicetest.Payments).Name = "renamed"
		b.Reconciler = another(t, b.World)
		b.after("k", time.Second)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
	})

	t.Run("RepeatsEnd", func(t *testing.T) {
		t.Parallel()
		b := refund(t, withoutLookup)
		b.Exec(`update effects set execute_by = execute_by + interval '1 day'`)
		attempts := servicetest.Connector(b.Config.Tenants[0], servicetest.Payments).Backoff.Attempts
		for range attempts {
			b.lost("k", false)
			b.after("k", time.Minute)
			b.DueNow()
		}
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.Len(t, b.Attempts("k"), attempts)
		require.Contains(t, b.Logs.Errors()[0], "used up")
	})
}

// TestScan is about who looks at what, and when.
func TestScan(t *testing.T) {
	t.Parallel()

	t.Run("AConnectorThatHangsHoldsUpNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("c"), b.Refund("r"))
		b.lost("c", true)
		b.lost("r", true)
		hanging := b.Fault(sandbox.Match{System: sandbox.Payments, Operation: sandbox.Lookup},
			sandbox.Fault{Kind: sandbox.HangBeforeAccept})
		stop := b.Start(b.Reconciler)
		b.DueNow()
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), hanging, 1))
		b.Eventually(func() bool { return b.Look("c").State == ledger.EffectCompleted },
			"the other connector's effect is settled")
		require.NoError(t, stop())
		e := b.Look("r")
		require.Equal(t, ledger.EffectUnknown, e.State)
		require.Zero(t, e.Lookups, "what the stop cut off says nothing")
		require.Zero(t, b.lookups("r", "unclear"))
	})

	t.Run("TwoReplicasAskTheProviderOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.lost("k", true)
		b.DueNow()
		id := b.Fault(sandbox.Match{Operation: sandbox.Lookup}, sandbox.Fault{Kind: sandbox.LookupEmpty})
		other := b.forCase(t)
		b.look()
		other.look()
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), id, 1))
		require.Equal(t, 1, b.lookups("k", "absent"))
	})

	t.Run("ItGoesOnByItselfUntilAllIsSettled", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *config.Tenant) {
			servicetest.Operation(c, servicetest.CRM).Lookup.IndexLag = 10 * time.Millisecond
		})
		b.Authorize(b.Contact("wrote"), b.Contact("expired"), b.Contact("late"))
		b.lost("wrote", true)
		b.write(b.lease("expired"))
		b.Exec(`update effects set execute_by = clock_timestamp() where run_id = $1`, servicetest.Effect("late").RunID)
		b.Exec(`update effects set lease_expires_at = clock_timestamp() where state = 'sending'`)
		b.DueNow()
		stop := b.Start(b.Reconciler)
		b.Eventually(func() bool {
			return b.Count(`select count(*) from effects where state = 'completed'`) == 2 &&
				b.Look("late").HoldReason == ledger.HoldReview
		}, "all is settled")
		require.NoError(t, stop())
	})

	t.Run("ABatchThatIsLargerThanOneScanIsFinished", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		claims := make([]ledger.Claim, batchSize+5)
		for i := range claims {
			claims[i] = b.Contact(uuid.NewString())
		}
		b.Authorize(claims...)
		for _, c := range claims {
			b.lost(c.Key, written(c.Key))
		}
		b.DueNow()
		b.look()
		require.Len(t, b.wake, 1, "more may be due")
		b.look()
		require.Zero(t, b.Count(`select count(*) from effects where lookups = 0`))
	})
}

// written has half of the keys written.
func written(key string) bool { return key[0]%2 == 0 }
