package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestBreakGlass(t *testing.T) { // A16
	t.Parallel()
	const written = "      break_glass: {roles: [operator], review_within: 24h}\n"
	glass := func(text string) string { return "      break_glass: {" + text + "}\n" }
	read := func(t *testing.T, text string) *config.BreakGlass {
		t.Helper()
		w := newWorld(t)
		w.replace("actions.yaml", written, text)
		loaded, err := w.load()
		require.NoError(t, err)
		return loaded.Tenants[0].Action("stock.reserve").Review.BreakGlass
	}

	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, &config.BreakGlass{Roles: []string{"operator"}, ReviewWithin: time.Hour, RecentSignIn: 15 * time.Minute},
			read(t, glass("roles: [operator], review_within: 1h")))
		require.Nil(t, read(t, ""), "left out, nobody may")
	})

	t.Run("ARecentSignInIsAlwaysAskedForAndNeverALongOne", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, 5*time.Minute, read(t, written+"      recent_sign_in: 5m\n").RecentSignIn)
		require.Equal(t, 15*time.Minute, read(t, written+"      recent_sign_in: 8h\n").RecentSignIn)
		require.Equal(t, 15*time.Minute, read(t, written).RecentSignIn, "also where the action asks for none: its risk is low")
	})

	requireRefusals(t, []refusal{
		{"NoTimeToReview", "actions.yaml", written, glass("roles: [operator]"), "review_within is missing"},
		{"TooShortATime", "actions.yaml", written, glass("roles: [operator], review_within: 59m"),
			"is 59m0s; it must be from 1h0m0s to 168h0m0s"},
		{"TooLongATime", "actions.yaml", written, glass("roles: [operator], review_within: 169h"), "it must be from 1h0m0s to 168h0m0s"},
		{"NoRole", "actions.yaml", written, glass("roles: [], review_within: 24h"), "roles must list at least one role"},
		{"ARoleThatIsNone", "actions.yaml", written, glass("roles: [boss], review_within: 24h"),
			`roles has "boss", but nobody can hold the role`},
		{"AnUnknownSetting", "actions.yaml", written, glass("roles: [operator], review_within: 24h, quietly: true"),
			"quietly is not a known setting here, allowed: roles, review_within"},
		{"AWayRoundAQualifiedProfessional", "actions.yaml", "    owner: logistics\n", "    owner: logistics\n    profession: legal\n",
			"would let somebody approve stock.reserve alone, which needs a qualified professional (legal)"},
	})

	// closed has the two roles held by members alone.
	closed := func(t *testing.T, contacts, operators string) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("people.yaml", "{groups: [sales-ops, support-leads]} #", "{groups: [sales-ops, support-leads]}\n    members: ["+contacts+"] #")
		w.replace("people.yaml", "{groups: [operators]}\n", "{groups: [operators]}\n    members: ["+operators+"]\n")
		return w
	}
	refused := func(t *testing.T, w *world, says string) {
		t.Helper()
		_, err := w.load()
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "actions.yaml:")
	}

	t.Run("NobodyButTheBreakerCouldLookAtIt", func(t *testing.T) {
		t.Parallel()
		refused(t, closed(t, "otto", "otto"), "leave only otto: somebody else must be able to look at it afterwards (P9)")
		_, err := closed(t, "dora", "otto").load()
		require.NoError(t, err)
	})

	t.Run("WhoAlwaysAsksLooksAtNothing", func(t *testing.T) {
		t.Parallel()
		w := closed(t, "dora, nora", "otto")
		w.replace("tenant.yaml", "scopes: [publish, work, read]\n", "scopes: [publish, work, read]\n    owner: otto\n")
		_, err := w.load()
		require.NoError(t, err)
		w.replace("people.yaml", "members: [dora, nora]", "members: [dora]")
		refused(t, w, "leave only dora, otto, of whom otto answers for the API key")
	})

	t.Run("NobodyIsLeftWhoMay", func(t *testing.T) {
		t.Parallel()
		w := closed(t, "nora, dora", "otto")
		w.replace("people.yaml", "    subject: otto\n", "    subject: otto\n    disabled: true\n")
		refused(t, w, "lets nobody approve stock.reserve alone")
	})

	t.Run("AStoredPolicyBringsItWholeOrNotAtAll", func(t *testing.T) { // P7
		t.Parallel()
		loaded, err := newWorld(t).load()
		require.NoError(t, err)
		tenant := loaded.Tenants[0]
		joined, err := tenant.WithPolicy(tenant.PolicyVersion, tenant.PolicyContent)
		require.NoError(t, err)
		require.Equal(t, tenant.Action("stock.reserve").Review.BreakGlass, joined.Action("stock.reserve").Review.BreakGlass)
		const within = `"BreakGlass":{"Roles":["operator"],"ReviewWithin":86400000000000`
		require.Contains(t, string(tenant.PolicyContent), within)
		content := []byte(strings.Replace(string(tenant.PolicyContent), within, `"BreakGlass":{"Roles":["operator"],"ReviewWithin":0`, 1))
		_, err = tenant.WithPolicy(config.PolicyVersionOf(content), content)
		require.ErrorContains(t, err, "action stock.reserve, break_glass: review_within and recent_sign_in must be above zero")
	})
}
