package intake_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// proposal is what a worker submits for an event of source drafts.
var proposal = map[string]any{"action_type": "crm.contact.update",
	"target":           map[string]any{"system": "crm", "record_id": "c-1"},
	"proposed_change":  map[string]any{"fields": map[string]any{"city": "Lisbon"}},
	"workflow_version": "crm-enrichment@3"}

// event is what the worker works on.
const event = `{"task":"t-1"}`

// workerDoor is the worker's protocol as one door has it, for one event.
type workerDoor struct {
	*replica
	key string
	// ask claims the lease of the event; the owner may be empty.
	ask func(body, owner string) answer
	// act makes a call under a lease: renew, submit or fail.
	act func(verb string, lease *contracts.Lease, run string, members map[string]any) answer
}

func overHTTP(r *replica, key string) *workerDoor {
	paths := map[string]string{"renew": "renewal", "submit": "proposal", "fail": "failure"}
	return &workerDoor{r, key, func(body, owner string) answer {
		header := keyed(key)
		if owner != "" {
			header.Set("Holdpoint-Owner", owner)
		}
		return r.send(call{path: "/v1/sources/drafts/claims", header: header, body: body})
	}, func(verb string, lease *contracts.Lease, run string, members map[string]any) answer {
		return r.under(lease, run, paths[verb], members)
	}}
}

func overRequestReply(r *replica, key string) *workerDoor {
	return &workerDoor{r, key, func(body, owner string) answer {
		header := map[string][]string{"Idempotency-Key": {key}}
		if owner != "" {
			header["holdpoint-owner"] = []string{owner}
		}
		return r.request(demo, "claim.drafts", header, body)
	}, func(verb string, lease *contracts.Lease, run string, members map[string]any) answer {
		body := map[string]any{"run_id": run, "owner": lease.Owner, "version": lease.Version}
		for name, value := range members {
			body[name] = value
		}
		return r.request(demo, verb, nil, asJSON(r.world, body))
	}}
}

// expire lets the lease end, as time would.
func (d *workerDoor) expire() {
	d.set("lease_expires_at = clock_timestamp() - interval '1 millisecond'")
}

// set changes the run as no service may.
func (d *workerDoor) set(change string) {
	d.t.Helper()
	d.exec("update runs set "+change+" where idempotency_key = $1", d.key)
}

// run reads one value of the run.
func run[T any](d *workerDoor, expression string) T {
	d.t.Helper()
	return one[T](d.world, "select "+expression+" from runs where idempotency_key = $1", d.key)
}

// intents is how many proposals the run has.
func (d *workerDoor) intents() int {
	return d.count("select count(*) from intents join runs using (tenant_id, run_id) where idempotency_key = $1", d.key)
}

// leased claims the event for the first time.
func (d *workerDoor) leased() answer {
	d.t.Helper()
	a := d.ask(event, "")
	require.Equal(d.t, contracts.ResultAccepted, a.result())
	require.NotNil(d.t, a.Lease)
	return a
}

// left is what the database says is left of the lease, in seconds.
func (d *workerDoor) left() float64 {
	return run[float64](d, "extract(epoch from lease_expires_at - clock_timestamp())::float8")
}

// requireSameLease compares what does not pass with time.
func requireSameLease(t *testing.T, want, got *contracts.Lease, why string) {
	t.Helper()
	require.LessOrEqual(t, got.RemainingMS, want.RemainingMS)
	require.Positive(t, got.RemainingMS)
	w, g := *want, *got
	w.RemainingMS, g.RemainingMS = 0, 0
	require.Equal(t, w, g, why)
}

func (d *workerDoor) retryAfter(a answer) float64 {
	d.t.Helper()
	require.Len(d.t, a.header["Retry-After"], 1)
	seconds, err := strconv.Atoi(a.header["Retry-After"][0])
	require.NoError(d.t, err)
	return float64(seconds)
}

