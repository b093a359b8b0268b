package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestResolve(t *testing.T) { // R6, R9
	t.Parallel()
	const written = "    resolve: {roles: [support-lead], second_person: true, alert_after: 15m}\n"
	read := func(t *testing.T, text string) *config.Tenant {
		t.Helper()
		w := newWorld(t)
		w.replace("actions.yaml", written, text)
		loaded, err := w.load()
		require.NoError(t, err)
		return loaded.Tenants[0]
	}

	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		t.Parallel()
		tenant := read(t, "    resolve: {second_person: false, alert_after: 1h}\n")
		require.Equal(t, config.Resolve{AlertAfter: time.Hour}, tenant.Action("payment.refund").Resolve)
		require.Equal(t, []string{"operator"}, tenant.Action("payment.refund").Resolve.By())
		require.Equal(t, []string{"operator", "support-lead"}, read(t, written).Action("payment.refund").Resolve.By())
	})

	t.Run("WhatCannotBeUndoneTakesTwoUnlessItSaysOtherwise", func(t *testing.T) {
		t.Parallel()
		tenant := read(t, "")
		require.Equal(t, config.Resolve{SecondPerson: true, AlertAfter: 15 * time.Minute}, tenant.Action("payment.refund").Resolve)
		require.Equal(t, config.Resolve{AlertAfter: 15 * time.Minute}, tenant.Action("crm.contact.update").Resolve)
	})

	t.Run("ItIsNoPartOfThePolicy", func(t *testing.T) {
		t.Parallel()
		files, other := read(t, written), read(t, "")
		require.Equal(t, files.PolicyVersion, other.PolicyVersion)
		joined, err := files.WithPolicy(other.PolicyVersion, other.PolicyContent)
		require.NoError(t, err)
		require.Equal(t, []string{"support-lead"}, joined.Action("payment.refund").Resolve.Roles, "the files say who settles")
	})

	t.Run("AnOperationIsFoundByItsConnectorAndName", func(t *testing.T) {
		t.Parallel()
		tenant := read(t, written)
		require.Equal(t, "create_refund", tenant.Operation("sandbox-payments", "create_refund").Name)
		require.Nil(t, tenant.Operation("sandbox-payments", "none"))
		require.Nil(t, tenant.Operation("none", "create_refund"))
	})

	requireRefusals(t, []refusal{
		{"ARoleThatIsNone", "actions.yaml", written, "    resolve: {roles: [boss]}\n", `resolve has "boss", but nobody can hold the role`},
		{"AnUnknownSetting", "actions.yaml", written, "    resolve: {quietly: true}\n",
			"quietly is not a known setting here, allowed: roles, second_person, alert_after"},
	})
}
