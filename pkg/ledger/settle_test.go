package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// eventsOf counts a run's events of one type.
func eventsOf(b *ledgertest.Bench, run uuid.UUID, kind string) int {
	return b.Count(`select count(*) from event_log where run_id = $1 and convert_from(payload, 'UTF8')::json->>'type' = $2`, run, kind)
}

func TestSettle(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)
	leased := func(b *ledgertest.Bench, key string) ledger.Leased {
		return b.Lease(time.Minute, b.Approved(key)...)[0]
	}
	record := func(t *testing.T, b *ledgertest.Bench, settlements ...ledger.Settlement) []bool {
		t.Helper()
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", settlements)
		require.NoError(t, err)
		return moved
	}

	for name, c := range map[string]struct {
		move, hold   string
		effect       string
		run, outcome string
		event        string
	}{
		"Success":    {"succeed", "", ledger.EffectCompleted, ledger.RunCompleted, ledger.OutcomeExecuted, contracts.TypeRunCompleted},
		"Refusal":    {"refuse", "", ledger.EffectFailed, ledger.RunFailedTerminal, ledger.OutcomeFailed, contracts.TypeRunEnded}, // D8
		"Acceptance": {"accept", "", ledger.EffectAccepted, ledger.RunApproved, "", ""},
		"Retry":      {"retry", "", ledger.EffectPending, ledger.RunApproved, "", ""},
		"Doubt":      {"lose", "", ledger.EffectUnknown, ledger.RunApproved, "", ""},
		"Hold":       {"hold", ledger.HoldExhausted, ledger.EffectHeld, ledger.RunApproved, "", ""},
	} {
		t.Run(name+"MovesEffectAndRunTogether", func(t *testing.T) { // D7, B1
			t.Parallel()
			b := shared.For(t)
			e := leased(b, name)
			s := succeed(e, "ext-1")
			s.Move, s.HoldReason, s.NextCheck = c.move, c.hold, time.Hour
			s.Outcome.Duration, s.Outcome.ProviderRequestID, s.Outcome.RequestDigest = 1500*time.Millisecond, "req-1", []byte{1, 2}
			require.Equal(t, []bool{true}, record(t, b, s))
			run := b.Run(name)
			require.Equal(t, []string{c.run, c.outcome}, []string{run.State, run.Outcome})
			require.Equal(t, []ledger.EffectSummary{{OperationID: e.OperationID(), State: c.effect, HoldReason: c.hold, ExternalID: "ext-1"}}, run.Effects)
			require.Equal(t, c.outcome != "", run.Ended())
			require.Equal(t, "3600", b.Text(`select round(extract(epoch from next_check_at - updated_at))::text from effects where run_id = $1`, e.RunID))
			require.Equal(t, "", b.Text(`select lease_owner::text from effects where run_id = $1`, e.RunID))
			require.Equal(t, "succeeded true 200 ext-1 req-1 00:00:01.5", b.Text(`select concat_ws(' ', class, sent::text, http_status, external_id,
provider_request_id, duration) from effect_attempts where run_id = $1 and finished_at is not null`, e.RunID))
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = $2 and from_state = 'sending' and to_state = $3`,
				e.RunID, c.move, c.effect))
			if c.event != "" {
				require.Equal(t, 1, eventsOf(b, e.RunID, c.event))
				require.Equal(t, 3, b.Count(`select count(*) from event_log join pending using (event_id) where run_id = $1`, e.RunID))
			} else {
				require.Equal(t, 2, b.Count(`select count(*) from event_log where run_id = $1`, e.RunID))
			}
		})
	}

	t.Run("ReviewAsksPeopleAgain", func(t *testing.T) { // D4
		t.Parallel()
		b := shared.For(t)
		e := leased(b, "review")
		s := succeed(e, "")
		s.Move, s.HoldReason, s.MaybeSent = "review", ledger.HoldReview, false
		s.Review = &ledger.Review{Audience: []string{"reviewer", "lead"}, Reasons: []byte(`[{"code":"stricter"}]`), ReasonCodes: []string{"stricter"},
			DecideWithin: time.Hour, ExecuteWithin: 2 * time.Hour, IntentHash: e.IntentHash.String(), Revision: 1}
		require.Equal(t, []bool{true}, record(t, b, s))
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("review").State)
		require.Equal(t, "pending reviewer,lead corr-review stricter 02:00:00 "+e.IntentHash.String(),
			b.Text(`select concat_ws(' ', state, array_to_string(audience, ','), correlation_id, reasons->0->>'code', execute_within, encode(intent_hash, 'hex'))
from approvals where run_id = $1`, e.RunID))
		require.Equal(t, 1, eventsOf(b, e.RunID, contracts.TypeRunAwaitingHuman))
	})

	t.Run("MaybeSentSticks", func(t *testing.T) { // D6
		t.Parallel()
		b := shared.For(t)
		e := leased(b, "sticks")
		first := succeed(e, "")
		first.Move, first.Outcome.Class = "retry", "ambiguous"
		record(t, b, first)
		b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, e.RunID)
		again := b.Lease(time.Minute, e.EffectKey)[0]
		require.True(t, again.MaybeSent)
		second := succeed(again, "")
		second.Move, second.MaybeSent = "retry", false
		record(t, b, second)
		require.Equal(t, "true", b.Text(`select maybe_sent::text from effects where run_id = $1`, e.RunID))
		require.Equal(t, "0", b.Text(`select extract(epoch from e.first_sent_at - t.started_at)::int::text from effects e
join effect_attempts t using (tenant_id, run_id) where run_id = $1 and t.attempt = 1`, e.RunID), "the key window begins with the first attempt that was maybe sent")
	})

	t.Run("EffectThatWasNeverSentSaysSo", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		s := succeed(leased(b, "never"), "")
		s.Move, s.MaybeSent = "retry", false
		record(t, b, s)
		require.Equal(t, "false ", b.Text(`select maybe_sent || ' ' || coalesce(first_sent_at::text, '') from effects where run_id = $1`, s.RunID))
	})

	t.Run("RepeatedSettlementChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		s := succeed(leased(b, "repeated"), "ext-1")
		require.Equal(t, []bool{true}, record(t, b, s))
		row := `select e::text || t::text || r::text from effects e join effect_attempts t using (tenant_id, run_id) join runs r using (tenant_id, run_id) where run_id = $1`
		before := b.Text(row, s.RunID)
		require.Equal(t, []bool{false}, record(t, b, s))
		require.Equal(t, before, b.Text(row, s.RunID))
		require.Equal(t, 1, eventsOf(b, s.RunID, contracts.TypeRunCompleted))
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'succeed'`, s.RunID))
	})

	t.Run("RunCompletesOnceWhoeverSettles", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		s := succeed(leased(b, "race"), "ext-1")
		var group errgroup.Group
		made := make(chan bool, 8)
		for range cap(made) {
			l := b.Replica(ledger.Dispatcher)
			group.Go(func() error {
				moved, err := l.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
				made <- err == nil && moved[0]
				return err
			})
		}
		require.NoError(t, group.Wait())
		close(made)
		times := 0
		for m := range made {
			if m {
				times++
			}
		}
		require.Equal(t, 1, times)
		require.Equal(t, 1, eventsOf(b, s.RunID, contracts.TypeRunCompleted))
		require.Equal(t, int64(3), b.Run("race").Version)
	})

	t.Run("SettlementsOfOneEffectAreMadeOneAfterTheOther", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := leased(b, "chain")
		lose := succeed(e, "")
		lose.Move = "lose"
		require.Equal(t, []bool{true, false}, record(t, b, lose, succeed(e, "ext-1")), "the second finds that the lease is gone")
		require.Equal(t, ledger.EffectUnknown, b.Run("chain").Effects[0].State)
	})
}

