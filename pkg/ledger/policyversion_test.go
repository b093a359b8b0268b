package ledger_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func activation(content string) ledger.PolicyActivation {
	return ledger.PolicyActivation{TenantID: "acme", Version: config.PolicyVersionOf([]byte(content)), Content: []byte(content),
		By: "olga", Reason: "a test"}
}

func TestActivatePolicy(t *testing.T) { // P7
	t.Parallel()
	const tenant = "acme"
	setup := func(t *testing.T) *ledgertest.Bench { return ledgertest.New(t) }
	activate := func(t *testing.T, l *ledger.Ledger, a ledger.PolicyActivation) (ledger.ActivePolicy, bool) {
		t.Helper()
		active, changed, err := l.ActivatePolicy(t.Context(), a)
		require.NoError(t, err)
		return active, changed
	}

	t.Run("TheLatestIsActiveAndAllAreKeptWithWhoAndWhy", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one, two := activation("one"), activation("two")
		active, changed := activate(t, b.Operator, one)
		require.True(t, changed)
		require.Equal(t, ledger.ActivePolicy{TenantID: tenant, Ordinal: 1, Version: one.Version}, active)
		two.By, two.Reason = "otto", "stricter"
		activate(t, b.Operator, two)
		one.Content, one.Reason = nil, "back"
		active, changed = activate(t, b.Operator, one)
		require.True(t, changed)
		require.EqualValues(t, 3, active.Ordinal)

		all, err := b.Dispatcher.ActivePolicies(t.Context())
		require.NoError(t, err)
		require.Contains(t, all, active)
		history, err := b.Operator.PolicyHistory(t.Context(), tenant)
		require.NoError(t, err)
		require.Len(t, history, 3)
		require.Equal(t, []string{one.Version, "olga", "back"}, []string{history[0].Version, history[0].By, history[0].Reason})
		require.Equal(t, []string{two.Version, "otto", "stricter"}, []string{history[1].Version, history[1].By, history[1].Reason})
		content, err := b.Intake.PolicyContent(t.Context(), tenant, two.Version)
		require.NoError(t, err)
		require.Equal(t, "two", string(content))
	})

	t.Run("WhatIsActiveAlreadyIsNotActivatedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		activate(t, b.Operator, activation("one"))
		active, changed := activate(t, b.Operator, activation("one"))
		require.False(t, changed)
		require.EqualValues(t, 1, active.Ordinal)
	})

	t.Run("NobodyAndNoReasonAreRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, spoil := range []func(*ledger.PolicyActivation){func(a *ledger.PolicyActivation) { a.By = "" }, func(a *ledger.PolicyActivation) { a.Reason = "" }} {
			a := activation("one")
			spoil(&a)
			_, _, err := b.Operator.ActivatePolicy(t.Context(), a)
			require.ErrorContains(t, err, "by somebody and for a reason")
		}
	})

	t.Run("ContentOfAnotherHashIsRefusedByTheDatabase", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := activation("one")
		a.Content = []byte("another")
		_, _, err := b.Operator.ActivatePolicy(t.Context(), a)
		require.ErrorContains(t, err, "policy_versions_hash")
	})

	t.Run("AVersionThatIsNotStoredIsNotFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := activation("one")
		a.Content = nil
		_, _, err := b.Operator.ActivatePolicy(t.Context(), a)
		require.ErrorIs(t, err, ledger.ErrNoPolicyVersion)
		_, err = b.Operator.PolicyContent(t.Context(), tenant, a.Version)
		require.ErrorIs(t, err, ledger.ErrNoPolicyVersion)
	})

	t.Run("WhatWasDecidedOnAnotherVersionIsAskedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		activate(t, b.Operator, activation("one"))
		activate(t, b.Operator, activation("two"))
		a := activation("three")
		a.After = 1
		_, _, err := b.Operator.ActivatePolicy(t.Context(), a)
		require.ErrorIs(t, err, ledger.ErrPolicyMoved)
		a.After = 2
		_, changed := activate(t, b.Operator, a)
		require.True(t, changed)
	})

	t.Run("FilesActivateOnlyWhatWasNeverStored", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, c := range []struct {
			content string
			when    int
			changed bool
		}{{"one", ledger.PolicyFirst, true}, {"two", ledger.PolicyFirst, false}, {"two", ledger.PolicyUnknown, true}, {"one", ledger.PolicyUnknown, false}} {
			a := activation(c.content)
			a.When = c.when
			_, changed := activate(t, b.Policy, a)
			require.Equal(t, c.changed, changed, c)
		}
		require.Equal(t, activation("two").Version, b.Text(`select version from policy_active where tenant_id = 'acme'`))
	})

	t.Run("OfManyAtOnceOneIsTheFirst", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var wait sync.WaitGroup
		first := make(chan string, 8)
		for i := range 8 {
			a := activation(strings.Repeat("x", i%2+1)) // replicas of two releases
			a.When = ledger.PolicyFirst
			wait.Go(func() {
				active, changed, err := b.Policy.ActivatePolicy(t.Context(), a)
				if err != nil {
					t.Error(err)
				}
				if changed {
					first <- active.Version
				}
			})
		}
		wait.Wait()
		require.Len(t, first, 1)
		require.Equal(t, <-first, b.Text(`select version from policy_active where tenant_id = 'acme'`))
		require.Equal(t, 1, b.Count(`select count(*) from policy_activations where tenant_id = 'acme'`))
	})
}

