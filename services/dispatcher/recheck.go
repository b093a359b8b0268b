package dispatcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/policy"
)

// agrees compares the effect's own columns with the snapshot whose hash was authorized: what is sent is what was
// hashed.
func agrees(s *intent.Snapshot, e *ledger.Leased) error {
	for _, pair := range [][3]string{
		{"tenant", s.TenantID, e.TenantID},
		{"run key", s.RunKey, e.RunKey},
		{"action type", s.ActionType, e.ActionType},
		{"connector", s.Connector, e.Connector},
		{"operation", s.Operation, e.Operation},
		{"target system", s.TargetSystem, e.TargetSystem},
		{"target record", s.TargetRecord, e.TargetRecord},
	} {
		if pair[1] != pair[2] {
			return fmt.Errorf("the effect's %s is %q, but %q was authorized", pair[0], pair[2], pair[1])
		}
	}
	return nil
}

// recheck settles an effect that was certainly not sent before, where something has changed since it was authorized or
// cannot be found out (D4).
func (d *Dispatcher) recheck(
	ctx context.Context, a *attempt, s *intent.Snapshot, op connector.Operation,
) (ledger.Settlement, bool) {
	changed, err := d.policyNow(a, s)
	changed = append(changed, stopped(a)...)
	if err == nil && len(changed) == 0 {
		changed, err = targetNow(ctx, a.target.conn, s, op)
	}
	if err != nil {
		if errors.Is(err, connector.ErrUnavailable) {
			a.health = down
		}
		return d.follow(a, connector.Result{Class: outcome.NotSent, Detail: err.Error()}), true
	}
	if len(changed) > 0 {
		return d.review(a, s, changed), true
	}
	return ledger.Settlement{}, false
}

// policyNow decides again, by the active rules, workflow versions and age of the evidence. What a person has authorized may be
// what policy sends to people. The active policy was read at most active.MaxAge before the effect was leased (see lease), and is
// not compared again at a commit, as it is where something is authorized: the authorization was made under the version that was
// active then, so that an activation alone takes nothing back. What must stop at once, a kill switch stops (D9), and that is
// compared in the transaction right before the first byte.
func (d *Dispatcher) policyNow(a *attempt, s *intent.Snapshot) ([]policy.Reason, error) {
	t, err := d.policies.Of(a.TenantID)
	if err != nil {
		return nil, err
	}
	decision := t.engine.Decide(s.Input(a.now()))
	allowed := config.RouteAuto
	if a.PolicyVersion == "" {
		allowed = config.RouteHumanReview
	}
	if policy.Stricter(decision.Route, allowed) {
		return decision.Reasons, nil
	}
	if action := t.actions[s.ActionType]; action.Connector != s.Connector || action.Operation != s.Operation {
		return []policy.Reason{{
			Code: "registry_changed", Message: "The action type names another connector or operation by now.",
		}}, nil
	}
	return nil, nil
}

// stopped names the rules that let the effect act and whose exceptions people have stopped since. What a person authorized is theirs.
func stopped(a *attempt) (reasons []policy.Reason) {
	if a.PolicyVersion == "" {
		return nil
	}
	for _, rule := range a.StoppedRules {
		reasons = append(reasons, policy.Reason{Code: policy.CodeExceptionStopped, RuleID: rule,
			Message: "Rule " + rule + " let it act; a sample of its cases has turned out to be wrong since."})
	}
	return reasons
}

// targetNow compares the target's version with the one that the proposal was made from.
func targetNow(
	ctx context.Context, conn preparer, s *intent.Snapshot, op connector.Operation,
) ([]policy.Reason, error) {
	version, found, err := conn.ReadTarget(ctx, op)
	switch {
	case errors.Is(err, connector.ErrNotDeclared):
		return nil, nil
	case err != nil:
		return nil, err
	case !found:
		return []policy.Reason{{Code: "target_gone", Message: "The target no longer exists."}}, nil
	case s.CurrentVersion != "" && version != s.CurrentVersion:
		return []policy.Reason{targetChanged(s, version)}, nil
	}
	return nil, nil
}

// targetChanged names both versions, for the person who decides again (D5).
func targetChanged(s *intent.Snapshot, version string) policy.Reason {
	return policy.Reason{Code: "target_changed", Message: fmt.Sprintf(
		"The target is at version %s; the proposal was made from version %s.", version, s.CurrentVersion)}
}
