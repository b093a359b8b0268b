package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// EngineVersion names what decides besides the configuration: this package's semantics and the expression library. It
// is stored with every decision, because a library's upgrade can change a verdict.
const EngineVersion = "2+cel-go-0.31.0"

// Engine decides for one tenant under one version of its policy. It is immutable and safe for concurrent use.
type Engine struct {
	version   string
	workflows []string
	actions   map[string]*action
	rules     []*rule // all of them, in the order of the file
}

// action is a registered type, ready to be decided on.
type action struct {
	*config.Action

	schema     *config.Validator
	registered map[string]ref.Val // what rules can read of the declaration
	rules      []*rule            // those for this type and for "*", in the order of the file
	slots      int                // of the paths that rules read
}

// New compiles the tenant's rules and schemas. Its error joins a *config.Error for every rule that does not compile.
func New(tenant *config.Tenant) (*Engine, error) {
	e := &Engine{
		version:   tenant.PolicyVersion,
		workflows: slices.Clone(tenant.WorkflowVersions),
		actions:   make(map[string]*action, len(tenant.Actions)),
	}
	var errs []error
	for _, a := range tenant.Actions {
		ready, err := newAction(a)
		if err != nil {
			errs = append(errs, fmt.Errorf("action %s of tenant %s: %w", a.Type, tenant.ID, err))
		}
		e.actions[a.Type] = ready
	}
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("setting up the expression language: %w", err)
	}
	kept := newSlots(env)
	for _, r := range tenant.Rules {
		compiled, err := compile(env, r, e.actions, kept)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e.rules = append(e.rules, compiled)
		for _, a := range tenant.Actions {
			if r.Action == "*" || r.Action == a.Type {
				e.actions[a.Type].rules = append(e.actions[a.Type].rules, compiled)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, a := range e.actions {
		a.slots = len(kept.number)
	}
	return e, nil
}

func newAction(a *config.Action) (*action, error) {
	schema, err := config.NewValidator(a.Type, a.Schema)
	var numbers []member
	for _, name := range slices.Sorted(maps.Keys(a.Thresholds)) {
		n, bad := plainDecimal(a.Thresholds[name])
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("threshold %s is %w", name, bad))
			continue
		}
		numbers = append(numbers, member{name, n})
	}
	return &action{Action: a, schema: schema, registered: registered(a, objectOf(numbers))}, err
}

// PolicyVersion is the version that decisions of this engine carry; health checks show it.
func (e *Engine) PolicyVersion() string { return e.version }

// Decide routes an intent. It never panics and never errs on the lenient side; see the package's documentation for how
// the route comes about.
func (e *Engine) Decide(in Input) Decision {
	in.Now = in.Now.UTC().Truncate(time.Microsecond)
	hash, size := in.hash()
	d := Decision{PolicyVersion: e.version, EngineVersion: EngineVersion, InputsHash: hash}
	a, registered := e.actions[in.ActionType]
	if !registered {
		d.raise(config.RouteReject, Reason{Code: CodeUnregistered, Message: "The action type is not registered."})
		return d
	}
	if found := a.schema.Check(in.ProposedChange); len(found) > 0 {
		for _, f := range found {
			d.raise(config.RouteReject, Reason{Code: CodeSchemaInvalid, Pointer: f.Pointer, Message: f.Detail})
		}
		return d // rules are written for changes that fit the schema
	}
	a.applyRules(&d, newVariables(a, &in, size))
	a.applyBuiltIns(&d, &in, e.workflows)
	if d.Route != config.RouteAuto {
		d.Rules = nil
	}
	return d
}

func (a *action) applyRules(d *Decision, vars *variables) {
	matched := false
	frame := interpreter.AsFrame(vars)
	for _, r := range a.rules {
		switch match, err := r.applies(vars, frame); {
		case err != nil:
			route := r.Route
			if !Stricter(route, config.RouteHumanReview) {
				route = config.RouteHumanReview
			}
			d.raise(route, Reason{Code: CodeRuleError, RuleID: r.ID,
				Message: fmt.Sprintf("Rule %s could not be evaluated: %v.", r.ID, err)})
		case match:
			matched = true
			d.raise(r.Route, Reason{Code: CodeRuleMatched, RuleID: r.ID, Message: r.Reason})
			d.letsAct(r.Rule, vars.in.Now)
		}
	}
	if !matched {
		d.raise(config.RouteHumanReview, Reason{Code: CodeNoRuleMatched,
			Message: "No rule covers this change, so a person decides."})
	}
}

// letsAct keeps an auto rule that matched. An exception whose evaluation has run out lets nothing act (P4).
func (d *Decision) letsAct(r *config.Rule, now time.Time) {
	if r.Route != config.RouteAuto {
		return
	}
	d.Rules = append(d.Rules, r)
	if r.Exception != nil && !now.Before(r.Exception.Until) {
		d.raise(config.RouteHumanReview, Reason{Code: CodeEvaluationExpired, RuleID: r.ID, Message: fmt.Sprintf(
			"Rule %s relies on evaluation %s, which was good until %s.", r.ID, r.Exception.Evaluation,
			r.Exception.Until.UTC().Format(time.RFC3339))})
	}
}
