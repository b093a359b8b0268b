package dispatcher

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
	"github.com/holdpoint/holdpoint/services/reconciler"
)

// receiptCase is what a receipt of one status comes to, with leave and without.
type receiptCase struct {
	status       outcome.Class
	state, hold  string
	class        string // of the attempt as it is stored; "" leaves it open for another receipt
	sent         bool
	maybe        bool
	withoutLeave bool
	says         string
}

var receiptCases = []receiptCase{
	{status: outcome.Succeeded, state: ledger.EffectCompleted, class: "succeeded", sent: true, maybe: true},
	{status: outcome.Accepted, state: ledger.EffectAccepted, maybe: true},
	{status: outcome.Refused, state: ledger.EffectFailed, class: "refused", sent: true},
	{status: outcome.NotSent, state: ledger.EffectPending, class: "not_sent"},
	{status: outcome.RejectedBusy, state: ledger.EffectPending, class: "rejected_busy", sent: true},
	{status: outcome.VersionConflict, state: ledger.EffectHeld, hold: ledger.HoldReview, class: "version_conflict", sent: true},
	{status: outcome.Unauthorized, state: ledger.EffectHeld, hold: ledger.HoldUnauthorized, class: "unauthorized", sent: true},
	{status: outcome.KeyReused, state: ledger.EffectHeld, hold: ledger.HoldIncident, class: "key_reused", sent: true},
	{status: outcome.Ambiguous, state: ledger.EffectUnknown, maybe: true},
	{status: outcome.NotSent, state: ledger.EffectPending, class: "not_sent", withoutLeave: true},
	{status: outcome.Refused, state: ledger.EffectFailed, class: "refused", withoutLeave: true},
	{status: outcome.Succeeded, state: ledger.EffectCompleted, class: "succeeded", sent: true, maybe: true, withoutLeave: true,
		says: "without having asked leave"},
}

