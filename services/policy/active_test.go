package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// stricter is the content of a policy that sends changes of a city to a person; each name makes another version.
func (b *bench) stricter(name string) []byte {
	b.t.Helper()
	const old = `"Route":"auto"`
	content := string(b.Config.Tenants[0].PolicyContent)
	require.Contains(b.t, content, old)
	return []byte(strings.Replace(strings.Replace(content, old, `"Route":"human_review"`, 1), `"Owner":"`, `"Owner":"`+name+" of ", 1))
}

func TestOutdated(t *testing.T) { // P7
	t.Parallel()

	t.Run("WhatWasDecidedUnderAFormerVersionIsDecidedAgainUnderTheActiveOne", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Claim(b.Contact("k"), b.Contact("l"))
		version := b.ActivatePolicy(ledgertest.Tenant, b.stricter("next"))
		b.requireAcked(b.handle(t.Context(), b.submitted("k", "l")))
		for _, key := range []string{"k", "l"} {
			d := b.decision(key)
			require.Equal(t, config.RouteHumanReview, d.Route)
			require.Equal(t, version+"/"+engine.EngineVersion, d.PolicyVersion)
		}
		require.Zero(t, b.Count(`select count(*) from effects`))
		require.Contains(t, b.Logs.String(), "another policy became active; deciding again")
		require.Empty(t, b.Logs.Errors())
	})

	t.Run("UnderAVersionThatCannotBeUsedNothingIsDecidedOrParked", func(t *testing.T) { // POL-02
		t.Parallel()
		b := setup(t)
		b.Claim(b.Contact("k"))
		b.ActivatePolicy(ledgertest.Tenant, []byte(`{"Actions":[{"Kind":"of another release"}]}`))
		items := b.submitted("k")
		items[0].NumDelivered = bus.ParkAfter + 1
		for range 2 {
			require.Equal(t, []bus.Verdict{bus.Retry}, b.handle(t.Context(), items))
		}
		require.Zero(t, b.Count(`select count(*) from policy_decisions`))
		require.Zero(t, b.Count(`select count(*) from parked_messages`))
		require.Equal(t, ledger.RunProcessing, b.World.Run("k").State)

		b.ActivatePolicy(ledgertest.Tenant, b.Config.Tenants[0].PolicyContent)
		require.NoError(t, b.policies.Refresh(t.Context()))
		b.requireAcked(b.handle(t.Context(), items))
		require.Equal(t, config.RouteAuto, b.decision("k").Route)
	})
}

// TestActivationUnderWay has two replicas decide a stream of intents while one version after another becomes active: each decision
// was made under the version that was active when it was stored. Decisions read their time while they hold the pointer shared, and
// activations while they hold it alone, so that these times are in the order of the commits.
func TestActivationUnderWay(t *testing.T) { // P7
	t.Parallel()
	const runs, activations = 240, 24
	broker := bustest.New(t, ledgertest.Tenant)
	b := setup(t, servicetest.WithBus(broker.Conn))
	stops := []func() error{b.Start(b.Policy), b.Start(another(t, b.World))}
	claims, keys := make([]ledger.Claim, runs), make([]string, runs)
	for i := range claims {
		keys[i] = fmt.Sprintf("k%03d", i)
		claims[i] = b.Contact(keys[i])
	}
	b.Claim(claims...)
	items := b.submitted(keys...)
	publisher := broker.Conn.NewPublisher("test")
	decided := func() int { return b.Count(`select count(*) from policy_decisions`) }
	for i := range activations {
		var messages []bus.Message
		for _, item := range items[i*runs/activations : (i+1)*runs/activations] {
			messages = append(messages, bus.Message{Subject: item.Subject, ID: fmt.Sprint(len(messages), ":", i), Data: item.Data})
		}
		for _, result := range publisher.PublishBatch(t.Context(), messages) {
			require.NoError(t, result.Err)
		}
		b.Eventually(func() bool { return decided() > i*runs/activations }, "some of them are decided")
		content := b.Config.Tenants[0].PolicyContent
		if i%2 == 0 {
			content = b.stricter(fmt.Sprint("owner ", i%4)) // some come back
		}
		b.ActivatePolicy(ledgertest.Tenant, content)
	}
	b.Eventually(func() bool { return decided() == runs }, "all are decided")
	for _, stop := range stops {
		require.NoError(t, stop())
	}

	require.Zero(t, b.Count(`select count(*) from policy_decisions d
cross join lateral (
  select version from policy_activations a where a.tenant_id = d.tenant_id and a.activated_at < d.decided_at order by a.ordinal desc limit 1
) then_active
where split_part(d.policy_version, '/', 1) <> then_active.version`), "decisions under a version that was not active")
	require.Equal(t, 3, b.Count(`select count(distinct policy_version) from policy_decisions`))
	require.Equal(t, b.Count(`select count(*) from policy_decisions where route = 'auto'`), b.Count(`select count(*) from authorizations`))
	require.Zero(t, b.Count(`select count(*) from authorizations z join policy_decisions d using (run_id, tenant_id, intent_hash, decision_id)
where split_part(d.policy_version, '/', 1) <> $1`, b.Config.Tenants[0].PolicyVersion), "what only the lenient version lets through")
	require.Zero(t, b.Count(`select count(*) from parked_messages`))
	require.Equal(t, runs, b.Count(`select count(*) from inbox where consumer = 1`))
}
