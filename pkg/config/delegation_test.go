package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDelegations: who may decide for whom, and until when (A16).
func TestDelegations(t *testing.T) {
	t.Parallel()

	const closed = leads + "    members: [nora, sam]\n"
	const away = "delegations:\n  - {from: nora, to: otto, starts: 2026-12-01T09:00:00+01:00, ends: 2026-12-02T00:00:00Z, reason: Away.}\n"
	setup := func(t *testing.T, more string) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("people.yaml", leads, closed)
		w.replace("people.yaml", "notify:\n", away+more+"notify:\n")
		return w
	}
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return parsed
	}

	t.Run("ItLastsFromItsStartAndUntilBeforeItsEnd", func(t *testing.T) {
		t.Parallel()
		loaded, err := setup(t, "").load()
		require.NoError(t, err)
		tenant := loaded.Tenants[0]
		otto := tenant.PersonByID("otto")
		for when, want := range map[string]int{"2026-12-01T07:59:59Z": 0, "2026-12-01T08:00:00Z": 1, "2026-12-01T23:59:59Z": 1,
			"2026-12-02T00:00:00Z": 0} {
			require.Len(t, tenant.DelegatedTo(otto, at(when)), want, when)
		}
		require.Empty(t, tenant.DelegatedTo(tenant.PersonByID("sam"), at("2026-12-01T08:00:00Z")))
		require.Empty(t, tenant.DelegatedTo(nil, at("2026-12-01T08:00:00Z")))
		require.Equal(t, []string{"support-lead"}, tenant.RolesOfMember("nora"))
	})

	t.Run("OfSomebodyDisabledItIsNothing", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "")
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    disabled: true\n")
		loaded, err := w.load()
		require.NoError(t, err)
		require.Empty(t, loaded.Tenants[0].DelegatedTo(loaded.Tenants[0].PersonByID("otto"), at("2026-12-01T08:00:00Z")))
	})

	t.Run("OneAfterTheOtherIsNoChain", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "  - {from: sam, to: nora, starts: 2026-12-02T00:00:00Z, ends: 2026-12-03T00:00:00Z, reason: Away.}\n")
		_, err := w.load()
		require.NoError(t, err)
	})

	for name, c := range map[string]struct{ written, instead, says string }{
		"ToOneself":          {"to: otto", "to: nora", `to is "nora", who would decide for themself`},
		"FromNobody":         {"from: nora", "from: nina", `from is "nina", whom people does not list`},
		"ToNobody":           {"to: otto", "to: nina", `people.yaml:50:22: to is "nina", whom people does not list`},
		"OfNoRole":           {"from: nora", "from: carl", `from is "carl", who is a member of no role, so that there is nothing to delegate`},
		"AnEndBeforeTheRest": {"ends: 2026-12-02", "ends: 2026-11-02", "which must be later than starts, 2026-12-01T09:00:00+01:00"},
		"ForTooLong":         {"ends: 2026-12-02", "ends: 2027-03-02", "which must not be more than 90 days after starts"},
		"ATimeWithoutOffset": {"09:00:00+01:00", "09:00:00", `starts is "2026-12-01T09:00:00", which must be a time of RFC 3339 with its offset`},
		"NoReason":           {", reason: Away.", "", "reason is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, "")
			w.replace("people.yaml", c.written, c.instead)
			_, err := w.load()
			require.ErrorContains(t, err, c.says)
		})
	}

	t.Run("AChain", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "  - {from: sam, to: nora, starts: 2026-12-01T00:00:00Z, ends: 2026-12-03T00:00:00Z, reason: Away.}\n")
		_, err := w.load()
		require.ErrorContains(t, err, `to is "nora", whose own roles are delegated at the same time at tenants/demo/people.yaml:50:12`)
	})
}