func TestReceipt(t *testing.T) {
	t.Parallel()

	t.Run("EveryStatusIsAClass", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		covered := map[outcome.Class]bool{}
		for _, c := range receiptCases {
			key := string(c.status)
			if c.withoutLeave {
				key += "-without-leave"
			}
			covered[c.status] = true
			d.offer(key)
			command := d.command()
			token := command.Token
			if !c.withoutLeave {
				token = d.granted(command).Token
			}
			d.recorded(contracts.Receipt{Token: token, Status: string(c.status), Detail: "a\ttest\u202e"})
			e, attempt := d.Look(key), d.Attempts(key)[0]
			require.Equal(t, c.state, e.State, key)
			require.Equal(t, c.hold, e.HoldReason, key)
			require.Equal(t, c.class, attempt.Class, key)
			require.Equal(t, c.sent, attempt.Sent, key)
			require.Equal(t, c.maybe, e.MaybeSent, key)
			if c.class != "" {
				require.Contains(t, attempt.Detail, "a test ", "%s: printable", key)
				require.Contains(t, attempt.Detail, c.says, key)
			}
			require.False(t, d.leave(command).Granted, key)
		}
		require.Len(t, covered, len(connector.Receipts))
		d.inFlight.Wait()
	})

	t.Run("ItCanSayWhenToTryAgain", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		d.recorded(contracts.Receipt{Token: d.granted(d.command()).Token, Status: "rejected_busy", RetryAfterSeconds: 3600})
		require.Equal(t, 1, d.Count(`select count(*) from effects where next_check_at > clock_timestamp() + interval '4 minutes'`))
	})

	t.Run("WhatIsNotReadableIsAProblemAndUsesUpNothing", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		command := d.command()
		leave, receipt := bus.APISubject("demo", "leave."+warehouseID), bus.APISubject("demo", "receipt."+warehouseID)
		quoted := `"` + command.Token + `"`
		for _, c := range []struct{ subject, body, code string }{
			{leave, `{`, contracts.CodeMalformed},
			{leave, `[]`, contracts.CodeSchemaInvalid},
			{leave, `{}`, contracts.CodeForbidden},
			{leave, `{"token":7}`, contracts.CodeSchemaInvalid},
			{leave, `{"Token":` + quoted + `}`, contracts.CodeSchemaInvalid},
			{leave, `{"token":` + quoted + `,"status":"succeeded"}`, contracts.CodeSchemaInvalid},
			{leave, `{"token":"x"}`, contracts.CodeForbidden},
			{leave, `{"token":"` + strings.Repeat("x", maxWords) + `"}`, contracts.CodeTooLarge},
			{receipt, `{"token":` + quoted + `}`, contracts.CodeSchemaInvalid},
			{receipt, `{"token":` + quoted + `,"status":"done"}`, contracts.CodeSchemaInvalid},
			{receipt, `{"token":` + quoted + `,"status":"in_progress_at_provider"}`, contracts.CodeSchemaInvalid},
			{receipt, `{"token":` + quoted + `,"status":"not_sent","retry_after_seconds":-1}`, contracts.CodeSchemaInvalid},
			{receipt, `{"token":` + quoted + `,"status":"succeeded","external_id":"` + longText + `"}`, contracts.CodeSchemaInvalid},
			{bus.APISubject("demo", "leave."+servicetest.CRM), `{"token":` + quoted + `}`, contracts.CodeNotFound},
			{bus.APISubject("demo", "leave.nowhere"), `{"token":` + quoted + `}`, contracts.CodeNotFound},
		} {
			got, err := ask[contracts.Leave](d.nc, c.subject, json.RawMessage(c.body))
			if err != nil { // the body is no JSON that could be sent as such
				msg, err := d.nc.Request(c.subject, []byte(c.body), servicetest.Patience)
				require.NoError(t, err)
				got.problem = new(contracts.Problem)
				require.NoError(t, json.Unmarshal(msg.Data, got.problem))
			}
			require.NotNil(t, got.problem, c.body)
			require.Equal(t, c.code, got.code(), "%s: %s", c.body, got.problem.Detail)
		}
		d.recorded(contracts.Receipt{Token: d.granted(command).Token, Status: "succeeded"})
	})

	t.Run("ATokenIsGoodForItsOwnTenantAndConnectorAlone", func(t *testing.T) {
		t.Parallel()
		second := func(w *servicetest.World) {
			demo := *w.Config.Tenants[0]
			demo.Connectors = append(demo.Connectors, otherExecutor("annex"))
			other := demo
			other.ID = "other"
			w.Config.Tenants = []*config.Tenant{&demo, &other}
		}
		d := newDepotWith(t, second)
		d.offer("k")
		command := d.command()
		for _, place := range []struct{ tenant, connector string }{{"other", warehouseID}, {"demo", "annex"}} {
			for _, receipt := range []contracts.Receipt{{}, {Status: "succeeded"}} {
				verb, body := "leave.", any(contracts.LeaveRequest{Token: command.Token})
				if receipt.Status != "" {
					receipt.Token = command.Token
					verb, body = "receipt.", any(receipt)
				}
				got, err := ask[contracts.Leave](d.nc, bus.APISubject(place.tenant, verb+place.connector), body)
				require.NoError(t, err)
				require.Equal(t, contracts.CodeForbidden, got.code())
			}
		}
		token := d.granted(command).Token
		d.recorded(contracts.Receipt{Token: token, Status: "succeeded"})
		d.inFlight.Wait()
		got, err := ask[contracts.Leave](d.nc, bus.APISubject("other", "receipt."+warehouseID),
			contracts.Receipt{Token: token, Status: "refused"})
		require.NoError(t, err)
		require.Equal(t, contracts.CodeForbidden, got.code(), "also when the call is over")
	})
}

var longText = strings.Repeat("x", maxID+1)

func otherExecutor(id string) *config.Connector {
	return &config.Connector{ID: id, Kind: config.ConnectorExecutor, Concurrency: 1,
		Operations: []*config.Operation{{Name: "reserve", Kind: config.OperationCreate}}}
}

// reconcile runs a reconciler until the effect of a key is in a state.
func (d *depot) reconcile(key, state string) {
	d.t.Helper()
	r, err := reconciler.New(d.t.Context(), d.Env(ledger.Reconciler), reconciler.Settings{Addr: "127.0.0.1:0"})
	require.NoError(d.t, err)
	stop := d.Start(r)
	d.Eventually(func() bool { return d.Look(key).State == state }, key+" is "+state)
	require.NoError(d.t, stop())
}

