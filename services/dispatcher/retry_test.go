package dispatcher

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
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

// unreachable points the CRM connector at a port where nobody listens.
func unreachable(t *testing.T) func(*config.Tenant) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return func(c *config.Tenant) {
		crm := servicetest.Connector(c, servicetest.CRM)
		crm.BaseURL, crm.AllowedHosts = "http://"+listener.Addr().String(), nil
	}
}

func backoff(b config.Backoff) func(*config.Tenant) {
	return func(c *config.Tenant) { servicetest.Connector(c, servicetest.CRM).Backoff = b }
}

func withoutRead(c *config.Tenant) { servicetest.Operation(c, servicetest.CRM).Read = nil }

// TestRetry is about effects that were certainly not sent.
func TestRetry(t *testing.T) {
	t.Parallel()
	world := setup(t)
	run := func(name string, test func(*bench, string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(world.forCase(t), name)
		})
	}

	run("AConnectionThatIsRefusedWasNotSent", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.with(unreachable(b.t), withoutRead).request(key)
		attempts := b.Attempts(key)
		require.Equal(b.t, string(outcome.NotSent), attempts[0].Class)
		require.Contains(b.t, attempts[0].Detail, "refused")
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectPending, e.State)
		require.False(b.t, e.MaybeSent)
		b.due(key)
		b.request(key)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})

	run("ATargetThatCannotBeReadIsTriedAgain", func(b *bench, key string) {
		b.Fault(sandbox.Match{Operation: sandbox.Read, PathPrefix: "/crm/contacts/c-" + key, Count: 1},
			status(sandbox.ErrorBeforeAccept, 500, ""))
		b.Authorize(b.Contact(key))
		b.request(key)
		require.Equal(b.t, string(outcome.NotSent), b.Attempts(key)[0].Class)
		b.requireNothingSent(key)
		b.due(key)
		b.request(key)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
	})

	t.Run("RetryAfterIsHonoured", func(t *testing.T) {
		t.Parallel()
		const key = "RetryAfterIsHonoured"
		b := setup(t) // its poll would take up what other cases have just authorized
		b.Fault(sandbox.Match{PathPrefix: "/crm/contacts/c-" + key, Operation: sandbox.Update},
			sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "90"})
		b.Authorize(b.Contact(key))
		b.request(key)
		require.Equal(b.t, 1, b.Count(`select count(*) from effects where run_id = $1
  and next_check_at - updated_at between interval '90 seconds' and interval '91 seconds'`,
			servicetest.Effect(key).RunID))
		b.look()
		b.request(key)
		require.Len(b.t, b.Attempts(key), 1, "neither the poll nor a repeated event comes before the time")
	})

	run("WithoutAUsableRetryAfterTheBackoffDecides", func(b *bench, key string) {
		b.Fault(sandbox.Match{PathPrefix: "/crm/contacts/c-" + key, Operation: sandbox.Update},
			sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "-1"})
		b.Authorize(b.Contact(key))
		b.request(key)
		require.Equal(b.t, 1, b.Count(`select count(*) from effects where run_id = $1
  and next_check_at - updated_at <= interval '4 milliseconds'`, servicetest.Effect(key).RunID))
	})

	run("WhenAttemptsAreUsedUpItIsHeldAndTheRunStaysApproved", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		d := b.with(unreachable(b.t), withoutRead, backoff(config.Backoff{Base: time.Millisecond, Cap: time.Millisecond,
			Attempts: 2, Total: time.Hour}))
		d.request(key)
		require.Equal(b.t, ledger.EffectPending, b.Look(key).State)
		b.due(key)
		d.request(key)
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectHeld, e.State)
		require.Equal(b.t, ledger.HoldExhausted, e.HoldReason)
		require.Equal(b.t, ledger.RunApproved, b.World.Run(key).State)
		require.Len(b.t, b.alerts(key), 1, "one alert")
	})

	run("TimeInTheQueueIsNotTimeOfTrying", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		b.Exec(`update effects set created_at = created_at - interval '2 hours' where run_id = $1`,
			servicetest.Effect(key).RunID)
		b.with(unreachable(b.t), withoutRead).request(key)
		require.Equal(b.t, ledger.EffectPending, b.Look(key).State, "its patience begins with the first attempt")
	})

	run("TheTotalTimeEndsToo", func(b *bench, key string) {
		b.Authorize(b.Contact(key))
		d := b.with(unreachable(b.t), withoutRead)
		d.request(key)
		b.Exec(`update effect_attempts set started_at = started_at - interval '2 hours' where run_id = $1`,
			servicetest.Effect(key).RunID)
		b.due(key)
		d.request(key)
		require.Equal(b.t, ledger.HoldExhausted, b.Look(key).HoldReason)
	})
}

