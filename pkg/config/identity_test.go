package config_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestIdentity(t *testing.T) {
	t.Parallel()

	const other = "https://id.example.com"
	nora := &config.Person{ID: "nora", Subject: "0a1B", Email: "Nora@example.test", Aliases: []string{"n.lead"}}
	sam := &config.Person{ID: "sam", Subject: "0a1B", Issuer: other, Disabled: true}
	tenant := &config.Tenant{People: []*config.Person{nora, sam}, Roles: []*config.Role{
		{Name: "operator", Claims: map[string][]string{"groups": {"ops", "sre"}, "dept": {"it"}}},
		{Name: "lead", Claims: map[string][]string{"groups": {"leads"}}},
		{Name: "lead", Claims: map[string][]string{"dept": {"support"}}},
	}}

	subjects := []struct {
		name, issuer, subject string
		want                  *config.Person
	}{
		{"TheDeploymentsOwnIssuer", "", "0a1B", nora},
		{"AnotherIssuersSubjectIsAnotherPerson", other, "0a1B", sam},
		{"LetterCaseCounts", "", "0A1B", nil},
		{"ASlashMoreIsAnotherIssuer", other + "/", "0a1B", nil},
		{"AnEmailIsNoSubject", "", "Nora@example.test", nil},
		{"NoSubject", "", "", nil},
	}
	for _, tc := range subjects {
		t.Run("BySubject/"+tc.name, func(t *testing.T) {
			t.Parallel()
			require.Same(t, tc.want, tenant.PersonBySubject(tc.issuer, tc.subject))
		})
	}

	aliases := []struct {
		name, alias string
		want        *config.Person
	}{
		{"TheID", "nora", nora},
		{"TheEmailInOtherLetterCase", "nora@EXAMPLE.test", nora},
		{"AnAliasWithSpaceAround", "\tN.Lead ", nora},
		{"ADisabledPersonIsStillWhoAsked", "SAM", sam},
		{"LettersWithTheSameUpperCase", "ſam", sam},
		{"TheSubjectIsNoAlias", "0a1B", nil},
		{"Nothing", "", nil}, // sam has no email
		{"SpaceAlone", " ", nil},
	}
	for _, tc := range aliases {
		t.Run("ByAlias/"+tc.name, func(t *testing.T) {
			t.Parallel()
			require.Same(t, tc.want, tenant.PersonByAlias(tc.alias))
		})
	}

	claims := []struct {
		name, claims string
		want         []string
	}{
		{"AText", `{"groups": "sre"}`, []string{"operator"}},
		{"AList", `{"groups": ["x", "ops"]}`, []string{"operator"}},
		{"AnyClaimIsEnough", `{"groups": [], "dept": "it"}`, []string{"operator"}},
		{"SortedAndEachOnce", `{"groups": ["sre", "ops", "leads"], "dept": "support"}`, []string{"lead", "operator"}},
		{"LetterCaseCounts", `{"groups": ["OPS"], "Dept": "it"}`, nil},
		{"APartOfATextIsNone", `{"groups": "ops leads"}`, nil},
		{"OtherKindsGiveNothing", `{"groups": {"ops": true}, "dept": [["it"], 1, null]}`, nil},
		{"NoClaims", `null`, nil},
	}
	for _, tc := range claims {
		t.Run("RolesOf/"+tc.name, func(t *testing.T) {
			t.Parallel()
			var parsed map[string]any
			require.NoError(t, json.Unmarshal([]byte(tc.claims), &parsed))
			require.Equal(t, tc.want, tenant.RolesOf(parsed))
		})
	}

	t.Run("RolesOf/AListOfGoTexts", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"lead"}, tenant.RolesOf(map[string]any{"groups": []string{"leads"}}))
	})
}
