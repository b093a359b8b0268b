package policy

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
)

// Clocks of an approval for action types that declare none, such as unregistered ones that still reach a person.
const (
	defaultDecideWithin  = 24 * time.Hour
	defaultExecuteWithin = time.Hour
)

// decideOne goes from an intent to a decision. An error means that this process cannot decide: a tenant that it does
// not know, an intent of a newer release, a panic. Nothing follows from it, neither an authorization nor a rejection
// (POL-02).
func (p *Policy) decideOne(u *ledger.Undecided, event uuid.UUID) (d ledger.Decision, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.env.Log.Error("deciding an intent panicked", "tenant", u.TenantID, "run", u.RunID, "panic", cause,
				"stack", string(debug.Stack()))
			err = fmt.Errorf("the evaluation panicked: %v", cause)
		}
	}()
	t, err := p.policies.Of(u.TenantID)
	if err != nil {
		return d, err
	}
	actions, err := intent.ReadActions(u.Canonical, u.IntentHash)
	if err != nil {
		return d, err
	}
	verdict, a := t.judge(actions, u.Now)
	route, reasons := verdict.Route, verdict.Reasons
	d = ledger.Decision{
		EventID: event, DecisionID: uuid.New(), Intent: u,
		PolicyVersion: verdict.PolicyVersion + "/" + verdict.EngineVersion, InputsHash: verdict.InputsHash,
		DecideWithin: defaultDecideWithin, ExecuteWithin: defaultExecuteWithin,
	}
	for _, s := range actions {
		d.Effects = append(d.Effects, s.Effect(t.declared))
	}
	if a == nil {
		return because(d, route, reasons), nil
	}
	d.DecideWithin, d.ExecuteWithin, d.Audience = a.DecideWithin, a.ExecuteWithin, a.Audience
	d.Revisions = ledger.Revisions(a.Revisions)
	if a.Shadow {
		return because(d, config.RouteReject, append(slices.Clone(reasons), shadowReason(route))), nil
	}
	d = excepted(t.limited(because(d, route, reasons), actions, reasons), verdict, reasons)
	return t.alone(d, actions, reasons)
}

// alone has the decision look for intents that want nearly the same as one of the actions (K13). Where two of its own do, a person is asked
// at once.
func (t *tenant) alone(d ledger.Decision, actions []*intent.Snapshot, reasons []engine.Reason) (ledger.Decision, error) {
	var check ledger.NearCheck
	wanted := map[string]int{}
	for i, s := range actions {
		a := t.actions[s.ActionType]
		if a.NearDuplicate == nil {
			continue
		}
		if len(actions) > 1 && d.Route == config.RouteAuto {
			hash, err := s.Near(a)
			if err != nil {
				return d, err
			}
			if first := wanted[string(hash)]; first > 0 {
				reasons = append(slices.Clone(reasons), engine.Reason{Code: engine.CodeNearDuplicate,
					Message: fmt.Sprintf("Actions %d and %d want nearly the same.", first, s.Ordinal)})
				d = because(d, config.RouteHumanReview, reasons)
			}
			wanted[string(hash)] = s.Ordinal
		}
		if i == 0 {
			check.Within = a.NearDuplicate.Within
			continue
		}
		hash, err := s.Near(a)
		if err != nil {
			return d, err
		}
		check.Others = append(check.Others, ledger.NearWish{Hash: hash, Within: a.NearDuplicate.Within})
	}
	if check.Within == 0 && len(check.Others) == 0 {
		return d, nil
	}
	bare := d
	check.Review = func(twin *ledger.Twin) ledger.Decision {
		return because(bare, config.RouteHumanReview, append(slices.Clone(reasons), nearReason(twin)))
	}
	d.Near = &check
	return d, nil
}

// evaluate is what rules and registry say, whatever else was authorized.
func (t *tenant) evaluate(s *intent.Snapshot, now time.Time) engine.Decision {
	verdict := t.engine.Decide(s.Input(now))
	verdict.Route, verdict.Reasons = t.registry(s, verdict.Route, verdict.Reasons)
	return verdict
}

// shadowReason keeps the route that an intent would have taken, were its type not in shadow mode (P10).
func shadowReason(route string) engine.Reason {
	return engine.Reason{Code: engine.CodeShadow, Route: route,
		Message: "Its type is in shadow mode: nothing is sent and nobody is asked. The route would have been " + route + "."}
}

// because is a decision for these reasons.
func because(d ledger.Decision, route string, reasons []engine.Reason) ledger.Decision {
	d.Route, d.Summary = route, summary(reasons)
	d.ReasonCodes = engine.Decision{Reasons: reasons}.Codes()
	d.Reasons, _ = json.Marshal(reasons) // texts alone
	return d
}

// nearReason leads a reviewer to what was asked for before (K13).
func nearReason(twin *ledger.Twin) engine.Reason {
	message := fmt.Sprintf("Nearly the same was asked for at %s under the key %q.",
		twin.SubmittedAt.UTC().Format(time.RFC3339), twin.Key)
	if twin.OperationID != "" {
		message += " Its effect is " + twin.OperationID
		if twin.ExternalID != "" {
			message += ", the provider's " + twin.ExternalID
		}
		message += "."
	}
	return engine.Reason{Code: engine.CodeNearDuplicate, Message: message}
}

// registry sends an intent to a person whose connector or operation is not the one that its type names by now.
func (t *tenant) registry(s *intent.Snapshot, route string, reasons []engine.Reason) (string, []engine.Reason) {
	a := t.actions[s.ActionType]
	if a == nil || (a.Connector == s.Connector && a.Operation == s.Operation) {
		return route, reasons
	}
	if engine.Stricter(config.RouteHumanReview, route) {
		route = config.RouteHumanReview
	}
	return route, append(reasons, engine.Reason{
		Code: "registry_changed", Message: "The action type names another connector or operation since this was submitted.",
	})
}

// summary is all that bore on the decision, for a person.
func summary(reasons []engine.Reason) string {
	messages := make([]string, len(reasons))
	for i, r := range reasons {
		messages[i] = r.Message
	}
	return strings.Join(messages, " ")
}