// TestSameKeySameBytes is DSP-04.
func TestSameKeySameBytes(t *testing.T) {
	t.Parallel()

	t.Run("EveryAttemptSendsTheSame", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.forget()
		b.Fault(sandbox.Match{Operation: sandbox.Update, Count: 2}, sandbox.Fault{Kind: sandbox.RateLimit})
		b.Fault(sandbox.Match{Operation: sandbox.Update, Nth: 3}, sandbox.Fault{Kind: sandbox.AcceptThenReset})
		b.Authorize(b.Contact("k", func(p *servicetest.Proposal) {
			p.ProposedChange = map[string]any{"fields": map[string]string{"phone": "+1 2345678", "city": "Łódź"}}
		}))
		b.request()
		b.again()
		b.again()
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
		require.NoError(t, b.Sandbox.SetPersonality(t.Context(), sandbox.CRM,
			sandbox.Personality{IgnoreKeys: true, LaxVersions: true}))
		b.repeat("k")
		b.look()
		attempts := b.Attempts("k")
		require.Len(t, attempts, 4)
		for _, a := range attempts {
			require.Equal(t, attempts[0].Digest, a.Digest, "attempt %d", a.Attempt)
		}
		for _, w := range b.Writes("k") {
			require.Equal(t, b.Writes("k")[0].BodySHA256, w.BodySHA256)
			require.Equal(t, servicetest.Effect("k").OperationID(), w.IdempotencyKey)
		}
	})

	for name, change := range map[string]func(*config.Tenant){
		"AChangedBodyStopsForAPerson": func(c *config.Tenant) {
			op := servicetest.Operation(c, servicetest.CRM)
			op.Body = map[string]any{"reference": "${operation_id}", "fields": "${proposed_change.fields}", "note": "new"}
		},
		"AChangedPathStopsForAPerson": func(c *config.Tenant) {
			servicetest.Operation(c, servicetest.CRM).Path = "/crm/contacts/${target.record_id}?v=2"
		},
		"AChangedHeaderStopsForAPerson": func(c *config.Tenant) {
			servicetest.Operation(c, servicetest.CRM).IdempotencyHeader = "X-Idempotency-Key"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Fault(sandbox.Match{Operation: sandbox.Update, Nth: 1}, sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
			b.Authorize(b.Contact("k"))
			b.maybeSent("k")
			b.with(change).look()
			e := b.Look("k")
			require.Equal(t, ledger.EffectHeld, e.State)
			require.Equal(t, ledger.HoldIncident, e.HoldReason)
			require.Empty(t, b.Writes("k"))
			require.Equal(t, string(outcome.NotSent), b.Attempts("k")[1].Class)
			require.Len(t, b.alerts("k"), 1)
		})
	}
}

