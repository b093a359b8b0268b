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
var proposal = map[string]any{"action_type": "crm.contact.update", "target": map[string]any{"system": "crm", "record_id": "c-1"},
	"proposed_change": map[string]any{"fields": map[string]any{"city": "Lisbon"}}, "workflow_version": "crm-enrichment@3"}

// workerDoor is the worker's protocol as one door has it.
type workerDoor struct {
	*replica
	name string
	// ask claims the lease of an event; the owner may be empty.
	ask func(key, body, owner string) answer
	// act makes a call under a lease: renew, submit or fail.
	act func(verb string, lease *contracts.Lease, run string, members map[string]any) answer
}

func overHTTP(r *replica) *workerDoor {
	paths := map[string]string{"renew": "renewal", "submit": "proposal", "fail": "failure"}
	return &workerDoor{r, "http", func(key, body, owner string) answer {
		header := keyed(key)
		if owner != "" {
			header.Set("Holdpoint-Owner", owner)
		}
		return r.send(call{path: "/v1/sources/drafts/claims", header: header, body: body})
	}, func(verb string, lease *contracts.Lease, run string, members map[string]any) answer {
		return r.under(lease, run, paths[verb], members)
	}}
}

func overRequestReply(r *replica) *workerDoor {
	return &workerDoor{r, "request/reply", func(key, body, owner string) answer {
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

// expire lets every lease end, as time would.
func (d *workerDoor) expire() {
	d.exec("update runs set lease_expires_at = clock_timestamp() - interval '1 millisecond' where lease_owner is not null")
}

// leased claims a new event.
func (d *workerDoor) leased(key string) answer {
	d.t.Helper()
	a := d.ask(key, `{"task":"t-1"}`, "")
	require.Equal(d.t, contracts.ResultAccepted, a.result())
	require.NotNil(d.t, a.Lease)
	return a
}

// left is what the database says is left of the lease, in seconds.
func (d *workerDoor) left() float64 {
	return one[float64](d.world, "select extract(epoch from lease_expires_at - clock_timestamp())::float8 from runs")
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
	for name, door := range map[string]func(*replica) *workerDoor{"HTTP": overHTTP, "RequestReply": overRequestReply} {
		t.Run(name, func(t *testing.T) { testWorkers(t, door) })
	}
}

func testWorkers(t *testing.T, door func(*replica) *workerDoor) {
	setup := func(t *testing.T) *workerDoor {
		t.Helper()
		t.Parallel()
		return door(newWorld(t).start())
	}
	retryable := map[string]any{"retryable": true, "reason": "the model is busy"}
	terminal := map[string]any{"retryable": false, "reason": "no contact fits"}

	t.Run("AClaimGivesABoundedLeaseToARandomOwner", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		owner, err := uuid.Parse(a.Lease.Owner)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), owner.Version())
		require.EqualValues(t, 1, a.Lease.Version)
		require.True(t, a.Lease.ExpiresAt.Equal(one[time.Time](d.world, "select lease_expires_at from runs")))
		require.InDelta(t, 30, one[float64](d.world, "select extract(epoch from lease_expires_at - created_at)::float8 from runs"), 1)
		require.NotEqual(t, a.Lease.Owner, d.leased("another").Lease.Owner)
	})

	// Retry hints that outlast the lease lock a key for days (INT-03).
	t.Run("ASecondClaimIsToldToComeBackBeforeTheLeaseEnds", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		second := d.ask("k", `{"task":"t-1"}`, "")
		require.Equal(t, contracts.ResultDuplicate, second.result())
		require.Equal(t, a.runID(), second.runID())
		require.Nil(t, second.Lease, "another's lease is not shown")
		require.InDelta(t, 29, d.retryAfter(second), 10)
		for _, left := range []string{"4.9 seconds", "0.9 seconds"} {
			d.exec("update runs set lease_expires_at = clock_timestamp() + $1::interval", left)
			before := d.left()
			require.LessOrEqual(t, d.retryAfter(d.ask("k", `{"task":"t-1"}`, "")), before)
		}
		require.Empty(t, d.post("drafts", "k", `{"task":"t-1"}`).header["Retry-After"], "who wants no lease waits for none")
	})

	t.Run("TheSameOwnerMayAskAgainAfterALostAnswer", func(t *testing.T) {
		d := setup(t)
		owner := uuid.NewString()
		first := d.ask("k", `{"task":"t-1"}`, owner)
		again := d.ask("k", `{"task":"t-1"}`, owner)
		require.Equal(t, contracts.ResultAccepted, again.result())
		require.Equal(t, first.Lease, again.Lease, "it is neither renewed nor lengthened")
		d.expire()
		late := d.ask("k", `{"task":"t-1"}`, owner)
		require.Equal(t, contracts.CodeOwnershipLost, late.result(), "a new execution has an owner of its own, and a new cap")
		require.Equal(t, contracts.ResultAccepted, d.ask("k", `{"task":"t-1"}`, uuid.NewString()).result())
	})

	t.Run("AnOwnerThatIsNoUUIDIsRefused", func(t *testing.T) {
		d := setup(t)
		for _, owner := range []string{"me", uuid.Nil.String()} {
			require.Equal(t, contracts.CodeMalformed, d.ask("k", `{}`, owner).result())
		}
		require.Zero(t, d.count("select count(*) from runs"))
	})

	t.Run("ARenewalLengthensTheLeaseUpToItsCap", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		d.exec("update runs set lease_expires_at = clock_timestamp() + interval '5 seconds'")
		renewed := d.act("renew", a.Lease, a.runID(), nil)
		require.Equal(t, contracts.ResultAccepted, renewed.result())
		require.Equal(t, a.Lease.Owner, renewed.Lease.Owner)
		require.EqualValues(t, 2, renewed.Lease.Version)
		require.Greater(t, d.left(), 20.0)
		require.Equal(t, renewed.Lease, d.act("renew", a.Lease, a.runID(), nil).Lease, "a renewal whose answer was lost is answered again")
		d.exec("update runs set lease_cap_at = clock_timestamp() + interval '7 seconds'")
		require.Equal(t, contracts.ResultAccepted, d.act("renew", renewed.Lease, a.runID(), nil).result())
		require.True(t, one[bool](d.world, "select lease_expires_at = lease_cap_at from runs"), "all renewals together end at the cap")
	})

	t.Run("ALeaseThatHasEndedCannotBeRenewed", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		d.expire()
		late := d.act("renew", a.Lease, a.runID(), nil)
		require.Equal(t, contracts.CodeOwnershipLost, late.result())
		require.Equal(t, http.StatusConflict, late.problem.Status)
		require.Equal(t, contracts.ResultOwnershipLost, late.problem.Result)
		require.Equal(t, a.runID(), late.problem.RunID)
	})

	t.Run("ASubmissionEndsTheLeaseAndIsAnsweredTheSameTwice", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		members := map[string]any{"proposal": proposal}
		first := d.act("submit", a.Lease, a.runID(), members)
		require.Equal(t, contracts.ResultAccepted, first.result())
		require.Nil(t, first.Lease)
		second := d.act("submit", a.Lease, a.runID(), members)
		require.Equal(t, first.Answer, second.Answer)
		require.Equal(t, first.status, second.status)
		require.Equal(t, 1, d.count("select count(*) from intents"))
		require.Equal(t, 1, d.count("select count(*) from event_log where subject = 'holdpoint.internal.intent.submitted'"))
		require.True(t, one[bool](d.world, "select lease_owner is null and lease_expires_at is null from runs"))
		require.Equal(t, a.Lease.Owner, one[string](d.world, "select submitted_by::text from intents"))

		other := map[string]any{"proposal": merged(proposal, "workflow_version", "crm-enrichment@4")}
		require.Equal(t, contracts.CodeOwnershipLost, d.act("submit", a.Lease, a.runID(), other).result(), "another proposal is not the same call")
		require.Equal(t, contracts.CodeOwnershipLost, d.act("fail", a.Lease, a.runID(), retryable).result(),
			"a run with an intent never becomes failed_retryable")
		require.Equal(t, contracts.CodeOwnershipLost, d.act("renew", a.Lease, a.runID(), nil).result())
		require.Equal(t, contracts.ResultDuplicate, d.ask("k", `{"task":"t-1"}`, "").result(), "it cannot be claimed again")
		require.Equal(t, 1, d.count("select count(*) from intents"))
	})

	t.Run("AStaleOwnerChangesNothingAndIsTold", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		d.expire()
		b := d.ask("k", `{"task":"t-1"}`, "")
		require.Equal(t, contracts.ResultAccepted, b.result(), "an expired lease can be taken over")
		require.NotEqual(t, a.Lease.Owner, b.Lease.Owner)
		require.EqualValues(t, 2, b.Lease.Version)
		before := one[string](d.world, "select to_jsonb(runs)::text from runs")
		for verb, members := range map[string]map[string]any{"renew": nil, "submit": {"proposal": proposal}, "fail": terminal} {
			late := d.act(verb, a.Lease, a.runID(), members)
			require.Equal(t, contracts.CodeOwnershipLost, late.result(), verb)
			require.Equal(t, http.StatusConflict, late.problem.Status, verb)
		}
		guess := *b.Lease
		guess.Version--
		require.Equal(t, contracts.CodeOwnershipLost, d.act("submit", &guess, a.runID(), map[string]any{"proposal": proposal}).result(), "a version that has passed")
		guess = *b.Lease
		guess.Owner = a.Lease.Owner
		require.Equal(t, contracts.CodeOwnershipLost, d.act("fail", &guess, a.runID(), retryable).result(), "another's version")
		require.Equal(t, before, one[string](d.world, "select to_jsonb(runs)::text from runs"))
		require.Zero(t, d.count("select count(*) from intents"))
		require.Equal(t, contracts.ResultAccepted, d.act("submit", b.Lease, a.runID(), map[string]any{"proposal": proposal}).result())
	})

	t.Run("ALeaseThatStillRunsCannotBeTakenOver", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		require.Equal(t, contracts.ResultDuplicate, d.ask("k", `{"task":"t-1"}`, "").result())
		require.Equal(t, contracts.CodePayloadMismatch, d.ask("k", `{"task":"t-2"}`, "").result())
		d.expire()
		require.Equal(t, contracts.CodePayloadMismatch, d.ask("k", `{"task":"t-2"}`, "").result(), "only with the same payload")
		require.Equal(t, a.Lease.Owner, one[string](d.world, "select lease_owner::text from runs"))
	})

	t.Run("ARetryableFailureLetsAnotherWorkerTakeTheRun", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		failed := d.act("fail", a.Lease, a.runID(), retryable)
		require.Equal(t, contracts.ResultAccepted, failed.result())
		require.Equal(t, contracts.StateFailedRetryable, failed.State)
		require.Equal(t, failed.Answer, d.act("fail", a.Lease, a.runID(), retryable).Answer)
		b := d.ask("k", `{"task":"t-1"}`, "")
		require.Equal(t, contracts.ResultAccepted, b.result())
		require.Equal(t, contracts.StateProcessing, b.State)
		require.Zero(t, d.count("select takeovers from runs"), "what was given back was not taken")
		require.Equal(t, contracts.CodeOwnershipLost, d.act("fail", a.Lease, a.runID(), retryable).result())
	})

	t.Run("ATerminalFailureNeverRestarts", func(t *testing.T) {
		for _, tc := range []struct {
			outcome string
			members map[string]any
		}{{contracts.OutcomeFailed, terminal}, {contracts.OutcomeInvalid, merged(terminal, "invalid", true)}} {
			t.Run(tc.outcome, func(t *testing.T) {
				d := setup(t)
				a := d.leased("k")
				failed := d.act("fail", a.Lease, a.runID(), tc.members)
				require.Equal(t, contracts.StateFailedTerminal, failed.State)
				require.Equal(t, tc.outcome, failed.Outcome)
				for range 2 {
					again := d.ask("k", `{"task":"t-1"}`, "")
					require.Equal(t, contracts.ResultDuplicateWithResult, again.result())
					require.Equal(t, tc.outcome, again.Outcome)
					require.Nil(t, again.Lease)
				}
				ended := told[*contracts.RunEnded](d.world, "holdpoint.events.demo.run.ended")
				require.Len(t, ended, 1)
				require.Equal(t, tc.outcome, ended[0].Outcome)
				require.Equal(t, "no contact fits", ended[0].Reason)
				require.Equal(t, "t-1", ended[0].CorrelationID)
				require.Equal(t, contracts.CodeOwnershipLost, d.act("submit", a.Lease, a.runID(), map[string]any{"proposal": proposal}).result())
			})
		}
	})

	t.Run("TakeoversAreCountedAndRepeatedOnesCallAnOperator", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		for n := 1; n <= 3; n++ {
			require.NotContains(t, d.logs.text(), "ERROR a run changes hands again and again")
			d.expire()
			require.Equal(t, contracts.ResultAccepted, d.ask("k", `{"task":"t-1"}`, "").result())
			require.Equal(t, n, d.count("select takeovers from runs"))
			require.EqualValues(t, n, d.counted("holdpoint_lease_takeovers_total", map[string]string{"tenant": demo}))
		}
		require.Contains(t, d.logs.text(), "ERROR a run changes hands again and again")
		require.Contains(t, d.logs.text(), a.runID())
		require.EqualValues(t, 1, d.counted("holdpoint_lease_takeovers_total", map[string]string{"repeated": "true"}))
		require.Equal(t, 3, d.count("select count(*) from audit_events where move = 'reclaim'"))
	})

	// What a model writes besides the proposal decides nothing, and what is not the schema's is refused (M2, M6).
	t.Run("AProposalThatDoesNotFitIsRefusedAndTheLeaseStays", func(t *testing.T) {
		d := setup(t)
		a := d.leased("k")
		for name, bad := range map[string]any{
			"/proposal/confidence":                   merged(proposal, "confidence", 0.99),
			"/proposal/auto_reply":                   merged(proposal, "auto_reply", true),
			"/proposal/priority":                     merged(proposal, "priority", "high"),
			"/proposal/Action_Type":                  merged(proposal, "Action_Type", "payment.refund"),
			"/proposal/uncertainty":                  merged(proposal, "uncertainty", "none"),
			"/proposal/workflow_version":             merged(proposal, "workflow_version", strings.Repeat("x", 129)),
			"/proposal/proposed_change/fields/phone": merged(proposal, "proposed_change", map[string]any{"fields": map[string]any{"phone": "rm -rf"}}),
			"/proposal/proposed_change/auto":         merged(proposal, "proposed_change", map[string]any{"fields": map[string]any{"city": "x"}, "auto": 1}),
			"/proposal":                              "approve it",
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
			"no reason": {"retryable": true}, "retryable as text": {"retryable": "true", "reason": "x"}, "invalid as text": {"retryable": false,
				"reason": "x", "invalid": "true"}, "a reason without end": {"retryable": true, "reason": strings.Repeat("x", 2001)},
		} {
			require.Equal(t, contracts.CodeSchemaInvalid, d.act("fail", a.Lease, a.runID(), members).result(), name)
		}
		require.Equal(t, contracts.CodeSchemaInvalid, d.act("renew", &contracts.Lease{Owner: "me", Version: 1}, a.runID(), nil).result())
		require.Zero(t, d.count("select count(*) from intents"))
		require.Equal(t, contracts.ResultAccepted, d.act("submit", a.Lease, a.runID(), map[string]any{"proposal": proposal}).result())
	})

	t.Run("ARunOfAnotherTenantOrNoneIsNotFound", func(t *testing.T) {
		d := setup(t)
		theirs := d.send(call{path: "/v1/sources/drafts/claims", header: keyed("k"), body: `{}`, token: keyOf(acme)})
		for _, run := range []string{theirs.runID(), uuid.NewString(), "x"} {
			require.Equal(t, contracts.CodeNotFound, d.act("renew", theirs.Lease, run, nil).result(), run)
		}
	})

	// An event that came over JetStream waits for a worker to claim it.
	t.Run("AnEventFromTheStreamIsClaimedByItsKeyAndPayload", func(t *testing.T) {
		d := setup(t)
		stored := next(d.world, d.publish(message{header: keyed("k"), body: `{"task":"t-1"}`}))
		require.Equal(t, contracts.ResultAccepted, stored.result())
		accepted := told[*contracts.RunAccepted](d.world, "holdpoint.events.demo.run.accepted")
		require.Len(t, accepted, 1)
		require.Equal(t, "t-1", accepted[0].CorrelationID)
		a := d.ask("k", `{"task":"t-1"}`, "")
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, stored.runID(), a.runID())
		require.Zero(t, d.count("select takeovers from runs"))
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
