package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeople(t *testing.T) {
	t.Parallel()

	requireRefusals(t, []refusal{
		{"ARepeatedID", "people.yaml", "id: sam", "id: nora",
			`people.yaml:16:9: id "nora" already means another person at tenants/demo/people.yaml:11:9`},
		{"AnIDThatIsAnothersAlias", "people.yaml", "aliases: [nora.lead]", "aliases: [Sam]",
			`people.yaml:16:9: id "sam" already means another person at tenants/demo/people.yaml:15:15`},
		{"AnAliasThatIsAnothersEmail", "people.yaml", "aliases: [sam.lead]", `aliases: [" NORA@example.test "]`,
			`people.yaml:20:15: aliases " NORA@example.test " already means another person`},
		{"AnAliasInLettersWithTheSameUpperCase", "people.yaml", "aliases: [nora.lead]", "aliases: [ſam]",
			`id "sam" already means another person`},
		{"ARepeatedEmail", "people.yaml", "email: sam@", "email: Nora@", `email "Nora@example.test" already means`},
		{"AnAliasOfNothing", "people.yaml", "aliases: [nora.lead]", "aliases: [' ']",
			"people.yaml:15:15: aliases must hold no empty text"},
		{"ARepeatedSubject", "people.yaml", "subject: sam", "subject: nora",
			`people.yaml:18:14: subject "nora" of the same issuer is another person already at ` +
				"tenants/demo/people.yaml:13:14"},
		{"AMissingSubject", "people.yaml", "    subject: sam\n", "", "subject is missing"},
		{"ASubjectThatNoIssuerGives", "people.yaml", "subject: sam", "subject: säm",
			`subject is "säm", allowed: 1 to 255 ASCII characters`},
		{"AnEmailThatIsNone", "people.yaml", "email: sam@example.test", "email: Sam <sam@example.test>",
			`email is "Sam <sam@example.test>", which must be a mail address such as nora@example.com`},
		{"AnIssuerInTheClear", "people.yaml", "subject: sam", "subject: sam\n    issuer: http://id.example.com",
			`issuer is "http://id.example.com", which must be an https URL without query or fragment`},
		{"AnIssuerWithAQuery", "people.yaml", "subject: sam", "subject: sam\n    issuer: https://id.example.com/?",
			"which must be an https URL without query or fragment"},
		{"AnUnknownPersonSetting", "people.yaml", "subject: sam", "subject: sam\n    roles: [operator]",
			"roles is not a known setting here, allowed: id, name, subject, issuer, email, disabled, qualifications, aliases"},
		{"ARepeatedRole", "people.yaml", "role: operator", "role: support-lead",
			`role "support-lead" is declared already at tenants/demo/people.yaml:39:11`},
		{"ARoleByEmail", "people.yaml", "{groups: [operators]}", "{email: [otto@example.test]}",
			"people.yaml:42:14: email cannot give a role: it is a mutable claim, which can pass to another person"},
		{"ARoleByUserName", "people.yaml", "{groups: [operators]}", "{preferred_username: [otto]}",
			"preferred_username cannot give a role: it is a mutable claim"},
		{"ARoleByName", "people.yaml", "{groups: [operators]}", "{groups: [operators], name: [Otto]}",
			"name cannot give a role: it is a mutable claim"},
		{"ARoleOfNoClaim", "people.yaml", "{groups: [operators]}", "{}", "claims must list at least one claim"},
		{"ARoleWithoutClaims", "people.yaml", "    claims: {groups: [operators]}\n", "", "claims is missing"},
		{"AClaimOfNoValue", "people.yaml", "[operators]", "[]",
			"people.yaml:42:14: groups must list at least one accepted value"},
		{"AnAudienceThatNobodyCanBe", "actions.yaml", "audience: [support-lead]", "audience: [support-lead, finance]",
			`actions.yaml:33:15: audience has "finance", but nobody can hold the role finance: declare it in people.yaml, ` +
				"declared: support-lead, operator, sales-operations"},
		{"AnOwnerWhomNobodyKnows", "tenant.yaml", "    scopes:", "    owner: olga\n    scopes:",
			`tenant.yaml:10:12: owner is "olga", whom people.yaml does not declare, allowed: rita, nora, sam, otto, carl`},
		{"ARequesterThatIsNoPointer", "sources.yaml", "/requested_by", "requested_by",
			`requester is "requested_by", which is no JSON pointer`},
	})

	t.Run("AnAPIKeyMayHaveAnOwner", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("tenant.yaml", "    scopes:", "    owner: otto\n    scopes:")
		loaded, err := w.load()
		require.NoError(t, err)
		require.Equal(t, "otto", loaded.Tenants[0].APIKeys[0].Owner)
	})

	t.Run("OneSubjectOfTwoIssuersIsTwoPeople", func(t *testing.T) {
		t.Parallel()
		for _, issuer := range []string{"https://id.example.com/realms/a", "http://localhost:7072", "http://[::1]:7072"} {
			w := newWorld(t)
			w.replace("people.yaml", "subject: sam", "subject: nora\n    issuer: "+issuer)
			loaded, err := w.load()
			require.NoError(t, err)
			require.Equal(t, "sam", loaded.Tenants[0].PersonBySubject(issuer, "nora").ID)
			require.Equal(t, "nora", loaded.Tenants[0].PersonBySubject("", "nora").ID)
		}
	})

	t.Run("OnesOwnNamesMayRepeatEachOther", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("people.yaml", "aliases: [sam.lead]", "aliases: [SAM, Sam@example.test]")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("WithoutTheFileNobodyIsMissing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		delete(w.fs, demo+"people.yaml")
		w.replace("sources.yaml", "    requester: /requested_by\n", "")
		loaded, err := w.load()
		require.NoError(t, err)
		require.Empty(t, loaded.Tenants[0].People)
		require.Empty(t, loaded.Tenants[0].Roles)
		require.Empty(t, loaded.Tenants[0].Channels)
	})

	t.Run("WithoutTheFileNobodyCanHaveAsked", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		delete(w.fs, demo+"people.yaml")
		_, err := w.load()
		require.ErrorContains(t, err, "1 to mend:\n"+
			"tenants/demo/sources.yaml:21:16: requester needs a file people.yaml: who asked is looked up there")
	})

	t.Run("ABrokenFileIsReportedAndReferencesIntoItAreNot", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("people.yaml", "people:\n", "people: [\n")
		_, err := w.load()
		require.ErrorContains(t, err, "1 to mend:\ntenants/demo/people.yaml:")
		require.ErrorContains(t, err, "not valid YAML")
	})
}