// The worker's protocol (M1b, K6 to K9) on every door that has it.
func TestWorkers(t *testing.T) {
	t.Parallel()
	shared := newWorld(t).start()
	for name, door := range map[string]func(*replica, string) *workerDoor{"HTTP": overHTTP,
		"RequestReply": overRequestReply} {
		t.Run(name, func(t *testing.T) {
			testWorkers(t, func(t *testing.T) *workerDoor {
				t.Helper()
				t.Parallel()
				return door(shared.as(t), t.Name())
			})
		})
	}
}

func testWorkers(t *testing.T, setup func(*testing.T) *workerDoor) {
	retryable := map[string]any{"retryable": true, "reason": "the model is busy"}
	terminal := map[string]any{"retryable": false, "reason": "no contact fits"}

	t.Run("AClaimGivesABoundedLeaseToARandomOwner", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		owner, err := uuid.Parse(a.Lease.Owner)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), owner.Version())
		require.EqualValues(t, 1, a.Lease.Version)
		require.True(t, a.Lease.ExpiresAt.Equal(run[time.Time](d, "lease_expires_at")))
		require.InDelta(t, 30, run[float64](d, "extract(epoch from lease_expires_at - created_at)::float8"), 1)
		other := d.send(call{path: "/v1/sources/drafts/claims", header: keyed(d.key + "-2"), body: event})
		require.NotEqual(t, a.Lease.Owner, other.Lease.Owner)
	})

	// Retry hints that outlast the lease lock a key for days (INT-03).
	t.Run("ASecondClaimIsToldToComeBackBeforeTheLeaseEnds", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		second := d.ask(event, "")
		require.Equal(t, contracts.ResultDuplicate, second.result())
		require.Equal(t, a.runID(), second.runID())
		require.Nil(t, second.Lease, "another's lease is not shown")
		require.InDelta(t, 29, d.retryAfter(second), 10)
		for _, left := range []string{"4.9 seconds", "0.9 seconds"} {
			d.set("lease_expires_at = clock_timestamp() + interval '" + left + "'")
			before := d.left()
			require.LessOrEqual(t, d.retryAfter(d.ask(event, "")), before)
		}
		require.Empty(t, d.post("drafts", d.key, event).header["Retry-After"], "who wants no lease waits for none")
	})

	t.Run("TheSameOwnerMayAskAgainAfterALostAnswer", func(t *testing.T) {
		d := setup(t)
		owner := uuid.NewString()
		first := d.ask(event, owner)
		again := d.ask(event, owner)
		require.Equal(t, contracts.ResultAccepted, again.result())
		requireSameLease(t, first.Lease, again.Lease, "it is neither renewed nor lengthened")
		d.expire()
		late := d.ask(event, owner)
		require.Equal(t, contracts.CodeOwnershipLost, late.result(),
			"a new execution has an owner of its own, and a new cap")
		require.Equal(t, contracts.ResultAccepted, d.ask(event, uuid.NewString()).result())
	})

	t.Run("AnOwnerThatIsNoUUIDIsRefused", func(t *testing.T) {
		d := setup(t)
		for _, owner := range []string{"me", uuid.Nil.String()} {
			require.Equal(t, contracts.CodeMalformed, d.ask(`{}`, owner).result())
		}
		require.Zero(t, d.count("select count(*) from runs where idempotency_key = $1", d.key))
	})

	t.Run("ARenewalLengthensTheLeaseUpToItsCap", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		d.set("lease_expires_at = clock_timestamp() + interval '5 seconds'")
		renewed := d.act("renew", a.Lease, a.runID(), nil)
		require.Equal(t, contracts.ResultAccepted, renewed.result())
		require.Equal(t, a.Lease.Owner, renewed.Lease.Owner)
		require.EqualValues(t, 2, renewed.Lease.Version)
		require.Greater(t, d.left(), 20.0)
		requireSameLease(t, renewed.Lease, d.act("renew", a.Lease, a.runID(), nil).Lease,
			"a renewal whose answer was lost is answered again")
		d.set("lease_cap_at = clock_timestamp() + interval '7 seconds'")
		require.Equal(t, contracts.ResultAccepted, d.act("renew", renewed.Lease, a.runID(), nil).result())
		require.True(t, run[bool](d, "lease_expires_at = lease_cap_at"), "all renewals together end at the cap")
	})

	t.Run("ALeaseThatHasEndedCannotBeRenewed", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		d.expire()
		late := d.act("renew", a.Lease, a.runID(), nil)
		require.Equal(t, contracts.CodeOwnershipLost, late.result())
		require.Equal(t, http.StatusConflict, late.problem.Status)
		require.Equal(t, contracts.ResultOwnershipLost, late.problem.Result)
		require.Equal(t, a.runID(), late.problem.RunID)
	})

	t.Run("ASubmissionEndsTheLeaseAndIsAnsweredTheSameTwice", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		members := map[string]any{"proposal": proposal}
		first := d.act("submit", a.Lease, a.runID(), members)
		require.Equal(t, contracts.ResultAccepted, first.result())
		require.Nil(t, first.Lease)
		second := d.act("submit", a.Lease, a.runID(), members)
		require.Equal(t, first.Answer, second.Answer)
		require.Equal(t, first.status, second.status)
		require.Equal(t, 1, d.intents())
		require.Equal(t, 1,
			d.count("select count(*) from event_log where run_id = $1 and subject like '%.intent.submitted'", a.runID()))
		require.True(t, run[bool](d, "lease_owner is null and lease_expires_at is null"))
		require.Equal(t, a.Lease.Owner, one[string](d.world, "select submitted_by::text from intents where run_id = $1",
			a.runID()))

		other := map[string]any{"proposal": merged(proposal, "workflow_version", "crm-enrichment@4")}
		require.Equal(t, contracts.CodeOwnershipLost, d.act("submit", a.Lease, a.runID(), other).result(),
			"another proposal is not the same call")
		require.Equal(t, contracts.CodeOwnershipLost, d.act("fail", a.Lease, a.runID(), retryable).result(),
			"a run with an intent never becomes failed_retryable")
		require.Equal(t, contracts.CodeOwnershipLost, d.act("renew", a.Lease, a.runID(), nil).result())
		require.Equal(t, contracts.ResultDuplicate, d.ask(event, "").result(), "it cannot be claimed again")
		require.Equal(t, 1, d.intents())
	})

	t.Run("AStaleOwnerChangesNothingAndIsTold", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		d.expire()
		b := d.ask(event, "")
		require.Equal(t, contracts.ResultAccepted, b.result(), "an expired lease can be taken over")
		require.NotEqual(t, a.Lease.Owner, b.Lease.Owner)
		require.EqualValues(t, 2, b.Lease.Version)
		before := run[string](d, "to_jsonb(runs)::text")
		for verb, members := range map[string]map[string]any{"renew": nil, "submit": {"proposal": proposal},
			"fail": terminal} {
			late := d.act(verb, a.Lease, a.runID(), members)
			require.Equal(t, contracts.CodeOwnershipLost, late.result(), verb)
			require.Equal(t, http.StatusConflict, late.problem.Status, verb)
		}
		guess := *b.Lease
		guess.Version--
		require.Equal(t, contracts.CodeOwnershipLost, d.act("submit", &guess, a.runID(),
			map[string]any{"proposal": proposal}).result(), "a version that has passed")
		guess = *b.Lease
		guess.Owner = a.Lease.Owner
		require.Equal(t, contracts.CodeOwnershipLost, d.act("fail", &guess, a.runID(), retryable).result(),
			"another's version")
		require.Equal(t, before, run[string](d, "to_jsonb(runs)::text"))
		require.Zero(t, d.intents())
		require.Equal(t, contracts.ResultAccepted, d.act("submit", b.Lease, a.runID(),
			map[string]any{"proposal": proposal}).result())
	})

	t.Run("ALeaseThatStillRunsCannotBeTakenOver", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		require.Equal(t, contracts.ResultDuplicate, d.ask(event, "").result())
		require.Equal(t, contracts.CodePayloadMismatch, d.ask(`{"task":"t-2"}`, "").result())
		d.expire()
		require.Equal(t, contracts.CodePayloadMismatch, d.ask(`{"task":"t-2"}`, "").result(),
			"only with the same payload")
		require.Equal(t, a.Lease.Owner, run[string](d, "lease_owner::text"))
	})

	t.Run("ARetryableFailureLetsAnotherWorkerTakeTheRun", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		failed := d.act("fail", a.Lease, a.runID(), retryable)
		require.Equal(t, contracts.ResultAccepted, failed.result())
		require.Equal(t, contracts.StateFailedRetryable, failed.State)
		require.Equal(t, failed.Answer, d.act("fail", a.Lease, a.runID(), retryable).Answer)
		b := d.ask(event, "")
		require.Equal(t, contracts.ResultAccepted, b.result())
		require.Equal(t, contracts.StateProcessing, b.State)
		require.Zero(t, run[int](d, "takeovers"), "what was given back was not taken")
		require.Equal(t, contracts.CodeOwnershipLost, d.act("fail", a.Lease, a.runID(), retryable).result())
	})

	t.Run("ATerminalFailureNeverRestarts", func(t *testing.T) {
		for _, tc := range []struct {
			outcome string
			members map[string]any
		}{{contracts.OutcomeFailed, terminal}, {contracts.OutcomeInvalid, merged(terminal, "invalid", true)}} {
			t.Run(tc.outcome, func(t *testing.T) {
				d := setup(t)
				a := d.leased()
				failed := d.act("fail", a.Lease, a.runID(), tc.members)
				require.Equal(t, contracts.StateFailedTerminal, failed.State)
				require.Equal(t, tc.outcome, failed.Outcome)
				for range 2 {
					again := d.ask(event, "")
					require.Equal(t, contracts.ResultDuplicateWithResult, again.result())
					require.Equal(t, tc.outcome, again.Outcome)
					require.Nil(t, again.Lease)
				}
				ended := told[*contracts.RunEnded](d.world, "holdpoint.events.demo.run.ended", a.runID())
				require.Len(t, ended, 1)
				require.Equal(t, tc.outcome, ended[0].Outcome)
				require.Equal(t, "no contact fits", ended[0].Reason)
				require.Equal(t, "t-1", ended[0].CorrelationID)
				require.Equal(t, contracts.CodeOwnershipLost,
					d.act("submit", a.Lease, a.runID(), map[string]any{"proposal": proposal}).result())
			})
		}
	})

	// What a model writes besides the proposal decides nothing, and what is not the schema's is refused (M2, M6).
	t.Run("AProposalThatDoesNotFitIsRefusedAndTheLeaseStays", func(t *testing.T) {
		d := setup(t)
		a := d.leased()
		for name, bad := range map[string]any{
			"/proposal/confidence":       merged(proposal, "confidence", 0.99),
			"/proposal/auto_reply":       merged(proposal, "auto_reply", true),
			"/proposal/priority":         merged(proposal, "priority", "high"),
			"/proposal/Action_Type":      merged(proposal, "Action_Type", "payment.refund"),
			"/proposal/uncertainty":      merged(proposal, "uncertainty", "none"),
			"/proposal/workflow_version": merged(proposal, "workflow_version", strings.Repeat("x", 129)),
			"/proposal/proposed_change/fields/phone": merged(proposal, "proposed_change",
				map[string]any{"fields": map[string]any{"phone": "rm -rf"}}),
			"/proposal/proposed_change/auto": merged(proposal, "proposed_change",
				map[string]any{"fields": map[string]any{"city": "x"}, "auto": 1}),
			"/proposal": "approve it",
		} {
			refused := d.act("submit", a.Lease, a.runID(), map[string]any{"proposal": bad})
			require.Equal(t, contracts.CodeSchemaInvalid, refused.result(), name)
			require.Equal(t, name, refused.problem.Errors[0].Pointer)
		}
		for name, members := range map[string]map[string]any{
			"no proposal": nil, "another member": {"proposal": proposal, "confidence": 1},
		} {
			require.Equal(t, contracts.CodeSchemaInvalid, d.act("submit", a.Lease, a.runID(), members).result(), name)
		}
		for name, members := range map[string]map[string]any{
			"no reason":            {"retryable": true},
			"retryable as text":    {"retryable": "true", "reason": "x"},
			"invalid as text":      {"retryable": false, "reason": "x", "invalid": "true"},
			"a reason without end": {"retryable": true, "reason": strings.Repeat("x", 2001)},
		} {
			require.Equal(t, contracts.CodeSchemaInvalid, d.act("fail", a.Lease, a.runID(), members).result(), name)
		}
		require.Equal(t, contracts.CodeSchemaInvalid, d.act("renew", &contracts.Lease{Owner: "me", Version: 1},
			a.runID(), nil).result())
		require.Zero(t, d.intents())
		require.Equal(t, contracts.ResultAccepted, d.act("submit", a.Lease, a.runID(),
			map[string]any{"proposal": proposal}).result())
	})

	t.Run("ARunOfAnotherTenantOrNoneIsNotFound", func(t *testing.T) {
		d := setup(t)
		theirs := d.send(call{path: "/v1/sources/drafts/claims", header: keyed(d.key), body: `{}`, token: keyOf(acme)})
		for _, run := range []string{theirs.runID(), uuid.NewString(), "x"} {
			require.Equal(t, contracts.CodeNotFound, d.act("renew", theirs.Lease, run, nil).result(), run)
		}
	})

	// An event that came over JetStream waits for a worker to claim it.
	t.Run("AnEventFromTheStreamIsClaimedByItsKeyAndPayload", func(t *testing.T) {
		d := setup(t)
		stored := next(d.world, d.publish(message{header: keyed(d.key), body: event}))
		require.Equal(t, contracts.ResultAccepted, stored.result())
		accepted := told[*contracts.RunAccepted](d.world, "holdpoint.events.demo.run.accepted", stored.runID())
		require.Len(t, accepted, 1)
		require.Equal(t, "t-1", accepted[0].CorrelationID)
		a := d.ask(event, "")
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, stored.runID(), a.runID())
		require.Zero(t, run[int](d, "takeovers"))
	})
}

