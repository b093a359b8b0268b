package policy

import (
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// Codes of the reasons that a decision can have: a closed list, which dashboards and integrators may rely on.
const (
	CodeUnregistered          = "unregistered_action"
	CodeSchemaInvalid         = "schema_invalid"
	CodeRuleMatched           = "rule_matched"
	CodeRuleError             = "rule_error"
	CodeNoRuleMatched         = "no_rule_matched"
	CodeEvidenceMissing       = "evidence_missing"
	CodeEvidenceStale         = "evidence_stale"
	CodeEvidenceContradictory = "evidence_contradictory"
	CodeIrreversible          = "irreversible"
	CodeWorkflowUndeclared    = "workflow_undeclared"
	CodeUncertaintyHigh       = "uncertainty_high"
	CodeProfession            = "profession_required"
	CodeNearDuplicate         = "near_duplicate"
	CodeLimitExceeded         = "limit_exceeded"
	CodeLimitUnreadable       = "limit_unreadable"
	CodeShadow                = "shadow_mode"
	CodeEvaluationExpired     = "evaluation_expired"
	CodeExceptionStopped      = "exception_stopped"
	CodeSamplesOverdue        = "samples_overdue"
)

// Reason is one thing that bore on a decision.
type Reason struct {
	Code    string `json:"code"`
	RuleID  string `json:"rule_id,omitempty"`
	Pointer string `json:"pointer,omitempty"` // JSON pointer into proposed_change, with CodeSchemaInvalid
	Route   string `json:"route,omitempty"`   // with CodeShadow, the one that would have been taken
	Message string `json:"message"`           // for a person to read
}

// Decision is what policy says about one intent (P2).
type Decision struct {
	Route         string           // one of config's routes
	Reasons       []Reason         // never empty: the rules in the order of the file, then the built-in checks
	PolicyVersion string           // of the configuration that was used
	EngineVersion string           // of this package and its expression library
	InputsHash    canonical.Digest // of everything in Input

	// Rules are those that let the intent act with no person asked, where the route is auto.
	Rules []*config.Rule
}

// Window is how long what is let act is held, the longest of its rules (P4).
func (d Decision) Window() time.Duration {
	var longest time.Duration
	for _, r := range d.Rules {
		longest = max(longest, r.Window)
	}
	return longest
}

// Codes lists the distinct reason codes in order, for an event.
func (d Decision) Codes() []string {
	var codes []string
	seen := map[string]bool{}
	for _, r := range d.Reasons {
		if !seen[r.Code] {
			seen[r.Code] = true
			codes = append(codes, r.Code)
		}
	}
	return codes
}

// rank orders routes by strictness. A route nobody knows is the strictest.
func rank(route string) int {
	switch route {
	case config.RouteAuto:
		return 0
	case config.RouteHumanReview:
		return 1
	case config.RouteRepair:
		return 2
	case config.RouteReject:
		return 3
	}
	return 4
}

// Stricter reports whether route a is stricter than route b.
func Stricter(a, b string) bool { return rank(a) > rank(b) }

// raise takes the stricter of the route so far and another, and keeps the reason.
func (d *Decision) raise(route string, reason Reason) {
	if d.Route == "" || Stricter(route, d.Route) {
		d.Route = route
	}
	d.Reasons = append(d.Reasons, reason)
}
