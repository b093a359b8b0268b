package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestStages: groups and stages that different people can satisfy load, and others are refused (A16, P9).
func TestStages(t *testing.T) {
	t.Parallel()

	const operators = "{groups: [operators]}"
	setup := func(t *testing.T, stages, leads, others string) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("actions.yaml", "audience: [support-lead]", "audience: [support-lead, operator]")
		w.replace("actions.yaml", "      quorum: 1 #", "      stages: "+stages+" #")
		w.replace("people.yaml", "{groups: [support-leads]}", "{groups: [support-leads]}\n    members: "+leads)
		if others != "" {
			w.replace("people.yaml", operators, operators+"\n    members: "+others)
		}
		return w
	}
	refused := func(t *testing.T, w *world, says ...string) {
		t.Helper()
		_, err := w.load()
		for _, text := range append(says, "1 to mend:\n") {
			require.ErrorContains(t, err, text)
		}
	}
	const both = "[{groups: [{role: support-lead}, {role: operator}]}]"

	t.Run("TheQuorumIsWhatAllGroupsComeTo", func(t *testing.T) {
		t.Parallel()
		loaded, err := setup(t, "[{groups: [{role: support-lead, approvals: 2}]}, {groups: [{role: operator}]}]", "[nora, sam]", "").load()
		require.NoError(t, err)
		review := loaded.Tenants[0].Action("payment.refund").Review
		require.Equal(t, 3, review.Quorum)
		require.Equal(t, []config.Stage{{Groups: []config.Group{{Role: "support-lead", Approvals: 2}}},
			{Groups: []config.Group{{Role: "operator", Approvals: 1}}}}, review.Stages)
	})

	t.Run("SomebodyInBothGroupsIsMovedToTheOneThatNeedsThem", func(t *testing.T) {
		t.Parallel()
		_, err := setup(t, both, "[nora, sam]", "[nora]").load()
		require.NoError(t, err)
	})

	t.Run("OnePersonIsNotTwoGroups", func(t *testing.T) {
		t.Parallel()
		refused(t, setup(t, both, "[nora]", "[nora]"), "actions.yaml:40:", "role asks for 1 of operator, whom only nora may be: too few "+
			"different people are left, since one person counts for one group of payment.refund alone")
	})

	t.Run("OnePersonIsNotTwoStages", func(t *testing.T) {
		t.Parallel()
		refused(t, setup(t, "[{groups: [{role: support-lead}]}, {groups: [{role: support-lead}]}]", "[nora]", ""),
			"asks for 1 of support-lead, whom only nora may be")
	})

	t.Run("ARoleWithoutMembersLeavesItOpen", func(t *testing.T) {
		t.Parallel()
		_, err := setup(t, both, "[nora]", "").load()
		require.NoError(t, err)
	})

	t.Run("WhoAlwaysAsksCannotBeNeeded", func(t *testing.T) {
		t.Parallel()
		w := setup(t, both, "[nora, sam]", "[nora]")
		w.replace("tenant.yaml", "    scopes:", "    owner: nora\n    scopes:")
		refused(t, w, "role leaves only nobody to be operator, since nora answers for the API key demo (tenants/demo/tenant.yaml:10:12)")
	})

	t.Run("WhoNeverCountsIsNotMissed", func(t *testing.T) {
		t.Parallel()
		w := setup(t, both, "[nora, sam]", "[nora]")
		w.replace("tenant.yaml", "    scopes:", "    owner: otto\n    scopes:")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("OnlyTheQualifiedCount", func(t *testing.T) {
		t.Parallel()
		w := setup(t, both, "[nora, sam]", "[otto]")
		w.replace("actions.yaml", "category: payment", "profession: legal")
		w.replace("people.yaml", "    subject: nora\n", "    subject: nora\n    qualifications: [legal]\n")
		refused(t, w, "asks for 1 of operator, whom only nobody may be", "add to the members and qualified people of operator")
	})

	requireRefusals(t, []refusal{
		{"ARoleOutsideTheAudience", "actions.yaml", "quorum: 1", "stages: [{groups: [{role: operator}]}]",
			`actions.yaml:40:33: role is "operator", which is not in the audience of payment.refund, allowed: support-lead`},
		{"StagesBesideAQuorum", "actions.yaml", "quorum: 1", "quorum: 1\n      stages: [{groups: [{role: support-lead}]}]",
			"stages and quorum are both set; leave quorum out"},
		{"NoStage", "actions.yaml", "quorum: 1", "stages: []", "actions.yaml:40:15: stages must list 1 to 10"},
		{"AStageOfNobody", "actions.yaml", "quorum: 1", "stages: [{groups: []}]", "groups must list 1 to 10"},
		{"AStageWithoutGroups", "actions.yaml", "quorum: 1", "stages: [{}]", "groups is missing"},
		{"AGroupOfACrowd", "actions.yaml", "quorum: 1", "stages: [{groups: [{role: support-lead, approvals: 11}]}]",
			"approvals must be a whole number from 1 to 10"},
		{"AGroupOfNoRole", "actions.yaml", "quorum: 1", "stages: [{groups: [{approvals: 1}]}]", "role is missing"},
	})
}
