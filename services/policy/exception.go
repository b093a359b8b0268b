package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
)

// excepted has a decision of route auto be held as long as its rules say, and stand only as long as no class of exceptions by which
// it acts was stopped (P4). Every rule that matched counts: the strictest of what they ask for holds.
func excepted(d ledger.Decision, verdict engine.Decision, reasons []engine.Reason) ledger.Decision {
	if d.Route != config.RouteAuto {
		return d
	}
	d.Window = verdict.Window()
	var classes []ledger.Class
	for _, r := range verdict.Rules {
		if e := r.Exception; e != nil {
			classes = append(classes, ledger.Class{Rule: r.ID, Evaluation: e.Evaluation, OneIn: e.OneIn, ReviewWithin: e.ReviewWithin})
		}
	}
	if len(classes) == 0 {
		return d
	}
	alone := d
	alone.Window = 0
	d.Exceptions = &ledger.ExceptionCheck{Classes: classes, Review: func(s *ledger.Stopped) ledger.Decision {
		return because(alone, config.RouteHumanReview, append(slices.Clone(reasons), stoppedReason(s)))
	}}
	return d
}

// stoppedReason tells a reviewer why the rule lets nothing act now.
func stoppedReason(s *ledger.Stopped) engine.Reason {
	if s.Reason == "" {
		return engine.Reason{Code: engine.CodeSamplesOverdue, RuleID: s.Rule, Message: fmt.Sprintf(
			"Rule %s lets nothing act now: %d of its samples should have been looked at within %s.", s.Rule, s.Overdue,
			s.ReviewWithin.Round(time.Second))}
	}
	return engine.Reason{Code: engine.CodeExceptionStopped, RuleID: s.Rule, Message: fmt.Sprintf(
		"Rule %s lets nothing act on the strength of evaluation %s any more: %s stopped it, %s.", s.Rule, s.Evaluation, s.By, s.Reason)}
}
