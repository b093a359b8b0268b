package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestWhatACardShows is the part of A10 that is declared. None of it decides anything.
func TestWhatACardShows(t *testing.T) {
	t.Parallel()
	load := func(t *testing.T, changes ...func(*world)) *config.Tenant {
		t.Helper()
		w := newWorld(t)
		for _, change := range changes {
			change(w)
		}
		c, err := w.load()
		require.NoError(t, err)
		return c.Tenants[0]
	}
	as := load(t)
	other := load(t, func(w *world) {
		w.replace("actions.yaml", "card: {purpose: /note}", "card: {paying_entity: /payer, draft: /text, label: /label, score: /score}")
		w.replace("connectors.yaml", `values: ""`, "fields: {/fields/city: /address/city}")
		w.replace("tenant.yaml", "# time_zone: Europe/Lisbon", "time_zone: Europe/Lisbon")
	})

	require.Equal(t, config.Card{Purpose: "/note"}, as.Action("payment.refund").Card)
	require.Equal(t, config.Card{PayingEntity: "/payer", Draft: "/text", Label: "/label", Score: "/score"}, other.Action("payment.refund").Card)
	require.Equal(t, as.PolicyVersion, other.PolicyVersion, "no decision depends on what is shown")
	require.Nil(t, as.TimeZone)
	lisbon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).In(other.TimeZone)
	require.Equal(t, 13, lisbon.Hour())

	read := as.Operation("sandbox-crm", "update_contact").Read
	require.True(t, read.Compares())
	at, declared := read.Held("/fields/city")
	require.Equal(t, "/fields/city", at)
	require.True(t, declared)
	read = other.Operation("sandbox-crm", "update_contact").Read
	at, _ = read.Held("/fields/city")
	require.Equal(t, "/address/city", at)
	_, declared = read.Held("/fields/citys")
	require.False(t, declared, "a pointer goes by whole members")
	require.False(t, (&config.Read{}).Compares())
	require.True(t, as.Operation("sandbox-crm", "update_contact").Verifies(), "what can be compared is verified after an update (R7)")
	require.False(t, as.Operation("sandbox-payments", "create_refund").Verifies())
	trusting := load(t, func(w *world) {
		w.replace("connectors.yaml", `values: ""`, "values: \"\"\n          postcondition: skip")
	})
	require.False(t, trusting.Operation("sandbox-crm", "update_contact").Verifies())
	require.Nil(t, as.Operation("sandbox-crm", "none"))
	require.Nil(t, as.Operation("none", "update_contact"))

	for zone, says := range map[string]string{"Mars/Olympus": "is no time zone of the IANA's", "Local": "is no time zone of the IANA's",
		"../etc/passwd": "the IANA's name of a time zone"} {
		w := newWorld(t)
		w.replace("tenant.yaml", "# time_zone: Europe/Lisbon", "time_zone: "+zone)
		_, err := w.load()
		require.ErrorContains(t, err, says, zone)
	}
}
