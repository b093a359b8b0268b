package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// Each case starts from an input that would be auto, and no auto rule can lower what the built-in check raises.
func TestBuiltIns(t *testing.T) {
	t.Parallel()

	cases := []struct {
		name   string
		change func(*world)
		code   string // "" stays auto
		says   string
	}{
		{"NothingAmissIsAuto", func(*world) {}, "", ""},
		{"MissingEvidence", func(w *world) { w.input.Evidence = nil }, CodeEvidenceMissing, "Evidence from crm is missing."},
		{"EvidenceFromElsewhere", func(w *world) { w.input.Evidence[0].Source = "CRM" }, CodeEvidenceMissing, ""},
		{"EvidenceAtItsAgeLimitIsFresh", func(w *world) { w.input.Evidence[0].ObservedAt = noon.Add(-24 * time.Hour) }, "",
			""},
		{"StaleEvidence", func(w *world) { w.input.Evidence[0].ObservedAt = noon.Add(-24*time.Hour - time.Microsecond) },
			CodeEvidenceStale, "Evidence from crm is older than 24h0m0s."},
		{"AgeIsCountedToTheInputsClock", func(w *world) { w.input.Now = noon.Add(48 * time.Hour) }, CodeEvidenceStale, ""},
		{"StaleEvidenceBesideFresh", func(w *world) {
			old := Evidence{Source: "crm", Version: "7", ObservedAt: noon.Add(-25 * time.Hour)}
			w.input.Evidence = append(w.input.Evidence, old)
		}, CodeEvidenceStale, ""},
		{"UndatedEvidence", func(w *world) { w.input.Evidence[0].ObservedAt = time.Time{} }, CodeEvidenceStale,
			"does not say when"},
		{"EvidenceFromAClockSlightlyAhead", func(w *world) { w.input.Evidence[0].ObservedAt = noon.Add(clockSkew) }, "", ""},
		{"EvidenceFromTheFuture", func(w *world) { w.input.Evidence[0].ObservedAt = noon.Add(clockSkew + time.Microsecond) },
			CodeEvidenceStale, "in the future"},
		{"TwoVersionsOfOneRecord", func(w *world) {
			w.input.Evidence = append(w.input.Evidence, Evidence{Source: "crm", Version: "8", ObservedAt: noon})
		}, CodeEvidenceContradictory, "two versions of the same record"},
		{"TwoRecordsOfOneSource", func(w *world) {
			account := Evidence{Source: "crm", Version: "8", URL: "/accounts/1", ObservedAt: noon}
			w.input.Evidence = append(w.input.Evidence, account)
		}, "", ""},
		{"EvidenceOfAnotherVersionThanTheTarget's", func(w *world) { w.input.CurrentVersion = "8" },
			CodeEvidenceContradictory, "another version of the target"},
		{"ATargetWithoutVersions", func(w *world) { w.input.CurrentVersion = "" }, "", ""},
		{"AnIrreversibleType", func(w *world) { w.action.Reversible = false }, CodeIrreversible, "cannot be undone"},
		{"AnUndeclaredWorkflowVersion", func(w *world) { w.input.WorkflowVersion = "crm-enrichment@2" },
			CodeWorkflowUndeclared, ""},
		{"NoWorkflowVersion", func(w *world) { w.input.WorkflowVersion = "" }, CodeWorkflowUndeclared, ""},
		{"HighUncertainty", func(w *world) { w.input.Uncertainty = "high" }, CodeUncertaintyHigh, ""},
		{"MediumUncertainty", func(w *world) { w.input.Uncertainty = "medium" }, "", ""},
		{"UncertaintyInOtherWords", func(w *world) { w.input.Uncertainty = "HIGH" }, CodeUncertaintyHigh, ""},
		{"AProfessionalsMatter", func(w *world) { w.action.Profession = "medical" }, CodeProfession,
			"A qualified professional must decide: medical."},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rule(config.RouteAuto, "true")
			tc.change(w)
			if tc.code == "" {
				w.requireRoute(config.RouteAuto, CodeRuleMatched)
				return
			}
			d := w.requireRoute(config.RouteHumanReview, CodeRuleMatched, tc.code)
			require.Contains(t, d.Reasons[1].Message, tc.says)
		})
	}

	t.Run("AStricterRuleIsNotLowered", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteReject, "true")
		w.action.Reversible = false
		w.requireRoute(config.RouteReject, CodeRuleMatched, CodeIrreversible)
	})

	t.Run("AllThatIsAmissIsNamedInOrder", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.action.Reversible, w.action.Profession = false, "legal"
		w.input.Evidence[0].ObservedAt = time.Time{}
		w.input.CurrentVersion, w.input.WorkflowVersion, w.input.Uncertainty = "9", "", "high"
		w.requireRoute(config.RouteHumanReview, CodeNoRuleMatched, CodeEvidenceStale, CodeEvidenceContradictory,
			CodeIrreversible, CodeWorkflowUndeclared, CodeUncertaintyHigh, CodeProfession)
	})
}
