package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// rule is a compiled rule.
type rule struct {
	*config.Rule

	ast   *cel.Ast
	bound bound
	// asksModel tells that the condition reads uncertainty, which the model states itself.
	asksModel bool
	plain     func(cel.Activation) (ref.Val, error)
	// counted gives up at costLimit. It takes twice as long as plain and serves only where plain could take very long.
	counted func(cel.Activation) (ref.Val, error)
}

// compile checks a rule as far as can be known without an intent. Its error joins a *config.Error for each thing that
// is wrong, at its place in the condition.
func compile(env *cel.Env, r *config.Rule, actions map[string]*action, kept *slots) (*rule, error) {
	parsed, issues := env.Compile(r.When)
	if issues.Err() != nil {
		return nil, explainAll(env, r, issues)
	}
	if !parsed.OutputType().IsExactType(cel.BoolType) {
		return nil, refusal(r, r.Pos, "yields %s, but must yield bool; compare a field with a value, as in "+
			"proposed_change.urgent == true", parsed.OutputType())
	}
	if err := inspect(parsed.NativeRep(), r, actions); err != nil {
		return nil, err
	}
	plain, err1 := plan(env, parsed, cel.CustomDecoratorV2(kept.filling(parsed.NativeRep())))
	counted, err2 := plan(env, parsed, cel.CostLimit(costLimit), cel.CostTracking(listCosts{}))
	if err := cmp.Or(err1, err2); err != nil {
		return nil, refusal(r, r.Pos, "cannot be planned: %v", err)
	}
	asks := slices.ContainsFunc(readsOf(parsed.NativeRep()), func(one read) bool { return one.root == "uncertainty" })
	return &rule{Rule: r, ast: parsed, bound: boundOf(parsed.NativeRep(), r.When), asksModel: asks, plain: plain,
		counted: counted}, nil
}

func plan(env *cel.Env, parsed *cel.Ast, options ...cel.ProgramOption) (func(cel.Activation) (ref.Val, error), error) {
	options = append(options, cel.CustomDecoratorV2(strictly), cel.EvalOptions(cel.OptOptimize))
	program, err := env.Program(parsed, options...)
	if err != nil {
		return nil, err
	}
	return func(vars cel.Activation) (ref.Val, error) {
		value, _, err := program.Eval(vars)
		return value, err
	}, nil
}

// selfStated are members of a change in which a model speaks of itself and not of what would change. They cannot make a
// route more lenient, and so an auto rule cannot read them (M6).
var selfStated = []string{"confidence", "auto_reply", "priority"}

// inspect finds what the type checker lets pass and no rule may do.
func inspect(tree *ast.AST, r *config.Rule, actions map[string]*action) error {
	var found []error
	refuse := func(e ast.Expr, format string, args ...any) {
		found = append(found, refusal(r, placeOf(tree, r, e), format, args...))
	}
	auto := r.Route == config.RouteAuto
	loops := nesting(tree.Expr()) > 0
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if f, ok := literal(e).(types.Double); ok {
			refuse(e, "holds the float %v, which is not exact; write decimal(\"%v\")", f, f)
		}
		if e.Kind() == ast.IdentKind && e.AsIdent() == "uncertainty" && r.Route == config.RouteAuto {
			refuse(e, "reads uncertainty, which the model states itself and which can only make a route stricter (M6)")
		}
		if loops && e.Kind() == ast.MapKind && e.AsMap().Size() > 1 {
			refuse(e, "holds a map of several entries and loops; a loop takes such a map in any order, so that one input could be decided in "+
				"several ways (P2); write a list")
		}
		if err := badLiteral(e); err != nil {
			refuse(e, "cannot be evaluated: %v", err)
		}
		path := pathOf(e)
		if auto && path.root == changeRoot && len(path.names) == 1 && slices.Contains(selfStated, path.names[0]) {
			refuse(e, "reads %s, which a model states about itself; an auto rule cannot rely on it, allowed: the fields that "+
				"would change, evidence and thresholds (M6)", path)
		}
		if path.root == "thresholds" && len(path.names) == 1 && !path.presence {
			for _, name := range undeclared(path.names[0], r, actions) {
				refuse(e, "reads %s, which action %s does not declare, allowed: %s", path, name,
					listOr(slices.Sorted(maps.Keys(actions[name].Thresholds)), "none, since it has none"))
			}
		}
	}))
	return errors.Join(found...)
}

// badLiteral is what is wrong with a text that is written in the rule and is read as something else.
func badLiteral(e ast.Expr) error {
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	args := call.Args()
	if len(args) != 1 || literal(args[0]) == nil {
		return nil
	}
	text, _ := literal(args[0]).(types.String)
	var value ref.Val
	switch call.FunctionName() {
	case "decimal":
		value = toDecimal(literal(args[0]))
	case overloads.TypeConvertTimestamp:
		value = text.ConvertToType(types.TimestampType)
	case overloads.TypeConvertDuration:
		value = text.ConvertToType(types.DurationType)
	case overloads.Matches:
		_, err := regexp.Compile(string(text))
		return err
	}
	if failed, ok := value.(*types.Err); ok {
		return failed
	}
	return nil
}

// undeclared are the action types that the rule is for and that lack the threshold.
func undeclared(threshold string, r *config.Rule, actions map[string]*action) []string {
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		if _, has := actions[name].Thresholds[threshold]; !has && (r.Action == name || r.Action == "*") {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

// applies reports whether the rule matches. One that reads uncertainty matches as well where it would with nothing
// stated: else uncertainty != "low" would let a model lower its route by calling itself sure (M6).
func (r *rule) applies(vars *variables, frame cel.Activation) (bool, error) {
	match, err := r.matches(vars, frame)
	if match || err != nil || !r.asksModel || vars.in.Uncertainty == "" {
		return match, err
	}
	unstated := *vars.in
	unstated.Uncertainty = ""
	silent := newVariables(vars.action, &unstated, vars.size)
	return r.matches(silent, silent)
}

// matches evaluates the rule. Whatever goes wrong is an error, which the caller counts against the intent. The frame
// shows the same variables, made once for all rules; counting needs one of its own.
func (r *rule) matches(vars *variables, frame cel.Activation) (match bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			match, err = false, fmt.Errorf("the evaluation broke down: %v", p)
		}
	}()
	eval, shown := r.counted, cel.Activation(vars)
	if r.bound.short(vars.size) {
		eval, shown = r.plain, frame
	}
	value, err := eval(shown)
	if err != nil {
		return false, err
	}
	b, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it yielded %s instead of bool", value.Type().TypeName())
	}
	return bool(b), nil
}
