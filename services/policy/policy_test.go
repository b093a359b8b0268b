package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// bench is a policy service in its world, driven by hand.
type bench struct {
	*servicetest.World
	*Policy

	t *testing.T
}

func setup(t *testing.T, options ...servicetest.Option) *bench {
	t.Helper()
	w := servicetest.New(t, options...)
	return &bench{World: w, Policy: another(t, w), t: t}
}

func another(t *testing.T, w *servicetest.World) *Policy {
	t.Helper()
	p, err := New(t.Context(), w.Env(ledger.Policy))
	require.NoError(t, err)
	return p
}

func (b *bench) forCase(t *testing.T) *bench {
	t.Helper()
	w := b.For(t)
	return &bench{World: w, Policy: another(t, w), t: t}
}

// submitted are the events that ask for decisions about these keys.
func (b *bench) submitted(keys ...string) []bus.Item {
	b.t.Helper()
	var items []bus.Item
	all := b.Items(contracts.SubjectIntentSubmitted)
	for _, key := range keys {
		for _, item := range all {
			if strings.Contains(string(item.Data), ledger.RunID(ledgertest.Tenant, key).String()) {
				items = append(items, item)
			}
		}
	}
	require.Len(b.t, items, len(keys))
	return items
}

// decided claims the events and requires that their intents are decided and acknowledged.
func (b *bench) decided(claims ...ledger.Claim) {
	b.t.Helper()
	b.Claim(claims...)
	keys := make([]string, len(claims))
	for i, c := range claims {
		keys[i] = c.Key
	}
	b.requireAcked(b.handle(b.t.Context(), b.submitted(keys...)))
}

func (b *bench) requireAcked(verdicts []bus.Verdict) {
	b.t.Helper()
	for i, v := range verdicts {
		require.Equal(b.t, bus.Ack, v, "item %d", i)
	}
}

// decision is the stored decision of a key.
type decision struct {
	Route, PolicyVersion, InputsHash string
	Reasons                          []engine.Reason
}

func (b *bench) decision(key string) decision {
	b.t.Helper()
	var d decision
	var reasons string
	row := b.Owner.QueryRow(b.t.Context(), `select route, policy_version, encode(inputs_hash, 'hex'), reasons::text
from policy_decisions where run_id = $1`, ledger.RunID(ledgertest.Tenant, key))
	require.NoError(b.t, row.Scan(&d.Route, &d.PolicyVersion, &d.InputsHash, &reasons))
	require.NoError(b.t, json.Unmarshal([]byte(reasons), &d.Reasons))
	return d
}