// TestLateReceipt is D7 for executors: what comes late is kept, and success completes what was unknown.
func TestLateReceipt(t *testing.T) {
	t.Parallel()

	t.Run("AfterTheDispatcherGaveUpSuccessCompletesTheRun", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(20*time.Millisecond))
		d.offer("k")
		leave := d.granted(d.command())
		d.inFlight.Wait()
		d.reconcile("k", ledger.EffectUnknown)
		receipt := contracts.Receipt{Token: leave.Token, Status: "succeeded", ExternalID: "res-1"}
		d.recorded(receipt)
		d.recorded(receipt)
		require.Equal(t, "succeeded", d.Attempts("k")[0].Class)
		require.Len(t, d.Attempts("k")[0].Digest, 32)
		require.True(t, d.Look("k").UnreadOutcome)
		d.reconcile("k", ledger.EffectCompleted)
		require.Equal(t, "res-1", d.Look("k").ExternalID)
	})

	t.Run("AfterAcceptanceSuccessCompletesTheRun", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t)
		d.offer("k")
		leave := d.granted(d.command())
		for range 2 {
			d.recorded(contracts.Receipt{Token: leave.Token, Status: "accepted", ExternalID: "job-1"})
			d.inFlight.Wait()
		}
		require.Equal(t, ledger.EffectAccepted, d.Look("k").State)
		require.Equal(t, "job-1", d.Look("k").ExternalID)
		d.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded", ExternalID: "res-1"})
		d.reconcile("k", ledger.EffectCompleted)
		require.Equal(t, "res-1", d.Look("k").ExternalID)
	})

	t.Run("ThatNothingWasWrittenIsKeptAndSendsNothing", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(20*time.Millisecond))
		d.offer("k")
		leave := d.granted(d.command())
		d.inFlight.Wait()
		d.recorded(contracts.Receipt{Token: leave.Token, Status: "not_sent"})
		d.again()
		require.Equal(t, "not_sent", d.Attempts("k")[0].Class)
		require.Equal(t, ledger.EffectUnknown, d.Look("k").State)
		require.Len(t, d.Attempts("k"), 1)
	})

	t.Run("OfAnEarlierAttemptItIsKeptAsWell", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, replays, reportWithin(20*time.Millisecond))
		d.offer("k")
		first := d.granted(d.command())
		d.inFlight.Wait()
		d.repeat("k")
		d.patient(replays).pollNow()
		second := d.granted(d.command())
		d.recorded(contracts.Receipt{Token: first.Token, Status: "succeeded", ExternalID: "res-1"})
		require.Equal(t, "succeeded", d.Attempts("k")[0].Class)
		require.Equal(t, ledger.EffectSending, d.Look("k").State, "the second attempt has the effect")
		d.recorded(contracts.Receipt{Token: second.Token, Status: "succeeded", ExternalID: "res-1"})
		require.Equal(t, ledger.EffectCompleted, d.Look("k").State)
	})

	t.Run("ATokenThatIsMadeUpStoresNothing", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(20*time.Millisecond))
		d.offer("k")
		granted, err := parseToken(d.granted(d.command()).Token)
		require.NoError(t, err)
		d.inFlight.Wait()
		for name, change := range map[string]func(*token){
			"Owner":     func(t *token) { t.owner = uuid.New() },
			"Attempt":   func(t *token) { t.attempt = 2 },
			"Operation": func(t *token) { t.operation = servicetest.Effect("nothing").OperationID() },
		} {
			forged := granted
			change(&forged)
			got := d.tell(contracts.Receipt{Token: forged.String(), Status: "succeeded"})
			require.Equal(t, contracts.CodeForbidden, got.code(), name)
		}
		require.Empty(t, d.Attempts("k")[0].Class)
		require.False(t, d.Look("k").UnreadOutcome)
	})

	t.Run("WithoutPostgresItIsToBeSentAgain", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, reportWithin(20*time.Millisecond))
		d.offer("k")
		leave := d.granted(d.command())
		d.inFlight.Wait()
		d.Exec(`revoke select on effects from holdpoint_dispatcher`)
		got := d.tell(contracts.Receipt{Token: leave.Token, Status: "succeeded"})
		require.Equal(t, contracts.CodeUnavailable, got.code())
		d.Exec(`grant select on effects to holdpoint_dispatcher`)
		d.recorded(contracts.Receipt{Token: leave.Token, Status: "succeeded"})
	})
}
