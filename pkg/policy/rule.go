package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// rule is a compiled rule.
type rule struct {
	*config.Rule

	bound bound
	plain func(cel.Activation) (ref.Val, error)
	// counted gives up at costLimit. It takes twice as long as plain and serves only where plain could take very long.
	counted func(cel.Activation) (ref.Val, error)
}

// compile checks a rule as far as can be known without an intent. Its error is a *config.Error at the rule's condition.
func compile(env *cel.Env, r *config.Rule, actions map[string]*action) (*rule, error) {
	refuse := func(format string, args ...any) (*rule, error) {
		return nil, &config.Error{Pos: r.Pos, Msg: "rule " + r.ID + ": when " + fmt.Sprintf(format, args...)}
	}
	parsed, issues := env.Compile(r.When)
	if issues.Err() != nil {
		return refuse("is not valid: %v", issues.Err())
	}
	if !parsed.OutputType().IsExactType(cel.BoolType) {
		return refuse("yields %s, but must yield bool; compare a field with a value, as in proposed_change.urgent == true",
			parsed.OutputType())
	}
	if why := inspect(parsed.NativeRep(), r, actions); why != "" {
		return refuse("%s", why)
	}
	plain, err1 := plan(env, parsed)
	counted, err2 := plan(env, parsed, cel.CostLimit(costLimit))
	if err := cmp.Or(err1, err2); err != nil {
		return refuse("cannot be planned: %v", err)
	}
	return &rule{Rule: r, bound: boundOf(parsed.NativeRep(), r.When), plain: plain, counted: counted}, nil
}

func plan(env *cel.Env, parsed *cel.Ast, options ...cel.ProgramOption) (func(cel.Activation) (ref.Val, error), error) {
	program, err := env.Program(parsed, append(options, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		return nil, err
	}
	return func(vars cel.Activation) (ref.Val, error) {
		value, _, err := program.Eval(vars)
		return value, err
	}, nil
}

// inspect finds what the type checker lets pass and no rule may do; "" is nothing.
func inspect(tree *ast.AST, r *config.Rule, actions map[string]*action) string {
	var found []string
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			if f, ok := e.AsLiteral().(types.Double); ok {
				found = append(found, fmt.Sprintf("holds the float %v, which is not exact; write decimal(\"%v\")", f, f))
			}
		case ast.IdentKind:
			if e.AsIdent() == "uncertainty" && r.Route == config.RouteAuto {
				found = append(found, "reads uncertainty, which the model states itself and which can only make a route stricter")
			}
		case ast.SelectKind:
			found = append(found, missingThreshold(e.AsSelect(), r, actions)...)
		}
	}))
	return strings.Join(found, "; ")
}

// missingThreshold finds thresholds.NAME where an action that the rule is for does not declare NAME.
func missingThreshold(s ast.SelectExpr, r *config.Rule, actions map[string]*action) []string {
	if s.IsTestOnly() || s.Operand().Kind() != ast.IdentKind || s.Operand().AsIdent() != "thresholds" {
		return nil
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		a := actions[name]
		if _, declared := a.Thresholds[s.FieldName()]; !declared && (r.Action == name || r.Action == "*") {
			found = append(found, fmt.Sprintf("reads thresholds.%s, which action %s does not declare", s.FieldName(), name))
		}
	}
	return found
}

// matches evaluates the rule. Whatever goes wrong is an error, which the caller counts against the intent.
func (r *rule) matches(vars *variables) (match bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			match, err = false, fmt.Errorf("the evaluation broke down: %v", p)
		}
	}()
	eval := r.counted
	if r.bound.short(vars.size) {
		eval = r.plain
	}
	value, err := eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it yielded %s instead of bool", value.Type().TypeName())
	}
	return bool(b), nil
}