// TestRoutes is P1 and P3: what becomes of an intent, on the record.
func TestRoutes(t *testing.T) {
	t.Parallel()
	world := setup(t)
	change := func(v any) func(*servicetest.Proposal) {
		return func(p *servicetest.Proposal) { p.ProposedChange = v }
	}
	for _, c := range []struct {
		name    string
		changes func(*servicetest.Proposal)
		route   string
		code    string
		run     string
		outcome string
	}{
		{"AHarmlessChangePasses", func(*servicetest.Proposal) {}, "auto", "rule_matched", "approved", ""},
		{"WhatNoRuleCoversGoesToAPerson", change(map[string]any{"fields": map[string]string{"company": "x", "job_title": "x", "city": "x"}}), "human_review",
			"no_rule_matched", "awaiting_human", ""},
		{"AnUnregisteredTypeIsRejected", func(p *servicetest.Proposal) { p.ActionType = "crm.contact.destroy" }, "reject",
			"unregistered_action", "failed_terminal", "denied"},
		{"AChangeThatItsSchemaRefusesIsRejected", change(map[string]any{"fields": map[string]any{"city": 5}}), "reject",
			"schema_invalid", "failed_terminal", "denied"},
		{"AnUnknownFieldIsRejected", change(map[string]any{"fields": map[string]any{"city": "x"}, "auto_reply": true}),
			"reject",
			"schema_invalid", "failed_terminal", "denied"},
		{"OldEvidenceGoesToAPerson", func(p *servicetest.Proposal) {
			p.Evidence[0].ObservedAt = time.Now().Add(-25 * time.Hour)
		},
			"human_review", "evidence_stale", "awaiting_human", ""},
		{"MissingEvidenceGoesToAPerson", func(p *servicetest.Proposal) { p.Evidence = nil }, "human_review",
			"evidence_missing",
			"awaiting_human", ""},
		{"EvidenceOfAnotherVersionGoesToAPerson", func(p *servicetest.Proposal) { p.Evidence[0].Version = "7" },
			"human_review",
			"evidence_contradictory", "awaiting_human", ""},
		{"AnUndeclaredWorkflowGoesToAPerson", func(p *servicetest.Proposal) { p.WorkflowVersion = "crm-enrichment@2" },
			"human_review", "workflow_undeclared", "awaiting_human", ""},
		{"StatedUncertaintyGoesToAPerson", func(p *servicetest.Proposal) { p.Uncertainty = "high" }, "human_review",
			"uncertainty_high", "awaiting_human", ""},
		{"StatedCertaintyLowersNothing", func(p *servicetest.Proposal) { // M6
			p.Uncertainty = "low"
			p.ProposedChange = map[string]any{"fields": map[string]string{"email": "a@b.example"}}
		}, "human_review", "rule_matched", "awaiting_human", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := world.forCase(t)
			b.decided(b.Contact(c.name, c.changes))
			d := b.decision(c.name)
			require.Equal(t, c.route, d.Route)
			codes := engine.Decision{Reasons: d.Reasons}.Codes()
			require.Contains(t, codes, c.code)
			require.Equal(t, b.Config.Tenants[0].PolicyVersion+"/"+engine.EngineVersion, d.PolicyVersion)
			require.Len(t, d.InputsHash, 64)
			require.NotEqual(t, strings.Repeat("0", 64), d.InputsHash)
			run := b.World.Run(c.name)
			require.Equal(t, c.run, run.State)
			require.Equal(t, c.outcome, run.Outcome)
			id := run.RunID
			require.Equal(t, c.route == "auto", b.Count(`select count(*) from effects where run_id = $1`, id) == 1)
			require.Equal(t, c.route == "auto", b.Count(`select count(*) from authorizations where run_id = $1`, id) == 1)
			require.Equal(t, c.route == "human_review", b.Count(`
select count(*) from approvals where run_id = $1 and state = 'pending'`, id) == 1)
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and actor = 'policy'
  and detail->>'policy_version' = $2`, id, d.PolicyVersion))
			require.Equal(t, 2, b.Count(`
select count(*) from event_log where run_id = $1 and subject <> 'holdpoint.events.demo.run.accepted'`, id),
				"the event that asked, and the one that tells")
		})
	}
}

// TestMissingFields is POL-01: an amount that is absent, null or no number never makes the limit vanish.
func TestMissingFields(t *testing.T) {
	t.Parallel()
	world := setup(t)
	for name, body := range map[string]string{
		"Absent":     `{"payment_id":"p","currency":"EUR"}`,
		"Nothing":    `{}`,
		"Null":       `{"payment_id":"p","currency":"EUR","amount":null}`,
		"Text":       `{"payment_id":"p","currency":"EUR","amount":"5000"}`,
		"CaseTwin":   `{"payment_id":"p","currency":"EUR","Amount":5000}`,
		"List":       `{"payment_id":"p","currency":"EUR","amount":[5000]}`,
		"Object":     `{"payment_id":"p","currency":"EUR","amount":{"value":1}}`,
		"Negative":   `{"payment_id":"p","currency":"EUR","amount":-1}`,
		"Zero":       `{"payment_id":"p","currency":"EUR","amount":0}`,
		"TooLarge":   `{"payment_id":"p","currency":"EUR","amount":1e9}`,
		"TooPrecise": `{"payment_id":"p","currency":"EUR","amount":1.005}`,
		"JustAbove":  `{"payment_id":"p","currency":"EUR","amount":100.01}`,
	} {
		t.Run(name+"IsNotAllowed", func(t *testing.T) {
			t.Parallel()
			b := world.forCase(t)
			b.decided(b.Refund(name, func(p *servicetest.Proposal) { p.ProposedChange = json.RawMessage(body) }))
			d := b.decision(name)
			require.NotEqual(t, config.RouteAuto, d.Route)
			require.NotEmpty(t, d.Reasons)
			require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, ledger.RunID(ledgertest.Tenant, name)))
		})
	}
}

// TestAppliedOnce is B2.
func TestAppliedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Claim(b.Contact("k"), b.Contact("l"))
	items := b.submitted("k", "l")
	b.requireAcked(b.handle(t.Context(), append(items, items...)))
	decided := b.decision("k")
	once := func() {
		t.Helper()
		require.Equal(t, 2, b.Count(`select count(*) from policy_decisions`))
		require.Equal(t, 2, b.Count(`select count(*) from effects`))
		require.Equal(t, 2, b.Count(`select count(*) from event_log where subject = $1`, contracts.SubjectEffectRequested))
		require.Equal(t, decided, b.decision("k"))
	}
	once()
	b.requireAcked(b.handle(t.Context(), items))
	once()
	b.Exec(`delete from inbox`)
	b.requireAcked(b.handle(t.Context(), items))
	once()
	b.requireAcked(another(t, b.World).handle(t.Context(), items))
	once()
}

// TestUnreadableEvents is B5.
func TestUnreadableEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Claim(b.Contact("k"))
	b.Authorize(b.Contact("authorized"))
	good := b.submitted("k")[0]
	event := func(kind, data string) bus.Item {
		return bus.Item{Subject: good.Subject, NumDelivered: 1, Data: fmt.Appendf(nil,
			`{"specversion":"1.0","id":%q,"source":"/tenants/demo","type":%q,"subject":"x",`+
				`"time":"2026-01-01T00:00:00Z","data":%s}`,
			uuid.Must(uuid.NewV7()), kind, data)}
	}
	items := []bus.Item{
		{Subject: good.Subject, Data: []byte(`[]`), NumDelivered: 1},
		{Subject: good.Subject, NumDelivered: 1},
		event("holdpoint.intent.submitted.v2", `{}`),
		event(contracts.TypeIntentSubmitted, `{"tenant_id":"demo","run_id":5}`),
		b.Items(contracts.SubjectEffectRequested)[0],
		good,
	}
	b.requireAcked(b.handle(t.Context(), items))
	require.Equal(t, config.RouteAuto, b.decision("k").Route, "the good one is decided")
	require.Equal(t, 5, b.Count(`
select count(*) from parked_messages where consumer = 'policy' and reason like 'unprocessable: %'`))
	require.Equal(t, 1, b.Count(`select count(*) from inbox where consumer = 1 and parked`), "an id of ours is remembered")
	require.NotEmpty(t, b.Logs.Errors())
}

// compiled is the tenant as the service decides for it now.
func (b *bench) compiled() *tenant {
	b.t.Helper()
	t, err := b.policies.Of(ledgertest.Tenant)
	require.NoError(b.t, err)
	return t
}

// panicking is an engine with a fault.
type panicking struct{}

func (panicking) Decide(engine.Input) engine.Decision { panic("index out of range") }

// TestCannotDecide is POL-02: a process that cannot decide decides nothing, and says so.
func TestCannotDecide(t *testing.T) {
	t.Parallel()
	requireUndecided := func(b *bench, key string) {
		b.t.Helper()
		require.Equal(b.t, ledger.RunProcessing, b.World.Run(key).State)
		require.Zero(b.t, b.Count(`select count(*) from policy_decisions`))
		require.Zero(b.t, b.Count(`select count(*) from parked_messages`))
		require.Zero(b.t, b.Count(`select count(*) from inbox`))
		require.NotEmpty(b.t, b.Logs.Errors())
	}

	for name, c := range map[string]struct {
		spoil func(*bench)
		mend  func(*bench)
	}{
		"APanickingEngine": {
			func(b *bench) { b.compiled().engine = panicking{} },
			func(b *bench) { b.Policy = another(b.t, b.World) },
		},
		"ATenantThatIsNotConfiguredHere": {
			func(b *bench) {
				env := b.Env(ledger.Policy)
				env.Config = &config.Config{}
				var err error
				b.Policy, err = New(b.t.Context(), env)
				require.NoError(b.t, err)
			},
			func(b *bench) { b.Policy = another(b.t, b.World) },
		},
		"ADecisionThatCannotBeStored": {
			func(b *bench) { b.Exec(`alter table policy_decisions add constraint spoiled check (route <> 'auto')`) },
			func(b *bench) { b.Exec(`alter table policy_decisions drop constraint spoiled`) },
		},
	} {
		t.Run(name+"AllowsNothingAndIsTriedAgain", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Claim(b.Contact("k"))
			items := b.submitted("k")
			c.spoil(b)
			require.Equal(t, []bus.Verdict{bus.Retry}, b.handle(t.Context(), items))
			requireUndecided(b, "k")
			c.mend(b)
			b.requireAcked(b.handle(t.Context(), items))
			require.Equal(t, config.RouteAuto, b.decision("k").Route)
		})

		t.Run(name+"IsParkedInTheEnd", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Claim(b.Contact("k"))
			items := b.submitted("k")
			items[0].NumDelivered = bus.ParkAfter + 1
			c.spoil(b)
			b.requireAcked(b.handle(t.Context(), items))
			require.Equal(t, 1, b.Count(`select count(*) from parked_messages where consumer = 'policy' and deliveries = 11`))
			require.Equal(t, ledger.RunProcessing, b.World.Run("k").State)
		})
	}

	t.Run("OneOfABatchSpoilsNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Claim(b.Contact("good"), b.Contact("bad"))
		b.Exec(`alter table policy_decisions add constraint spoiled check (run_id <> '` + ledger.RunID(ledgertest.Tenant,
			"bad").String() + `')`)
		require.Equal(t, []bus.Verdict{bus.Retry, bus.Ack}, b.handle(t.Context(), b.submitted("bad", "good")))
		require.Equal(t, config.RouteAuto, b.decision("good").Route)
	})

	t.Run("AnIntentOfANewerReleaseIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		c := b.Contact("k")
		c.Intent = ledgertest.Intent("k", "c-k") // a snapshot of another format
		b.Claim(c)
		require.Equal(t, []bus.Verdict{bus.Retry}, b.handle(t.Context(), b.submitted("k")))
		requireUndecided(b, "k")
	})

	t.Run("WhilePostgresIsAwayNothingIsDecidedOrParked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Claim(b.Contact("k"))
		items := append(b.submitted("k"), bus.Item{Data: []byte(`nonsense`)})
		items[0].NumDelivered = 100
		b.Policy.env.Pool.Close()
		require.Equal(t, []bus.Verdict{bus.Retry, bus.Retry}, b.handle(t.Context(), items))
		require.Zero(t, b.Count(`select count(*) from parked_messages`))
	})
}