// TestSameKeySameBytesAfterADeath: an attempt whose process died told nobody what it sent. It is made again under its key only where what is
// sent is certain to be the same (DSP-04, DSP-08).
func TestSameKeySameBytesAfterADeath(t *testing.T) {
	t.Parallel()
	died := func(b *bench, forms map[string][]byte) {
		b.Authorize(b.Contact("k"))
		leased, err := b.World.Dispatcher.Lease(b.t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
			Requested: []ledger.EffectKey{servicetest.Effect("k")}, Free: map[string]int{"demo/" + servicetest.CRM: 1}, Forms: forms})
		require.NoError(b.t, err)
		require.Len(b.t, leased, 1)
		require.False(b.t, leased[0].OtherForm)
		b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{EffectKey: leased[0].EffectKey, Move: "expire_lease", MaybeSent: true})
		b.repeat("k")
	}
	proven := func(c *config.Tenant) { servicetest.Operation(c, servicetest.CRM).Success.Statuses = []int{200, 201} }

	t.Run("TheSameFormIsSentAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		died(b, b.forms)
		b.with(proven).look() // what answers mean has changed, and no bytes
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
		require.Len(t, b.Writes("k"), 1)
	})

	for name, change := range map[string]func(*config.Tenant){
		"AnotherBodyStopsForAPerson": func(c *config.Tenant) {
			servicetest.Operation(c, servicetest.CRM).Body = map[string]any{"reference": "${operation_id}", "fields": "${proposed_change.fields}", "note": "new"}
		},
		"AnotherAddressStopsForAPerson": func(c *config.Tenant) {
			k := servicetest.Connector(c, servicetest.CRM)
			k.BaseURL += "/v2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			died(b, b.forms)
			b.with(change).look()
			waitsForAnOperator(b)
		})
	}

	t.Run("AFormThatIsNotKnownStopsForAPerson", func(t *testing.T) { // of a release that kept none
		t.Parallel()
		b := setup(t)
		died(b, nil)
		b.look()
		waitsForAnOperator(b)
	})

	t.Run("ProvenAbsentItIsSentAsItIsNow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		leased, err := b.World.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
			Requested: []ledger.EffectKey{servicetest.Effect("k")}, Free: map[string]int{"demo/" + servicetest.CRM: 1}})
		require.NoError(t, err)
		require.Len(t, leased, 1)
		b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{EffectKey: leased[0].EffectKey, Move: "expire_lease", MaybeSent: true})
		b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{EffectKey: leased[0].EffectKey, Move: "prove_absent"})
		b.look()
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
	})
}

// waitsForAnOperator requires that the one effect waits for an operator, that nothing was sent, and that somebody is told.
func waitsForAnOperator(b *bench) {
	b.t.Helper()
	e := b.Look("k")
	require.Equal(b.t, []string{ledger.EffectHeld, ledger.HoldIncident}, []string{e.State, e.HoldReason})
	require.True(b.t, e.MaybeSent)
	require.Empty(b.t, b.Writes("k"))
	require.Len(b.t, b.alerts("k"), 1)
}

// TestKeyWindow is DSP-03: a key past its provider's memory is never relied on, however the effect came to wait so
// long.
func TestKeyWindow(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *bench {
		b := setup(t)
		b.Fault(sandbox.Match{Operation: sandbox.Create, Nth: 1}, sandbox.Fault{Kind: sandbox.AcceptThenReset})
		b.Authorize(b.Refund("k"))
		b.maybeSent("k")
		return b
	}
	past := func(b *bench, age string) {
		b.Exec(`update effects set first_sent_at = clock_timestamp() - $1::interval`, age)
	}

	t.Run("InsideTheWindowTheProviderReplays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		past(b, "22 hours 59 minutes")
		b.look()
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
		require.Len(t, b.Writes("k"), 1)
	})

	t.Run("WithoutAPassingCheckNothingIsSent", func(t *testing.T) { // D13
		t.Parallel()
		b := setup(t).with(servicetest.Unproven(t, config.CapabilityReplay))
		b.look()
		e := b.Look("k")
		require.Equal(t, ledger.EffectUnknown, e.State)
		require.True(t, e.MaybeSent)
		require.Equal(t, string(outcome.NotSent), b.Attempts("k")[1].Class)
		require.Len(t, b.Writes("k"), 1)
	})

	t.Run("InsideTheMarginNothingIsSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		past(b, "23 hours 1 minute")
		b.look()
		e := b.Look("k")
		require.Equal(t, ledger.EffectUnknown, e.State)
		require.True(t, e.MaybeSent)
		require.Equal(t, string(outcome.NotSent), b.Attempts("k")[1].Class)
		require.Len(t, b.Writes("k"), 1)
	})
}

