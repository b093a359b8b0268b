package policy

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
)

// judge is what rules and registry say of an intent's actions, and what a decision on them takes; nil where the type of one is not
// registered, or nobody may decide on all of them. The actions of an intent stand and fall together: the strictest route is the route of
// all (D10).
func (t *tenant) judge(actions []*intent.Snapshot, now time.Time) (engine.Decision, *config.Action) {
	if len(actions) == 1 {
		return t.evaluate(actions[0], now), t.actions[actions[0].ActionType]
	}
	var all engine.Decision
	var registered []*config.Action
	inputs := sha256.New()
	for i, s := range actions {
		one := t.evaluate(s, now)
		inputs.Write(one.InputsHash[:])
		if i == 0 || engine.Stricter(one.Route, all.Route) {
			all.Route = one.Route
		}
		all.PolicyVersion, all.EngineVersion = one.PolicyVersion, one.EngineVersion
		for _, r := range one.Reasons {
			r.Message = fmt.Sprintf("Action %d, %s: %s", s.Ordinal, s.ActionType, r.Message)
			all.Reasons = append(all.Reasons, r)
		}
		all.Rules = append(all.Rules, one.Rules...)
		if a := t.actions[s.ActionType]; a != nil {
			registered = append(registered, a)
		}
	}
	inputs.Sum(all.InputsHash[:0])
	if len(registered) < len(actions) {
		return all, nil // and rejected, because its type is not registered (P1)
	}
	together, err := config.Together(registered)
	if err != nil {
		all.Route, all.Rules = config.RouteReject, nil
		all.Reasons = append(all.Reasons, engine.Reason{Code: codeApart,
			Message: "These actions cannot be decided on together, because " + err.Error() + ". Propose them one by one."})
		return all, nil
	}
	return all, together
}

// codeApart says that nobody may decide on all actions of an intent.
const codeApart = "decide_apart"