// TestRegistry: an intent whose type names another connector by now goes to a person, never to where nobody looked.
func TestRegistry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.Contact("k")
	servicetest.Action(b.Config.Tenants[0], "crm.contact.update").Operation = "merge_contact"
	b.decided(c)
	d := b.decision("k")
	require.Equal(t, config.RouteHumanReview, d.Route)
	require.Equal(t, "registry_changed", d.Reasons[len(d.Reasons)-1].Code)
}

func TestNew(t *testing.T) {
	t.Parallel()
	w := servicetest.New(t, servicetest.WithConfig(func(c *config.Tenant) { c.Rules[0].When = "amount >" }))
	_, err := New(t.Context(), w.Env(ledger.Policy))
	require.ErrorContains(t, err, "small-contact-change", "a bundle that does not load refuses the start (POL-02)")
}

// TestOverJetStream runs the service on a real broker, with every event delivered several times.
func TestOverJetStream(t *testing.T) {
	t.Parallel()
	broker := bustest.New(t, ledgertest.Tenant)
	b := setup(t, servicetest.WithBus(broker.Conn))
	stop := b.Start(b.Policy)
	b.Claim(b.Contact("k"), b.Contact("l"), b.Contact("m", func(p *servicetest.Proposal) { p.Evidence = nil }))
	publisher := broker.Conn.NewPublisher("test")
	for generation := range 3 {
		messages := []bus.Message{{Subject: contracts.SubjectIntentSubmitted, ID: fmt.Sprintf("bad:%d", generation),
			Data: []byte(`nonsense`)}}
		for i, item := range b.submitted("k", "l", "m") {
			messages = append(messages, bus.Message{Subject: item.Subject, ID: fmt.Sprintf("%d:%d", i, generation),
				Data: item.Data})
		}
		for _, result := range publisher.PublishBatch(t.Context(), messages) {
			require.NoError(t, result.Err)
		}
	}
	b.Eventually(func() bool {
		return b.Count(`select count(*) from policy_decisions`) == 3 && b.Count(`select count(*) from parked_messages`) == 3
	}, "all are decided and the nonsense is parked")
	require.NoError(t, stop())
	require.Equal(t, 2, b.Count(`select count(*) from effects`))
	require.Equal(t, 1, b.Count(`select count(*) from approvals`))
}
