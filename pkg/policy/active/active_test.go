package active_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// bench is a world with versions of a policy, of which the files' is active.
type bench struct {
	*servicetest.World

	t *testing.T
}

func setup(t *testing.T) *bench {
	t.Helper()
	return &bench{World: servicetest.New(t), t: t}
}

// files is the tenant with another policy: that of files where the change of a contact asks so many people.
func (b *bench) files(quorum string) *config.Tenant {
	b.t.Helper()
	declared := b.Config.Tenants[0]
	content := []byte(strings.Replace(string(declared.PolicyContent), `"Quorum":1`, `"Quorum":`+quorum, 1))
	joined, err := declared.WithPolicy(config.PolicyVersionOf(content), content)
	require.NoError(b.t, err)
	return joined
}

// activate makes a tenant's policy the active one, as an operator does.
func (b *bench) activate(t *config.Tenant) { b.ActivatePolicy(t.ID, t.PolicyContent) }

// start is a replica of a service with files. What it makes of a policy is the policy itself.
func (b *bench) start(name string, files *config.Tenant, changes ...func(*active.Config[*config.Tenant])) *active.Policies[*config.Tenant] {
	b.t.Helper()
	p, err := active.New(b.t.Context(), b.needs(name, files, changes...))
	require.NoError(b.t, err)
	return p
}

func (b *bench) needs(name string, files *config.Tenant, changes ...func(*active.Config[*config.Tenant])) active.Config[*config.Tenant] {
	env := b.Env(name)
	env.Config = &config.Config{Tenants: []*config.Tenant{files}}
	c := active.Config[*config.Tenant]{Env: env, Make: func(t *config.Tenant) (*config.Tenant, error) { return t, nil },
		Install: name == ledger.Policy}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func byFiles(c *active.Config[*config.Tenant]) { c.Env.PolicyActivation = service.ActivateFiles }

func (b *bench) requireVersion(p *active.Policies[*config.Tenant], of *config.Tenant) {
	b.t.Helper()
	made, err := p.Of(of.ID)
	require.NoError(b.t, err)
	require.Equal(b.t, of.PolicyVersion, made.PolicyVersion)
	require.Equal(b.t, of.Actions[0].Review.Quorum, made.Actions[0].Review.Quorum)
}

// forget leaves the database as it is before the first start.
func (b *bench) forget() {
	b.t.Helper()
	for _, table := range []string{"policy_active", "policy_activations", "policy_versions"} {
		b.Exec(`delete from ` + table)
	}
}

func TestFollow(t *testing.T) { // P7
	t.Parallel()

	t.Run("WhatIsActiveCountsWhateverTheFilesHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, service := range []string{ledger.Intake, ledger.Policy, ledger.Approval, ledger.Dispatcher, ledger.Reconciler} {
			b.requireVersion(b.start(service, b.files("2")), b.Config.Tenants[0])
		}
		require.Contains(t, b.Logs.String(), "the files hold a policy that is not the active one and is not used")
		require.Contains(t, b.Logs.String(), "holdpoint policy activate --tenant demo")
	})

	t.Run("AnActivationAndARollBackAreSeenByAllReplicasWithinAMoment", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one, two := b.Config.Tenants[0], b.files("2")
		replicas := []*active.Policies[*config.Tenant]{b.start(ledger.Policy, one), b.start(ledger.Dispatcher, one), b.start(ledger.Intake, two)}
		for _, r := range replicas {
			b.Start(r)
		}
		for _, next := range []*config.Tenant{two, one, b.files("3"), two} {
			b.activate(next)
			b.Eventually(func() bool {
				for _, r := range replicas {
					if made, err := r.Of(next.ID); err != nil || made.PolicyVersion != next.PolicyVersion {
						return false
					}
				}
				return true
			}, "all replicas have the new version")
		}
	})

	t.Run("WhoeverAsksForFreshStateGetsNoneThatIsOlderThanASecond", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		env := b.needs(ledger.Dispatcher, b.Config.Tenants[0])
		p, err := active.New(t.Context(), env)
		require.NoError(t, err)
		b.activate(b.files("2"))
		b.Eventually(func() bool {
			require.NoError(t, p.Fresh(t.Context()))
			made, err := p.Of("demo")
			return err == nil && made.PolicyVersion == b.files("2").PolicyVersion
		}, "the new version")
		env.Env.Pool.Close()
		require.Eventually(t, func() bool { return p.Fresh(t.Context()) != nil }, servicetest.Patience, active.MaxAge/20, "nobody knows what is active")
	})

	t.Run("ATenantThatIsNotConfiguredIsToldApart", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.start(ledger.Intake, b.Config.Tenants[0]).Of("acme")
		require.ErrorContains(t, err, `tenant "acme" is not configured here`)
		require.NotErrorIs(t, err, active.ErrUnusable)
	})

	t.Run("FilesThatCannotBeUsedRefuseTheStart", func(t *testing.T) { // POL-02
		t.Parallel()
		b := setup(t)
		b.forget()
		cause := errors.New("no such rule")
		_, err := active.New(t.Context(), b.needs(ledger.Policy, b.Config.Tenants[0], func(c *active.Config[*config.Tenant]) {
			c.Make = func(*config.Tenant) (*config.Tenant, error) { return nil, cause }
		}))
		require.ErrorIs(t, err, cause)
		require.Zero(t, b.Count(`select count(*) from policy_activations`), "and are not activated")
	})
}