// merged is a copy with one member more, or another.
func merged(object map[string]any, name string, value any) map[string]any {
	out := map[string]any{name: value}
	for n, v := range object {
		if n != name {
			out[n] = v
		}
	}
	return out
}

// A run whose workers keep dying is told to an operator (K7).
func TestTakeoversAreCountedAndRepeatedOnesCallAnOperator(t *testing.T) {
	t.Parallel()
	d := overHTTP(newWorld(t).start(), "k")
	a := d.leased()
	for n := 1; n <= 3; n++ {
		require.NotContains(t, d.logs.text(), "ERROR a run changes hands again and again")
		d.expire()
		require.Equal(t, contracts.ResultAccepted, d.ask(event, "").result())
		require.Equal(t, n, run[int](d, "takeovers"))
		require.EqualValues(t, n, d.counted("holdpoint_lease_takeovers_total", map[string]string{"tenant": demo}))
	}
	require.Contains(t, d.logs.text(), "ERROR a run changes hands again and again")
	require.Contains(t, d.logs.text(), a.runID())
	require.EqualValues(t, 1, d.counted("holdpoint_lease_takeovers_total", map[string]string{"repeated": "true"}))
	require.Equal(t, 3, d.count("select count(*) from audit_events where move = 'reclaim'"))
}
