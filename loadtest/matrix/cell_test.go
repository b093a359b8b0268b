package matrix

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/loadtest/crash"
	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestAll(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range all() {
		require.False(t, seen[c.String()], c.String())
		seen[c.String()] = true
	}
	require.Len(t, deaths, 10)
	require.True(t, seen["create_bare/accept_then_hang/send@after"])
	require.False(t, seen["create_replay/lagging_search/none"], "a profile without a lookup is not searched")
	require.False(t, seen["create_lookup/key_in_flight/none"], "a profile that sends no key has none in flight")
}

func TestSample(t *testing.T) {
	t.Parallel()
	parts := func(cells []*cell) map[string]bool {
		has := map[string]bool{}
		for _, c := range cells {
			has["profile "+c.profile.name], has["fault "+c.fault.name], has["death "+c.death.String()] = true, true, true
		}
		return has
	}
	every := parts(all())
	require.Len(t, every, len(profiles)+len(misbehaviours)+len(deaths))

	names := func(cells []*cell) (names []string) {
		for _, c := range cells {
			names = append(names, c.String())
		}
		return names
	}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		chosen := sample(all(), seed, shortCells)
		require.Len(t, chosen, shortCells)
		require.Equal(t, every, parts(chosen))
		require.Equal(t, names(chosen), names(sample(all(), seed, shortCells)), "a seed draws the same again")
		once := map[string]bool{}
		for _, name := range names(chosen) {
			require.False(t, once[name], name)
			once[name] = true
		}
	})
}

func TestMatching(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]int{
		"create_bare/none/send@after": 1,
		"create_bare/none":            len(deaths),
		"*/none/send@after":           len(profiles),
		"//none":                      len(all()) / len(deaths),
		"create":                      0,
		"create_bare/none/none/none":  0,
	} {
		require.Len(t, matching(all(), pattern), want, pattern)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"--short"}, io.Discard)
	require.NoError(t, err)
	require.NotZero(t, o.Seed)
	for _, args := range [][]string{{"--only", "nothing/like/that"}, {"--worlds", "0"}, {"--what"}} {
		require.Equal(t, 2, Command(t.Context(), args, io.Discard, io.Discard), args)
	}
}

func TestProfilesAreDeclared(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config")
	require.NoError(t, crash.WriteSettings(deploy.Example(), dir, edits()))
	loaded, err := config.LoadDir(dir)
	require.NoError(t, err)
	tenant := loaded.Tenants[0]
	for _, p := range profiles {
		require.NotNil(t, tenant.Action(p.action()), p.name)
		op := tenant.Operation(p.connector(), "write")
		require.NotNil(t, op, p.name)
		require.Equal(t, p.operation, op.Kind, p.name)
		require.Equal(t, p.replays, op.IdempotentCreate(), p.name)
		require.Equal(t, p.sendsKey(), op.IdempotencyHeader != "", p.name)
		require.Equal(t, p.lookup, op.Lookup != nil && op.Lookup.Conclusive, p.name)
		require.Equal(t, p.conditional, op.Conditional != nil && op.Verifies(), p.name)
	}
}