func TestStaleDispatcher(t *testing.T) { // D7
	t.Parallel()
	shared := ledgertest.New(t)
	// lost leases an effect and lets the reconciler take it from its owner.
	lost := func(t *testing.T, b *ledgertest.Bench, key string) ledger.Leased {
		e := b.Lease(time.Minute, b.Approved(key)...)[0]
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey, Move: "expire_lease",
			Attempt: e.Attempt, Owner: e.Owner, MaybeSent: true}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		return e
	}
	report := func(t *testing.T, b *ledgertest.Bench, e ledger.Leased, sent bool) {
		t.Helper()
		s := succeed(e, "ext-late")
		s.Outcome.Sent = sent
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, moved)
	}

	t.Run("OutcomeIsAppendedAndMovesNothing", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := lost(t, b, "appended")
		report(t, b, e, true)
		require.Equal(t, "succeeded ext-late", b.Text(`select class || ' ' || external_id from effect_attempts where run_id = $1`, e.RunID))
		require.Equal(t, "unknown true", b.Text(`select state || ' ' || unread_outcome from effects where run_id = $1`, e.RunID))
		require.Equal(t, ledger.RunApproved, b.Run("appended").State)
		open, err := b.Reconciler.Open(t.Context(), []ledger.EffectKey{e.EffectKey})
		require.NoError(t, err)
		require.True(t, open[0].UnreadOutcome)
		require.Equal(t, "succeeded", open[0].ReportedClass)
		require.Equal(t, "ext-late", open[0].ExternalID)
	})

	t.Run("ReportThatNothingWasSentIsOnlyAppended", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := lost(t, b, "not-sent")
		report(t, b, e, false)
		require.Equal(t, "succeeded", b.Text(`select class from effect_attempts where run_id = $1`, e.RunID))
		require.Equal(t, "unknown false", b.Text(`select state || ' ' || unread_outcome from effects where run_id = $1`, e.RunID))
	})

	t.Run("EffectThatWaitsToBeSentAgainIsNotSentBeforeTheReportIsRead", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := lost(t, b, "again")
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey, Move: "prove_absent"}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		report(t, b, e, true)
		require.Empty(t, b.Lease(time.Minute, e.EffectKey))
		require.Equal(t, "unknown t t", b.Text(`select concat_ws(' ', state, unread_outcome, maybe_sent) from effects where run_id = $1`, e.RunID))
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'doubt' and from_state = 'pending' and to_state = 'unknown'`, e.RunID))
	})

	t.Run("NextOwnersLeaseIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := lost(t, b, "next")
		_, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey, Move: "prove_absent"}})
		require.NoError(t, err)
		next := b.Lease(time.Minute, e.EffectKey)
		require.Len(t, next, 1)
		report(t, b, e, true)
		require.Equal(t, "sending "+next[0].Owner.String(), b.Text(`select state || ' ' || lease_owner from effects where run_id = $1`, e.RunID))
		require.True(t, settle(t, b, next[0], "succeed", ledger.Never))
	})

	t.Run("NobodyReportsForAnother", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := b.Lease(time.Minute, b.Approved("forged")...)[0]
		s := succeed(e, "ext-1")
		s.Outcome.Owner, s.Owner = uuid.New(), uuid.New()
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, moved)
		require.Equal(t, "", b.Text(`select class from effect_attempts where run_id = $1`, e.RunID))
	})
}

func TestSettlementThatCannotBeStored(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("StandsAlone", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		leased := b.Lease(time.Minute, b.Approved("good-1", "bad", "good-2")...)
		settlements := column(leased, func(e ledger.Leased) ledger.Settlement { return succeed(e, "ext-1") })
		for i := range settlements {
			if settlements[i].RunKey == "bad" {
				settlements[i].Move = "hold" // without the reason that a hold must have
			}
		}
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", settlements)
		require.ErrorContains(t, err, ledger.OperationID(ledger.RunID(ledgertest.Tenant, "bad"), 1, 1))
		for i, s := range settlements {
			require.Equal(t, s.RunKey != "bad", moved[i], s.RunKey)
			run := b.Run(s.RunKey)
			require.Equal(t, s.RunKey != "bad", run.Ended(), s.RunKey)
		}
	})

	t.Run("ProvidersTextIsKeptAsFarAsItCanBe", func(t *testing.T) { // HASH-06
		t.Parallel()
		b := shared.For(t)
		s := succeed(b.Lease(time.Minute, b.Approved("text")...)[0], "id\x00\xff")
		s.Move, s.Reason, s.Note, s.RecordVersion = "refuse", "no\x00", "n\xff", "v\x00"
		s.Outcome.Detail, s.Outcome.ExternalID, s.Outcome.ProviderRequestID = "body \x00\xff", "x\x00", "r\xff"
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		require.Equal(t, "body \uFFFD\uFFFD", b.Text(`select detail from effect_attempts where run_id = $1`, s.RunID))
		require.Equal(t, "no\uFFFD", b.Run("text").OutcomeReason)
	})

	t.Run("FailureWithoutAReasonIsToldAllTheSame", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		require.True(t, settle(t, b, b.Lease(time.Minute, b.Approved("reason")...)[0], "refuse", 0))
		require.Equal(t, 1, eventsOf(b, ledger.RunID(ledgertest.Tenant, "reason"), contracts.TypeRunEnded))
	})

	t.Run("MoveOfAnotherServiceIsRefused", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := b.Lease(time.Minute, b.Approved("others")...)[0]
		for _, c := range []struct {
			by      *ledger.Ledger
			command string
			move    string
		}{{b.Dispatcher, "record_outcomes", "find"}, {b.Reconciler, "record_lookups", "succeed"}, {b.Operator, "resolve", "prove_absent"}} {
			_, err := c.by.Settle(t.Context(), c.command, []ledger.Settlement{{EffectKey: e.EffectKey, Move: c.move}})
			require.ErrorContains(t, err, "may not make the move")
		}
		require.Equal(t, ledger.EffectSending, b.Run("others").Effects[0].State)
	})
}

func TestLookupsAreKept(t *testing.T) { // R1, R2
	t.Parallel()
	b := ledgertest.New(t)
	e := b.Lease(time.Minute, b.Approved("k1")...)[0]
	require.True(t, settle(t, b, e, "lose", 0))
	look := func(move string, absent bool, verdict string) {
		t.Helper()
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey, Move: move, Absent: absent,
			Looked: &ledger.Looked{Verdict: verdict, Conclusive: absent, Evidence: strings.Repeat("e", 3)}, RunKey: "k1", CorrelationID: "corr-k1", ExternalID: "ext-1"}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
	}
	since := b.Text(`select unknown_since::text from effects`)
	require.NotEmpty(t, since)
	look("look", true, "absent")
	look("look", true, "absent")
	look("look", false, "unclear")
	require.Equal(t, "3 2 "+since, b.Text(`select concat_ws(' ', lookups, absences, unknown_since) from effects`))
	look("find", false, "found")
	require.Equal(t, "absent,absent,unclear,found", b.Text(`select string_agg(verdict, ',' order by lookup) from lookups`))
	require.Equal(t, "0 ", b.Text(`select absences || ' ' || coalesce(unknown_since::text, '') from effects`))
	require.Equal(t, ledger.RunCompleted, b.Run("k1").State)
}
