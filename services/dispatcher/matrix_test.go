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

// row is one line of the failure matrix as the sandbox plays it.
type row struct {
	name  string
	fault sandbox.Fault
	class outcome.Class
	// What follows for an effect that was never maybe sent before.
	state, hold string
	run         string
	writes      int
	alert       bool
	sent        bool // bytes left
}

func status(kind sandbox.Kind, code int, name string) sandbox.Fault {
	return sandbox.Fault{Kind: kind, Status: code, Code: name}
}

func redirect(code int) sandbox.Fault {
	return sandbox.Fault{Kind: sandbox.Redirect, Status: code, Location: "http://127.0.0.1:1/elsewhere?token=secret"}
}

// rows are the classes that the sandbox can play. Connections are warm, and the provider ignores keys: a second copy of any
// request would count (DSP-01).
var rows = []row{
	{"BusyWaits", sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "7"}, outcome.RejectedBusy, "pending", "", "approved", 0, false, true},
	{"BusyWithNonsenseWaits", sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "soon"}, outcome.RejectedBusy, "pending", "", "approved", 0, false, true},
	{"InFlightAtTheProviderIsUnknown", status(sandbox.ErrorBeforeAccept, 409, "idempotency_key_in_progress"), outcome.InProgress, "unknown", "", "approved", 0, false, true},
	{"ResetBeforeItWasTakenIsUnknown", sandbox.Fault{Kind: sandbox.ResetBeforeAccept}, outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"ResetAfterItWasTakenIsUnknown", sandbox.Fault{Kind: sandbox.AcceptThenReset}, outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"CutOffAnswerIsUnknown", sandbox.Fault{Kind: sandbox.TruncateBody}, outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"HungBeforeItWasTakenIsUnknown", sandbox.Fault{Kind: sandbox.HangBeforeAccept, Duration: ms(50)}, outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"HungAfterItWasTakenIsUnknown", sandbox.Fault{Kind: sandbox.AcceptThenHang, Duration: ms(50)}, outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"ServerErrorIsUnknown", status(sandbox.ErrorBeforeAccept, 500, ""), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"ServerErrorAfterItWasTakenIsUnknown", status(sandbox.ErrorAfterAccept, 500, ""), outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"BadGatewayIsUnknown", status(sandbox.ErrorAfterAccept, 502, ""), outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"BareUnavailableIsUnknown", status(sandbox.ErrorBeforeAccept, 503, ""), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"GatewayTimeoutIsUnknown", status(sandbox.ErrorAfterAccept, 504, ""), outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"UnlistedStatusIsUnknown", status(sandbox.ErrorBeforeAccept, 418, ""), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"ErrorInsideASuccessIsUnknown", status(sandbox.ErrorAfterAccept, 200, "not_ok"), outcome.Ambiguous, "unknown", "", "approved", 1, false, true},
	{"MovedPermanentlyIsNotFollowed", redirect(301), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"FoundIsNotFollowed", redirect(302), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"SeeOtherIsNotFollowed", redirect(303), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"TemporaryRedirectIsNotFollowed", redirect(307), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"PermanentRedirectIsNotFollowed", redirect(308), outcome.Ambiguous, "unknown", "", "approved", 0, false, true},
	{"AcceptedWaitsForTheProvider", status(sandbox.ErrorAfterAccept, 202, ""), outcome.Accepted, "accepted", "", "approved", 1, false, true},
	{"MalformedIsFinal", status(sandbox.ErrorBeforeAccept, 400, ""), outcome.Refused, "failed", "", "failed_terminal", 0, false, true},
	{"NotThereIsFinal", status(sandbox.ErrorBeforeAccept, 404, ""), outcome.Refused, "failed", "", "failed_terminal", 0, false, true},
	{"GoneIsFinal", status(sandbox.ErrorBeforeAccept, 410, ""), outcome.Refused, "failed", "", "failed_terminal", 0, false, true},
	{"InvalidIsFinal", status(sandbox.ErrorBeforeAccept, 422, ""), outcome.Refused, "failed", "", "failed_terminal", 0, false, true},
	{"VersionConflictGoesBackToPeople", status(sandbox.ErrorBeforeAccept, 412, ""), outcome.VersionConflict, "held", "review", "awaiting_human", 0, false, true},
	{"ConflictGoesBackToPeople", status(sandbox.ErrorBeforeAccept, 409, ""), outcome.VersionConflict, "held", "review", "awaiting_human", 0, false, true},
	{"UnauthorizedIsHeld", status(sandbox.ErrorBeforeAccept, 401, ""), outcome.Unauthorized, "held", "unauthorized", "approved", 0, true, true},
	{"ForbiddenIsHeld", status(sandbox.ErrorBeforeAccept, 403, ""), outcome.Unauthorized, "held", "unauthorized", "approved", 0, true, true},
	{"ReusedKeyIsAnIncident", status(sandbox.ErrorBeforeAccept, 422, "idempotency_key_reused"), outcome.KeyReused, "held", "incident", "approved", 0, true, true},
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
			b.Fault(sandbox.Match{System: sandbox.CRM, Operation: sandbox.Update, PathPrefix: "/crm/contacts/c-" + r.name}, r.fault)
			b.Authorize(b.Contact(r.name))
			b.request(r.name)

			attempts := b.Attempts(r.name)
			require.Len(t, attempts, 1)
			require.Equal(t, string(r.class), attempts[0].Class, attempts[0].Detail)
			require.Equal(t, r.sent, attempts[0].Sent)
			require.NotEmpty(t, attempts[0].Digest)
			require.NotContains(t, attempts[0].Detail, "secret")
			e := b.Look(r.name)
			require.Equal(t, r.state, e.State)
			require.Equal(t, r.hold, e.HoldReason)
			require.Equal(t, r.class.MaybeSent(), e.MaybeSent)
			require.Equal(t, r.run, b.World.Run(r.name).State)
			require.Len(t, b.Writes(r.name), r.writes)
			require.Equal(t, r.alert, len(b.alerts(r.name)) > 0, b.alerts(r.name))
		})
	}
}

// TestMatrixOfTheMaybeSent plays every row for an effect whose first answer was lost: a later refusal or conflict may be
// the echo of our own write, so only success and acceptance count (D6).
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
			require.Equal(t, r.alert, len(b.alerts(r.name)) > 0, b.alerts(r.name))
		})
	}

	t.Run("SuccessCounts", func(t *testing.T) {
		t.Parallel()
		b := b.forCase(t)
		b.Fault(sandbox.Match{Operation: sandbox.Update, PathPrefix: "/crm/contacts/c-ok", Nth: 1}, sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
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
		require.Equal(t, servicetest.Effect("k").OperationID(), writes[0].IdempotencyKey, "the key derives from the operation id (D2)")
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
		require.Equal(t, 1, b.Count(`select count(*) from effects where next_check_at - unknown_since = $1`, servicetest.IndexLag))
	})

	t.Run("AWriteThatTheProviderTakesAfterWeGaveUpIsUnknown", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c, servicetest.CRM).Timeout = 300 * time.Millisecond
		}))
		b.Fault(updates, sandbox.Fault{Kind: sandbox.Delay, Duration: ms(500)})
		b.Authorize(b.Contact("k"))
		b.request()
		require.Equal(t, string(outcome.Ambiguous), b.Attempts("k")[0].Class)
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		_, err := b.Sandbox.AwaitWrites(t.Context(), sandbox.Filter{Reference: servicetest.Effect("k").OperationID()}, 1)
		require.NoError(t, err)
	})
}