// TestRedirectReachesNobody is DSP-02: the body and the key are carried nowhere.
func TestRedirectReachesNobody(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(elsewhere.Close)
	b := setup(t)
	b.Fault(updates, sandbox.Fault{Kind: sandbox.Redirect, Status: http.StatusTemporaryRedirect,
		Location: elsewhere.URL + "/x"})
	b.Authorize(b.Contact("k"))
	b.request()
	require.Equal(t, ledger.EffectUnknown, b.Look("k").State)
	require.Zero(t, reached.Load())
}

// TestSecretsStayWhereTheyAre is D12: a credential is sent, and stands in no row and no log line.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	const secret = "s3cr3t-t0ken-of-the-crm"
	t.Setenv("HOLDPOINT_TEST_TOKEN", secret)
	var got atomic.Value
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			got.Store(r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"version":"1"}`))
	}))
	t.Cleanup(crm.Close)
	b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
		declared := servicetest.Connector(c, servicetest.CRM)
		declared.BaseURL, declared.AllowedHosts, declared.BearerEnv = crm.URL, nil, "HOLDPOINT_TEST_TOKEN"
	}))
	b.Authorize(b.Contact("k"))
	b.request()
	require.Equal(t, "Bearer "+secret, got.Load())
	require.Equal(t, ledger.HoldUnauthorized, b.Look("k").HoldReason)
	require.NotContains(t, b.Logs.String(), secret)
	for _, table := range []string{"effects", "effect_attempts", "audit_events", "event_log", "intents"} {
		require.Zero(t, b.Count(`select count(*) from `+table+` t where t::text like '%'||$1||'%'`, secret), table)
	}
}

// TestARefusedTokenIsRefreshedOnce: the effect is tried once more with another access token, and held if that is refused too.
func TestARefusedTokenIsRefreshedOnce(t *testing.T) {
	const secret = "s3cr3t-of-the-client"
	t.Setenv("HOLDPOINT_TEST_CLIENT", secret)
	var issued, writes atomic.Int32
	var accepted atomic.Value // the token that the provider takes
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token":"s3cr3t-access-%d","expires_in":3600}`, issued.Add(1))
		case r.Header.Get("Authorization") != accepted.Load():
			w.WriteHeader(http.StatusUnauthorized)
		default:
			writes.Add(1)
			_, _ = w.Write([]byte(`{"update_id":"u","version":"2"}`))
		}
	}))
	t.Cleanup(crm.Close)
	b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
		withoutRead(c)
		declared := servicetest.Connector(c, servicetest.CRM)
		declared.BaseURL, declared.AllowedHosts = crm.URL, nil
		declared.OAuth2 = &config.OAuth2{TokenURL: crm.URL + "/token", ClientID: "holdpoint",
			ClientSecret: config.SecretRef{Env: "HOLDPOINT_TEST_CLIENT"}}
	}))
	accepted.Store("Bearer s3cr3t-access-2")
	b.Authorize(b.Contact("once"), b.Contact("twice"))
	b.request("once")
	require.Equal(t, ledger.EffectPending, b.Look("once").State)
	require.False(t, b.Look("once").MaybeSent)
	b.due("once")
	b.request("once")
	require.Equal(t, ledger.EffectCompleted, b.Look("once").State)
	require.EqualValues(t, 1, writes.Load())
	require.Empty(t, b.alerts("once"))

	accepted.Store("none")
	b.request("twice")
	require.Equal(t, ledger.EffectPending, b.Look("twice").State)
	b.due("twice")
	b.request("twice")
	require.Equal(t, ledger.HoldUnauthorized, b.Look("twice").HoldReason)
	require.Len(t, b.alerts("twice"), 1)
	require.EqualValues(t, 3, issued.Load())
	require.NotContains(t, b.Logs.String(), "s3cr3t")
	for _, table := range []string{"effects", "effect_attempts", "audit_events", "event_log", "intents"} {
		require.Zero(t, b.Count(`select count(*) from `+table+` t where t::text like '%s3cr3t%'`), table)
	}
}
