package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// clockSkew is how far ahead of our clock a proposer's may run. Evidence from further in the future has a made-up time,
// which would never become stale.
const clockSkew = time.Minute

// applyBuiltIns makes the checks that no rule can lower (P3, P5, M6).
func (a *action) applyBuiltIns(d *Decision, in *Input, workflows []string) {
	review := func(code, format string, args ...any) {
		d.raise(config.RouteHumanReview, Reason{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	for _, rule := range a.Evidence {
		checkEvidence(rule, in, review)
	}
	if why := contradiction(in); why != "" {
		review(CodeEvidenceContradictory, "%s", why)
	}
	if !a.Reversible {
		review(CodeIrreversible, "The action cannot be undone.")
	}
	if !slices.Contains(workflows, in.WorkflowVersion) {
		review(CodeWorkflowUndeclared, "The workflow version is not among the declared active ones.")
	}
	switch in.Uncertainty {
	case "", "low", "medium":
	default:
		review(CodeUncertaintyHigh, "The proposer states high uncertainty.")
	}
	if !a.Unattended() {
		review(CodeProfession, "A qualified professional must decide: %s.", a.Profession)
	}
}

// checkEvidence wants every item of the source to be fresh: an old item beside a new one was still relied on.
func checkEvidence(rule config.EvidenceRule, in *Input, review func(code, format string, args ...any)) {
	cited := false
	for _, e := range in.Evidence {
		if e.Source != rule.Source {
			continue
		}
		cited = true
		age := in.Now.Sub(e.ObservedAt)
		switch {
		case e.ObservedAt.IsZero():
			review(CodeEvidenceStale, "Evidence from %s does not say when it was observed.", rule.Source)
		case age < -clockSkew:
			review(CodeEvidenceStale, "Evidence from %s claims to be observed in the future.", rule.Source)
		case age > rule.MaxAge:
			review(CodeEvidenceStale, "Evidence from %s is older than %s.", rule.Source, rule.MaxAge)
		}
	}
	if !cited {
		review(CodeEvidenceMissing, "Evidence from %s is missing.", rule.Source)
	}
}

// contradiction says how the evidence disagrees with itself or with the version that the change is meant for.
func contradiction(in *Input) string {
	ofTarget, current := false, false
	for i, e := range in.Evidence {
		for _, other := range in.Evidence[:i] {
			if e.Source == other.Source && e.URL == other.URL && e.Version != other.Version {
				return fmt.Sprintf("Evidence from %s cites two versions of the same record.", e.Source)
			}
		}
		ofTarget = ofTarget || e.Source == in.Target.System
		current = current || e.Source == in.Target.System && e.Version == in.CurrentVersion
	}
	if in.CurrentVersion != "" && ofTarget && !current {
		return "The evidence is of another version of the target than the one to be changed."
	}
	return ""
}
