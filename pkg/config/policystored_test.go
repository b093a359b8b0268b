package config_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestWithPolicy(t *testing.T) { // P7
	t.Parallel()
	loaded := func(t *testing.T, w *world) *config.Tenant {
		t.Helper()
		cfg, err := w.load()
		require.NoError(t, err)
		return cfg.Tenants[0]
	}
	// edited is the example's content with a text replaced, and the version that it has then.
	edited := func(t *testing.T, old, with string) (*config.Tenant, string, []byte) {
		t.Helper()
		tenant := loaded(t, newWorld(t))
		require.Contains(t, string(tenant.PolicyContent), old)
		content := []byte(strings.Replace(string(tenant.PolicyContent), old, with, 1))
		return tenant, config.PolicyVersionOf(content), content
	}

	t.Run("WhatWasStoredComesBackWhole", func(t *testing.T) {
		t.Parallel()
		for _, from := range []*config.Tenant{loaded(t, newWorld(t)), everySetting(t)} {
			joined, err := from.WithPolicy(from.PolicyVersion, from.PolicyContent)
			require.NoError(t, err)
			require.Equal(t, from.PolicyVersion, joined.PolicyVersion)
			require.Equal(t, from.WorkflowVersions, joined.WorkflowVersions)
			require.Len(t, joined.Actions, len(from.Actions))
			for i, a := range from.Actions {
				require.JSONEq(t, string(a.Schema), string(joined.Actions[i].Schema))
				require.Equal(t, asJSON(t, a), asJSON(t, joined.Actions[i]))
			}
			require.Len(t, joined.Rules, len(from.Rules))
			for i, r := range from.Rules {
				require.Equal(t, []string{r.ID, r.Action, r.When, r.Route, r.Reason}, []string{joined.Rules[i].ID, joined.Rules[i].Action,
					joined.Rules[i].When, joined.Rules[i].Route, joined.Rules[i].Reason})
			}
			require.Equal(t, from.Connectors, joined.Connectors)
		}
	})

	t.Run("ItTakesThePlaceOfTheFilesPolicy", func(t *testing.T) {
		t.Parallel()
		tenant, version, content := edited(t, `"5000.00"`, `"7000.00"`)
		joined, err := tenant.WithPolicy(version, content)
		require.NoError(t, err)
		require.Equal(t, "7000.00", joined.Action("payment.refund").Thresholds["refused"])
		require.Equal(t, "5000.00", tenant.Action("payment.refund").Thresholds["refused"], "the files' own stays as it was")
		require.Equal(t, version, joined.PolicyVersion)
	})

	t.Run("ContentOfAnotherHashIsRefused", func(t *testing.T) {
		t.Parallel()
		tenant, _, content := edited(t, `"5000.00"`, `"7000.00"`)
		_, err := tenant.WithPolicy(tenant.PolicyVersion, content)
		require.ErrorContains(t, err, "it was changed after it was stored")
	})

	for name, c := range map[string]struct{ old, with, says string }{
		"AMemberThatThisReleaseDoesNotKnow": {`"Risk":`, `"Leniency":1,"Risk":`, `unknown field "Leniency"`},
		"AConnectorThatIsNotThere":          {`"Connector":"sandbox-crm"`, `"Connector":"old-crm"`, `action crm.contact.update: connector is "old-crm", which connectors.yaml does not declare`},
		"AnOperationThatIsNotThere":         {`"Operation":"update_contact"`, `"Operation":"upsert"`, `operation is "upsert", which connector sandbox-crm does not have`},
		"ARiskThatNobodyComparesWith":       {`"Risk":"low"`, `"Risk":"tiny"`, `risk is "tiny", which this release does not know`},
		"ARouteThatIsNone":                  {`"Route":"reject"`, `"Route":"pass"`, `route is "pass", which is no route of this release`},
		"AReviewOfNobody":                   {`"Quorum":1`, `"Quorum":0`, "review asks for nobody's approval"},
		"AnAudienceOfNobody":                {`"Audience":["support-lead"]`, `"Audience":["finance"]`, "nobody can hold the role finance"},
		"MoreAfterItsEnd":                   {`{"Actions"`, `{} {"Actions"`, "more follows its end"},
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			tenant, version, content := edited(t, c.old, c.with)
			_, err := tenant.WithPolicy(version, content)
			require.ErrorContains(t, err, c.says)
		})
	}

	t.Run("WhatTheFilesNoLongerOfferIsNotDecidedOn", func(t *testing.T) { // P6
		t.Parallel()
		before := loaded(t, newWorld(t))
		w := newWorld(t)
		w.replace("connectors.yaml", "name: update_contact", "name: change_contact")
		w.replace("actions.yaml", "operation: update_contact", "operation: change_contact")
		_, err := loaded(t, w).WithPolicy(before.PolicyVersion, before.PolicyContent)
		require.ErrorContains(t, err, `operation is "update_contact", which connector sandbox-crm does not have, allowed: change_contact`)
	})
}

func asJSON(t *testing.T, a *config.Action) string {
	t.Helper()
	bare := *a
	bare.Schema = nil
	text, err := json.Marshal(bare)
	require.NoError(t, err)
	return string(text)
}

func everySetting(t *testing.T) *config.Tenant {
	t.Helper()
	cfg, err := config.LoadEnv(os.DirFS("testdata/every_setting"), func(name string) (string, bool) {
		if strings.HasSuffix(name, "_CHAT") {
			return "https://chat.example.com/services/x", true
		}
		return "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", strings.HasSuffix(name, "_SECRET")
	})
	require.NoError(t, err)
	return cfg.Tenants[0]
}
