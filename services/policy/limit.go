package policy

import (
	"fmt"
	"slices"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
)

// limited has a decision of route auto stay within the limits of its action types (P8). What cannot be counted goes to a person.
func (t *tenant) limited(d ledger.Decision, actions []*intent.Snapshot, reasons []engine.Reason) ledger.Decision {
	if d.Route != config.RouteAuto {
		return d
	}
	var draws []ledger.Draw
	for _, s := range actions {
		more, err := s.Draws(t.actions[s.ActionType])
		if err != nil {
			return because(d, config.RouteHumanReview, append(slices.Clone(reasons),
				engine.Reason{Code: engine.CodeLimitUnreadable, Message: "It cannot be counted: " + err.Error() + "."}))
		}
		draws = append(draws, more...)
	}
	if len(draws) == 0 {
		return d
	}
	alone := d
	d.Limits = &ledger.LimitCheck{Draws: draws, Review: func(over *ledger.Exceeded) ledger.Decision {
		return because(alone, config.RouteHumanReview, append(slices.Clone(reasons), limitReason(over)))
	}}
	return d
}

// limitReason tells a reviewer how much was authorized already.
func limitReason(over *ledger.Exceeded) engine.Reason {
	message := fmt.Sprintf("It would go over the limit %s: in the last %s", over.Limit, over.Window)
	if over.Count > 0 {
		message += fmt.Sprintf(" %d of %d were authorized", over.UsedCount, over.Count)
	}
	if over.Count > 0 && over.Max != "" {
		message += ", and"
	}
	if over.Max != "" {
		message += fmt.Sprintf(" %s of %s; this asks for %s", over.UsedAmount, over.Max, over.Amount)
	}
	return engine.Reason{Code: engine.CodeLimitExceeded, Message: message + "."}
}
