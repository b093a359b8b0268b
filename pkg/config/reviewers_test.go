package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const leads = "  - role: support-lead\n    claims: {groups: [support-leads]}\n"

// What nobody could ever approve is refused when the files are read (P9).
func TestAReviewThatCannotBeSatisfied(t *testing.T) {
	t.Parallel()

	const closed = leads + "    members: [nora, sam]\n"
	setup := func(t *testing.T, quorum string) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("people.yaml", leads, closed)
		w.replace("actions.yaml", "      quorum: 1 #", "      quorum: "+quorum+" #")
		return w
	}
	refused := func(t *testing.T, w *world, says ...string) {
		t.Helper()
		_, err := w.load()
		for _, text := range append(says, "1 to mend:\n") {
			require.ErrorContains(t, err, text)
		}
	}

	t.Run("AsManyAsThereAreIsEnough", func(t *testing.T) {
		t.Parallel()
		loaded, err := setup(t, "2").load()
		require.NoError(t, err)
		require.Equal(t, []string{"nora", "sam"}, loaded.Tenants[0].Roles[0].Members)
	})

	t.Run("AQuorumOfMoreThanThereAre", func(t *testing.T) {
		t.Parallel()
		refused(t, setup(t, "3"),
			"tenants/demo/actions.yaml:40:15: quorum is 3, but only nora, sam may approve payment.refund; "+
				"lower it, or add to the members of support-lead (P9)")
	})

	t.Run("SomebodyDisabledDoesNotCount", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "2")
		w.replace("people.yaml", "    subject: sam\n", "    subject: sam\n    disabled: true\n")
		refused(t, w, "quorum is 2, but only nora may approve payment.refund")
	})

	t.Run("SomebodyInTwoRolesCountsOnce", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "3")
		w.replace("actions.yaml", "audience: [support-lead]", "audience: [support-lead, operator]")
		w.replace("people.yaml", "{groups: [operators]}", "{groups: [operators]}\n    members: [sam]")
		refused(t, w, "quorum is 3, but only nora, sam may approve")
	})

	t.Run("AQuorumThatIsLeftOutIsOne", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "1")
		w.replace("actions.yaml", "      quorum: 1 #", "      typed_reason: true #")
		w.replace("people.yaml", "[nora, sam]", "[nora]")
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    disabled: true\n")
		refused(t, w, "actions.yaml:33:15: audience must let 1 approve, but only nobody may approve payment.refund")
	})

	t.Run("ARoleWithoutMembersLeavesItOpen", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "3")
		w.replace("actions.yaml", "audience: [support-lead]", "audience: [support-lead, operator]")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("WhoAlwaysAsksCannotBeTheOnlyOne", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "1")
		w.replace("people.yaml", "[nora, sam]", "[nora]")
		w.replace("tenant.yaml", "    scopes:", "    owner: nora\n    scopes:")
		refused(t, w,
			"actions.yaml:33:15: audience leaves only nora to approve payment.refund, of whom nora answers for the API "+
				"key demo (tenants/demo/tenant.yaml:10:12)", "give the key another owner (P9, A5)")
	})

	t.Run("WhoAlwaysAsksCannotBeOneOfTheQuorum", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "2")
		w.replace("tenant.yaml", "    scopes:", "    owner: sam\n    scopes:")
		refused(t, w, "audience leaves only nora, sam to approve payment.refund, of whom sam answers", "2 must approve")
	})

	t.Run("WhoOnlyReadsAsksForNothing", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "2")
		w.replace("tenant.yaml", "    scopes: [publish, work, read]", "    owner: sam\n    scopes: [read]")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("SomebodyElsesKeyIsNoMatter", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "2")
		w.replace("tenant.yaml", "    scopes:", "    owner: otto\n    scopes:")
		_, err := w.load()
		require.NoError(t, err)
	})

	requireRefusals(t, []refusal{
		{"AMemberWhomNobodyKnows", "people.yaml", leads, leads + "    members: [nora, nina]\n",
			`people.yaml:41:14: members has "nina", whom people does not list, allowed: rita, nora, sam, otto, carl`},
		{"NoMembersAtAll", "people.yaml", leads, leads + "    members: []\n",
			"members must list at least one person; leave it out to let everybody hold the role who has a claim"},
	})
}

// A professional's matter needs somebody with the qualification (P5).
func TestQualifications(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("actions.yaml", "category: payment", "profession: regulated_finance")
		return w
	}
	const nobody = "actions.yaml:29:17: profession is regulated_finance, but nobody who may sign in is qualified in it: write " +
		"qualifications: [regulated_finance] at a role or at a person who is not disabled, in people.yaml (P5)"

	t.Run("NobodyHasIt", func(t *testing.T) {
		t.Parallel()
		_, err := setup(t).load()
		require.ErrorContains(t, err, nobody)
	})

	t.Run("SomebodyHasAnother", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    qualifications: [medical]\n")
		_, err := w.load()
		require.ErrorContains(t, err, nobody)
	})

	t.Run("OnlySomebodyDisabledHasIt", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("people.yaml", "    subject: nora\n",
			"    subject: nora\n    disabled: true\n    qualifications: [regulated_finance]\n")
		_, err := w.load()
		require.ErrorContains(t, err, nobody)
	})

	t.Run("FewerHaveItThanMustApprove", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    qualifications: [regulated_finance]\n")
		w.replace("actions.yaml", "      quorum: 1 #", "      quorum: 2 #")
		_, err := w.load()
		require.ErrorContains(t, err,
			"quorum is 2, but only nora may approve payment.refund; lower it, or add to the members and "+
				"qualified people of support-lead (P9)")
	})

	t.Run("WhoHasItIsNoMemberOfTheAudience", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    qualifications: [regulated_finance]\n")
		w.replace("people.yaml", leads, leads+"    members: [sam]\n")
		_, err := w.load()
		require.ErrorContains(t, err, "quorum is 1, but only nobody may approve payment.refund")
	})

	t.Run("APersonOrARoleBringsIt", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    qualifications: [regulated_finance, legal]\n")
		w.replace("people.yaml", "{groups: [operators]}",
			"{groups: [operators]}\n    members: [otto]\n    qualifications: [regulated_finance]")
		loaded, err := w.load()
		require.NoError(t, err)
		tenant := loaded.Tenants[0]
		nora, otto, carl := tenant.PersonBySubject("", "nora"), tenant.PersonBySubject("", "otto"),
			tenant.PersonBySubject("", "carl")
		operators := map[string]any{"groups": []any{"operators", "sales-ops"}}
		finance := []string{"regulated_finance"}
		for _, tc := range []struct {
			who            *config.Person
			claims         map[string]any
			roles, degrees []string
		}{
			{nora, nil, nil, []string{"legal", "regulated_finance"}},
			{nora, operators, []string{"sales-operations"}, []string{"legal", "regulated_finance"}},
			{otto, operators, []string{"operator", "sales-operations"}, finance},
			{otto, nil, nil, nil},
			{carl, operators, []string{"sales-operations"}, nil},
			{nil, operators, []string{"sales-operations"}, nil},
		} {
			require.Equal(t, tc.roles, tenant.RolesHeldBy(tc.who, tc.claims))
			require.Equal(t, tc.degrees, tenant.QualificationsOf(tc.who, tc.claims))
		}
	})

	requireRefusals(t, []refusal{
		{"AQualificationOutsideTheList", "people.yaml", "    subject: nora\n",
			"    subject: nora\n    qualifications: [md]\n",
			`people.yaml:14:22: qualifications has "md", allowed: medical, legal, regulated_finance, child_safety, structural`},
	})
}
