package dispatcher

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// row is one way in which the sandbox plays a class of the failure matrix. writes is how many writes it then holds.
type row struct {
	name   string
	class  outcome.Class
	writes int
	fault  sandbox.Fault
}

// follows is the right-hand column of the matrix, for an effect that was never maybe sent before.
var follows = map[outcome.Class]struct {
	state, hold, run string
	alert            bool
}{
	outcome.RejectedBusy:    {"pending", "", "approved", false},
	outcome.InProgress:      {"unknown", "", "approved", false},
	outcome.Ambiguous:       {"unknown", "", "approved", false},
	outcome.Accepted:        {"accepted", "", "approved", false},
	outcome.Refused:         {"failed", "", "failed_terminal", false},
	outcome.VersionConflict: {"held", "review", "awaiting_human", false},
	outcome.Unauthorized:    {"held", "unauthorized", "approved", true},
	outcome.KeyReused:       {"held", "incident", "approved", true},
}

func status(kind sandbox.Kind, code int, name string) sandbox.Fault {
	return sandbox.Fault{Kind: kind, Status: code, Code: name}
}

func refuses(code int) sandbox.Fault { return status(sandbox.ErrorBeforeAccept, code, "") }

func redirect(code int) sandbox.Fault {
	return sandbox.Fault{Kind: sandbox.Redirect, Status: code, Location: "http://127.0.0.1:1/elsewhere?token=secret"}
}

// rows are the classes that the sandbox can play; not_sent and succeeded have tests of their own. Connections are
// warm, and the provider ignores keys: a second copy of any request would count (DSP-01).
var rows = []row{
	{"BusyWaits", outcome.RejectedBusy, 0, sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "7"}},
	{"BusyWithNonsenseWaits", outcome.RejectedBusy, 0, sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "soon"}},
	{"InFlightAtTheProviderIsUnknown", outcome.InProgress, 0,
		status(sandbox.ErrorBeforeAccept, 409, "idempotency_key_in_progress")},
	{"ResetBeforeItWasTakenIsUnknown", outcome.Ambiguous, 0, sandbox.Fault{Kind: sandbox.ResetBeforeAccept}},
	{"ResetAfterItWasTakenIsUnknown", outcome.Ambiguous, 1, sandbox.Fault{Kind: sandbox.AcceptThenReset}},
	{"CutOffAnswerIsUnknown", outcome.Ambiguous, 1, sandbox.Fault{Kind: sandbox.TruncateBody}},
	{"HungBeforeItWasTakenIsUnknown", outcome.Ambiguous, 0, sandbox.Fault{Kind: sandbox.HangBeforeAccept,
		Duration: ms(50)}},
	{"HungAfterItWasTakenIsUnknown", outcome.Ambiguous, 1, sandbox.Fault{Kind: sandbox.AcceptThenHang, Duration: ms(50)}},
	{"ServerErrorIsUnknown", outcome.Ambiguous, 0, refuses(500)},
	{"ServerErrorAfterItWasTakenIsUnknown", outcome.Ambiguous, 1, status(sandbox.ErrorAfterAccept, 500, "")},
	{"BadGatewayIsUnknown", outcome.Ambiguous, 1, status(sandbox.ErrorAfterAccept, 502, "")},
	{"BareUnavailableIsUnknown", outcome.Ambiguous, 0, refuses(503)},
	{"GatewayTimeoutIsUnknown", outcome.Ambiguous, 1, status(sandbox.ErrorAfterAccept, 504, "")},
	{"UnlistedStatusIsUnknown", outcome.Ambiguous, 0, refuses(418)},
	{"ErrorInsideASuccessIsUnknown", outcome.Ambiguous, 1, status(sandbox.ErrorAfterAccept, 200, "not_ok")},
	{"MovedPermanentlyIsNotFollowed", outcome.Ambiguous, 0, redirect(301)},
	{"FoundIsNotFollowed", outcome.Ambiguous, 0, redirect(302)},
	{"SeeOtherIsNotFollowed", outcome.Ambiguous, 0, redirect(303)},
	{"TemporaryRedirectIsNotFollowed", outcome.Ambiguous, 0, redirect(307)},
	{"PermanentRedirectIsNotFollowed", outcome.Ambiguous, 0, redirect(308)},
	{"AcceptedWaitsForTheProvider", outcome.Accepted, 1, status(sandbox.ErrorAfterAccept, 202, "")},
	{"MalformedIsFinal", outcome.Refused, 0, refuses(400)},
	{"NotThereIsFinal", outcome.Refused, 0, refuses(404)},
	{"GoneIsFinal", outcome.Refused, 0, refuses(410)},
	{"InvalidIsFinal", outcome.Refused, 0, refuses(422)},
	{"VersionConflictGoesBackToPeople", outcome.VersionConflict, 0, refuses(412)},
	{"ConflictGoesBackToPeople", outcome.VersionConflict, 0, refuses(409)},
	{"UnauthorizedIsHeld", outcome.Unauthorized, 0, refuses(401)},
	{"ForbiddenIsHeld", outcome.Unauthorized, 0, refuses(403)},
	{"ReusedKeyIsAnIncident", outcome.KeyReused, 0, status(sandbox.ErrorBeforeAccept, 422, "idempotency_key_reused")},
}