// TestUnusable is POL-02: a version that cannot be loaded here is replaced by no other.
func TestUnusable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	health, err := service.NewHealth("127.0.0.1:0")
	require.NoError(t, err)
	b.Start(health)
	p := b.start(ledger.Policy, b.Config.Tenants[0], func(c *active.Config[*config.Tenant]) { c.Env.Health = health })
	ready := func() (ready bool, problems, notes map[string]string) {
		response, err := http.Get("http://" + health.Addr() + "/readyz")
		require.NoError(t, err)
		defer response.Body.Close()
		var said struct {
			Ready           bool
			Problems, Notes map[string]string
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&said))
		return said.Ready, said.Problems, said.Notes
	}
	is, _, notes := ready()
	require.True(t, is)
	require.Equal(t, "demo: "+b.Config.Tenants[0].PolicyVersion+" (activation 2)", notes["policy policy"], "POL-02: health shows what is loaded")

	version := b.ActivatePolicy(ledgertest.Tenant, []byte(`{"Actions":[],"Leniency":1}`))
	for range 3 {
		require.NoError(t, p.Refresh(t.Context()))
	}
	made, err := p.Of("demo")
	require.ErrorIs(t, err, active.ErrUnusable)
	require.Nil(t, made, "the former one does not count either")
	is, problems, notes := ready()
	require.False(t, is)
	require.Contains(t, problems["policy policy"], `unknown field "Leniency"`)
	require.Contains(t, notes["policy policy"], "demo: "+version+" (activation 3); the files here hold "+b.Config.Tenants[0].PolicyVersion+"; the active")
	require.Len(t, b.Logs.Errors(), 1, "it is told once")
	b.start(ledger.Intake, b.Config.Tenants[0], func(c *active.Config[*config.Tenant]) { c.Env.Health, c.Serves = health, true })
	_, problems, notes = ready()
	require.NotContains(t, problems, "intake policy", "who serves many tenants goes on for the others")
	require.Contains(t, notes["intake policy"], `unknown field "Leniency"`)

	b.activate(b.Config.Tenants[0])
	require.NoError(t, p.Refresh(t.Context()))
	b.requireVersion(p, b.Config.Tenants[0])
	is, _, _ = ready()
	require.True(t, is)
}

func TestInstall(t *testing.T) { // P7
	t.Parallel()

	t.Run("OfManyFirstStartsOneActivates", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.forget()
		releases := []*config.Tenant{b.files("2"), b.files("3")}
		started := make([]*active.Policies[*config.Tenant], 6)
		var wait sync.WaitGroup
		for i := range started {
			needs := b.needs(ledger.Policy, releases[i%2])
			wait.Go(func() {
				var err error
				if started[i], err = active.New(context.WithoutCancel(t.Context()), needs); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		require.Equal(t, 1, b.Count(`select count(*) from policy_activations where activated_by = 'files'`))
		version := b.Text(`select version from policy_active`)
		for _, p := range started {
			made, err := p.Of("demo")
			require.NoError(t, err)
			require.Equal(t, version, made.PolicyVersion, "those with other files follow as well")
		}
	})

	t.Run("OthersActivateNothingAndUseTheFilesUntilThen", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.forget()
		p := b.start(ledger.Intake, b.files("2"))
		b.requireVersion(p, b.files("2"))
		require.Zero(t, b.Count(`select count(*) from policy_activations`))
		b.activate(b.files("3"))
		require.NoError(t, p.Refresh(t.Context()))
		b.requireVersion(p, b.files("3"))
	})

	t.Run("FilesThatWereNeverStoredAreActivatedWhereFilesMay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.requireVersion(b.start(ledger.Policy, b.files("2"), byFiles), b.files("2"))
		require.Equal(t, "files", b.Text(`select activated_by from policy_activations order by ordinal desc limit 1`))
	})

	t.Run("AStartNeverTakesATenantBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		old, newer := b.Config.Tenants[0], b.files("2")
		b.start(ledger.Policy, newer, byFiles)
		b.requireVersion(b.start(ledger.Policy, old, byFiles), newer)
		b.activate(old) // an operator does
		b.requireVersion(b.start(ledger.Policy, newer, byFiles), old)
		require.Equal(t, 4, b.Count(`select count(*) from policy_activations`), "the bench's two, the new files, the roll-back")
	})
}