func TestDecideUnderTheActivePolicy(t *testing.T) { // P7
	t.Parallel()
	outdated := func(t *testing.T, b *ledgertest.Bench, d ledger.Decision) (moved int, told []error) {
		t.Helper()
		moved, err := b.Policy.Decide(t.Context(), []ledger.Decision{d}, func(_ *ledger.Decision, err error) { told = append(told, err) })
		require.NoError(t, err)
		return moved, told
	}

	for name, look := range map[string]func(*ledger.Decision){
		"ADecision": func(*ledger.Decision) {},
		"ADecisionWithinLimits": func(d *ledger.Decision) {
			d.Limits = &ledger.LimitCheck{Draws: []ledger.Draw{{Limit: "crm.contact.update/daily", Window: 1e12, Count: 5}}}
		},
	} {
		t.Run(name+"UnderAnotherVersionLeavesNoTraceAndIsTold", func(t *testing.T) {
			t.Parallel()
			b := ledgertest.New(t)
			u := undecided(t, b, "k")
			event := newID()
			d := ledgertest.Decision(u, event, config.RouteAuto)
			look(&d)
			version := b.ActivatePolicy(ledgertest.Tenant, []byte("newer"))
			moved, told := outdated(t, b, d)
			require.Zero(t, moved)
			require.Len(t, told, 1)
			require.ErrorIs(t, told[0], ledger.ErrOutdatedPolicy)
			for _, table := range []string{"policy_decisions", "authorizations", "effects", "inbox", "limit_draws"} {
				require.Zero(t, b.Count(`select count(*) from `+table), table)
			}
			require.Equal(t, ledger.RunProcessing, b.Run("k").State)

			d.PolicyVersion = version + "/test"
			require.Equal(t, 1, decide(t, b.Policy, d), "decided again under the active one it is stored")
		})
	}

	t.Run("OneOfABatchKeepsNoOther", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		good, late := undecided(t, b, "good"), undecided(t, b, "late")
		d := ledgertest.Decision(late, newID(), config.RouteAuto)
		d.PolicyVersion = "older/test"
		var told []string
		moved, err := b.Policy.Decide(t.Context(), []ledger.Decision{ledgertest.Decision(good, newID(), config.RouteAuto), d},
			func(d *ledger.Decision, err error) {
				require.ErrorIs(t, err, ledger.ErrOutdatedPolicy)
				told = append(told, d.Intent.Key)
			})
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		require.Equal(t, []string{"late"}, told)
	})

	t.Run("WithNoActivePolicyNothingIsStored", func(t *testing.T) { // POL-02
		t.Parallel()
		b := ledgertest.New(t)
		d := ledgertest.Decision(undecided(t, b, "k"), newID(), config.RouteAuto)
		b.Exec(`delete from policy_active`)
		moved, told := outdated(t, b, d)
		require.Zero(t, moved)
		require.Len(t, told, 1)
	})

	t.Run("AnActivationWaitsForADecisionThatIsBeingStored", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		tx, err := b.DB.Pool("holdpoint_policy").Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // where the test fails
		_, err = tx.Exec(t.Context(), `select version from policy_active for share`)
		require.NoError(t, err)
		activated := make(chan error, 1)
		a := activation("next")
		a.TenantID = ledgertest.Tenant
		go func() {
			_, _, err := b.Operator.ActivatePolicy(t.Context(), a)
			activated <- err
		}()
		b.AwaitBlocked(1)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-activated)
	})

	t.Run("ADecisionWaitsForAnActivationAndThenFindsItselfOutdated", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		d := ledgertest.Decision(undecided(t, b, "k"), newID(), config.RouteAuto)
		tx, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // where the test fails
		b.ActivatePolicy("acme", []byte("next"))
		for _, step := range []string{
			`insert into policy_versions (tenant_id, version, content) select 'demo', version, content from policy_versions where tenant_id = 'acme'`,
			`insert into policy_activations (tenant_id, ordinal, version, activated_by, reason)
select 'demo', 2, version, 'olga', 'a test' from policy_versions where tenant_id = 'acme'`,
			`update policy_active a set ordinal = 2, version = v.version from policy_versions v where v.tenant_id = 'acme' and a.tenant_id = 'demo'`,
		} {
			_, err = tx.Exec(t.Context(), step)
			require.NoError(t, err)
		}
		told := make(chan error, 1)
		go func() {
			_, err := b.Policy.Decide(t.Context(), []ledger.Decision{d}, func(_ *ledger.Decision, err error) { told <- err })
			if err != nil {
				told <- err
			}
		}()
		b.AwaitBlocked(1)
		require.NoError(t, tx.Commit(t.Context()))
		require.ErrorIs(t, <-told, ledger.ErrOutdatedPolicy)
		require.Zero(t, b.Count(`select count(*) from policy_decisions`))
	})
}