func ms(n int) sandbox.Duration { return sandbox.Duration(time.Duration(n) * time.Millisecond) }

var updates = sandbox.Match{System: sandbox.CRM, Operation: sandbox.Update}

// forget has the provider write again for every copy of a request, whatever its key.
func (b *bench) forget() {
	b.t.Helper()
	require.NoError(b.t, b.Sandbox.SetPersonality(b.t.Context(), sandbox.CRM, sandbox.Personality{IgnoreKeys: true}))
}

// TestMatrix plays every row for an effect that was never sent before.
func TestMatrix(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.forget()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := b.forCase(t)
			b.Fault(sandbox.Match{System: sandbox.CRM, Operation: sandbox.Update, PathPrefix: "/crm/contacts/c-" + r.name},
				r.fault)
			b.Authorize(b.Contact(r.name))
			b.request(r.name)

			attempts := b.Attempts(r.name)
			require.Len(t, attempts, 1)
			require.Equal(t, string(r.class), attempts[0].Class, attempts[0].Detail)
			require.True(t, attempts[0].Sent)
			require.NotEmpty(t, attempts[0].Digest)
			require.NotContains(t, attempts[0].Detail, "secret")
			e, want := b.Look(r.name), follows[r.class]
			require.Equal(t, want.state, e.State)
			require.Equal(t, want.hold, e.HoldReason)
			require.Equal(t, r.class.MaybeSent(), e.MaybeSent)
			require.Equal(t, want.run, b.World.Run(r.name).State)
			require.Len(t, b.Writes(r.name), r.writes)
			require.Equal(t, want.alert, len(b.alerts(r.name)) > 0, b.alerts(r.name))
		})
	}
}

// TestMatrixOfTheMaybeSent plays every row for an effect whose first answer was lost: a later refusal or conflict may
// be the echo of our own write, so only success and acceptance count (D6).
func TestMatrixOfTheMaybeSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.forget()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := b.forCase(t)
			match := sandbox.Match{System: sandbox.CRM, Operation: sandbox.Update, PathPrefix: "/crm/contacts/c-" + r.name}
			first, second := match, match
			first.Nth, second.Nth = 1, 2
			b.Fault(first, sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
			b.Fault(second, r.fault)
			b.Authorize(b.Contact(r.name))
			b.maybeSent(r.name)
			b.request(r.name)

			attempts := b.Attempts(r.name)
			require.Len(t, attempts, 2)
			require.Equal(t, string(r.class), attempts[1].Class, attempts[1].Detail)
			require.Equal(t, attempts[0].Digest, attempts[1].Digest)
			e := b.Look(r.name)
			require.True(t, e.MaybeSent)
			if r.class == outcome.Accepted {
				require.Equal(t, ledger.EffectAccepted, e.State)
			} else {
				require.Equal(t, ledger.EffectUnknown, e.State)
			}
			require.Equal(t, ledger.RunApproved, b.World.Run(r.name).State)
			require.Equal(t, follows[r.class].alert, len(b.alerts(r.name)) > 0, b.alerts(r.name))
		})
	}

	t.Run("SuccessCounts", func(t *testing.T) {
		t.Parallel()
		b := b.forCase(t)
		b.Fault(sandbox.Match{Operation: sandbox.Update, PathPrefix: "/crm/contacts/c-ok", Nth: 1},
			sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
		b.Authorize(b.Contact("ok"))
		b.maybeSent("ok")
		b.request("ok")
		require.Equal(t, ledger.EffectCompleted, b.Look("ok").State)
		require.Equal(t, ledger.RunCompleted, b.World.Run("ok").State)
		require.Len(t, b.Writes("ok"), 1)
	})
}

func TestSuccess(t *testing.T) {
	t.Parallel()

	t.Run("TheProvidersIdAndTheEndOfTheRunAreOneCommit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.request()
		writes := b.Writes("k")
		require.Len(t, writes, 1)
		require.Equal(t, servicetest.Effect("k").OperationID(), writes[0].IdempotencyKey,
			"the key derives from the operation id (D2)")
		attempts := b.Attempts("k")
		require.Equal(t, "succeeded", attempts[0].Class)
		require.Equal(t, http.StatusOK, attempts[0].HTTPStatus)
		require.Equal(t, writes[0].UpdateID, attempts[0].ExternalID)
		require.Equal(t, writes[0].RequestID, attempts[0].RequestID)
		run := b.World.Run("k")
		require.Equal(t, ledger.OutcomeExecuted, run.Outcome)
		require.Equal(t, writes[0].UpdateID, run.Effects[0].ExternalID)
		require.Equal(t, "2", b.Text(`select record_version from effects`))
		require.Equal(t, 1, b.Count(`select count(*) from event_log where subject like '%.run.completed'`))
		require.Equal(t, 1, b.Count(`select count(distinct xmin::text) from (
  select xmin from effects union all select xmin from runs union all select xmin from effect_attempts
  union all select xmin from event_log where subject like '%.run.completed') t`), "all in one transaction")
		require.Empty(t, b.Logs.Errors())
	})

	t.Run("WhatIsVerifiedWaitsForTheReadOfItsTarget", func(t *testing.T) { // R7
		t.Parallel()
		b := setup(t, servicetest.WithConfig(servicetest.Verified))
		b.Authorize(b.Contact("k"))
		b.request()
		require.Len(t, b.Writes("k"), 1)
		e := b.Look("k")
		require.Equal(t, ledger.EffectAccepted, e.State)
		require.Equal(t, b.Writes("k")[0].UpdateID, e.ExternalID, "the provider's id is in the first commit (D7)")
		require.Equal(t, "2", e.RecordVersion)
		require.False(t, e.SucceededAt.IsZero())
		require.Equal(t, ledger.RunApproved, b.World.Run("k").State)
		require.Zero(t, b.Count(`select count(*) from event_log where subject like '%.run.completed'`))
	})

	t.Run("AnAcceptanceHasADeadline", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Fault(updates, status(sandbox.ErrorAfterAccept, 202, ""))
		b.Authorize(b.Contact("k"))
		b.request()
		require.Equal(t, 1, b.Count(`select count(*) from effects where state = 'accepted'
  and next_check_at between clock_timestamp() + interval '4 minutes' and clock_timestamp() + interval '5 minutes'`))
	})

	t.Run("ARefusalTellsWhoeverAsked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Fault(updates, status(sandbox.ErrorBeforeAccept, 422, "invalid_fields"))
		b.Authorize(b.Contact("k"))
		b.request()
		run := b.World.Run("k")
		require.Equal(t, ledger.OutcomeFailed, run.Outcome)
		require.Contains(t, run.OutcomeReason, "HTTP 422")
		require.Equal(t, 1, b.Count(`select count(*) from event_log where subject like '%.run.ended'`))
		b.Heal()
		b.again()
		b.request()
		require.Len(t, b.Attempts("k"), 1, "a definite refusal ends the intent (D8)")
	})

	t.Run("AnUnknownIsLookedUpWhenTheIndexCanKnow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Fault(updates, sandbox.Fault{Kind: sandbox.AcceptThenReset})
		b.Authorize(b.Contact("k"))
		b.request()
		e := b.Look("k")
		require.Equal(t, ledger.EffectUnknown, e.State)
		require.Equal(t, 1, b.Count(`select count(*) from effects where next_check_at - unknown_since = $1`,
			servicetest.IndexLag))
	})

	t.Run("AWriteThatTheProviderTakesAfterWeGaveUpIsUnknown", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c, servicetest.CRM).Timeout = 2 * time.Second
		}))
		b.Fault(updates, sandbox.Fault{Kind: sandbox.Delay, Duration: ms(3000)})
		b.Authorize(b.Contact("k"))
		b.request()
		require.Equal(t, string(outcome.Ambiguous), b.Attempts("k")[0].Class)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		_, err := b.Sandbox.AwaitWrites(t.Context(), sandbox.Filter{Reference: servicetest.Effect("k").OperationID()}, 1)
		require.NoError(t, err)
	})
}
