package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// at is where an expression of a rule stands in its file.
func (r *rule) at(e ast.Expr) config.Position { return placeOf(r.ast.NativeRep(), r.Rule, e) }

// checkReads looks for fields that no schema of the rule's action types has, and for functions that take several kinds
// of value and would do something else with each.
func (c *checker) checkReads(r *rule, actions []string) {
	for _, one := range readsOf(r.ast.NativeRep()) {
		if one.root != changeRoot || len(actions) == 0 {
			continue
		}
		if slices.ContainsFunc(actions, func(name string) bool { _, there := c.schemas[name].at(one.names); return there }) {
			continue
		}
		what := "it is an error always"
		if one.presence {
			what = "it is false always"
		}
		c.add(r, r.at(one.expr), FindingUnknownField, "reads %s, which no proposal can have by the schema of %s: %s; "+
			"allowed: %s", one.path, strings.Join(actions, ", "), what, c.siblings(actions[0], one.names))
	}
	ast.PreOrderVisit(r.ast.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if operand, takes := taker(e); operand != nil {
			c.checkKinds(r, operand, takes, actions)
		}
	}))
}

// siblings are the fields that there are where the path leaves the schema.
func (c *checker) siblings(action string, names []string) string {
	s := c.schemas[action]
	for _, name := range names {
		inner, there := s.at([]string{name})
		if !there {
			properties, _ := s.part["properties"].(map[string]any)
			return listOr(slices.Sorted(maps.Keys(properties)), "none")
		}
		s = inner
	}
	return "none"
}

// taker is what a call or a loop looks into, with the kinds that it would take.
func taker(e ast.Expr) (operand ast.Expr, takes []string) {
	switch e.Kind() {
	case ast.ComprehensionKind:
		return e.AsComprehension().IterRange(), []string{"array", "object"}
	case ast.CallKind:
		call := e.AsCall()
		switch {
		case call.FunctionName() == operators.In:
			return call.Args()[1], []string{"array", "object"}
		case call.FunctionName() == "size" && call.IsMemberFunction():
			return call.Target(), []string{"array", "object", "string"}
		case call.FunctionName() == "size":
			return call.Args()[0], []string{"array", "object", "string"}
		}
	}
	return nil, nil
}

func (c *checker) checkKinds(r *rule, operand ast.Expr, takes, actions []string) {
	p := pathOf(operand)
	if p.root != changeRoot || len(p.names) == 0 {
		return
	}
	for _, name := range actions {
		s, _ := c.schemas[name].at(p.names)
		if s.part == nil || s.part["enum"] != nil || s.part["const"] != nil {
			continue
		}
		kinds := s.kinds()
		if kinds == nil && !s.combined() {
			kinds = takes
		}
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !slices.Contains(takes, kind) })
		if len(kinds) > 1 {
			c.add(r, r.at(operand), FindingManyKinds, "looks into %s, which can be %s by the schema of %s, and means "+
				"something else for each; give the field one type in the schema", p, strings.Join(kinds, " or "), name)
		}
	}
}

// combined reports whether other parts of the schema may say which type it is.
func (s schema) combined() bool {
	return slices.ContainsFunc([]string{"allOf", "anyOf", "oneOf", "if", "not", "$dynamicRef"},
		func(keyword string) bool { return s.part[keyword] != nil })
}

// flipped is the comparison that says the same with its sides exchanged.
var flipped = map[string]string{operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
	operators.Less: operators.Greater, operators.Greater: operators.Less, operators.LessEquals: operators.GreaterEquals,
	operators.GreaterEquals: operators.LessEquals}

// contrary is what holds where a comparison of numbers does not.
var contrary = map[string]string{operators.Less: operators.GreaterEquals, operators.GreaterEquals: operators.Less,
	operators.Greater: operators.LessEquals, operators.LessEquals: operators.Greater}

// checkComparisons looks for comparisons of a field with something fixed, of which the schema leaves one outcome.
func (c *checker) checkComparisons(r *rule, actions []string) {
	ast.PreOrderVisit(r.ast.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
			return
		}
		function, left, right := e.AsCall().FunctionName(), e.AsCall().Args()[0], e.AsCall().Args()[1]
		if function == operators.In && right.Kind() == ast.ListKind {
			for _, item := range right.AsList().Elements() {
				c.checkComparison(r, item, operators.Equals, left, item, actions)
			}
			return
		}
		if other, ok := flipped[function]; ok {
			c.checkComparison(r, e, function, left, right, actions)
			c.checkComparison(r, e, other, right, left, actions)
		}
	}))
}

func (c *checker) checkComparison(r *rule, e ast.Expr, function string, field, fixed ast.Expr, actions []string) {
	p, asNumber := pathOf(field), false
	if field.Kind() == ast.CallKind && field.AsCall().FunctionName() == "decimal" {
		p, asNumber = pathOf(field.AsCall().Args()[0]), true
	}
	if p.root != changeRoot || p.presence || len(p.names) == 0 || len(actions) == 0 {
		return
	}
	settled := ""
	for i, name := range actions {
		value, known := fixedValue(fixed, c.engine.actions[name].Action)
		s, there := c.schemas[name].at(p.names)
		if !known || !there || s.part == nil || asNumber && !s.numeric() {
			return
		}
		outcome := s.outcome(function, value)
		if outcome == "" || i > 0 && outcome != settled {
			return
		}
		settled = outcome
	}
	symbol, _ := symbolOf(function)
	value, _ := fixedValue(fixed, c.engine.actions[actions[0]].Action)
	c.add(r, r.at(e), FindingSettled, "asks for %s %s %s, which %s by the schema of %s", p, symbol, value, settled,
		strings.Join(actions, ", "))
}

// fixedValue is the JSON of what a rule writes down or an action type declares.
func fixedValue(e ast.Expr, a *config.Action) (string, bool) {
	switch v := literal(e).(type) {
	case types.String:
		text, err := json.Marshal(string(v))
		return string(text), err == nil
	case types.Int, types.Bool:
		return fmt.Sprint(v.Value()), true
	case types.Null:
		return "null", true
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "decimal" {
		inner := e.AsCall().Args()[0]
		if text, ok := literal(inner).(types.String); ok {
			return string(text), true // inspect has read it
		}
		return fixedValue(inner, a)
	}
	if p := pathOf(e); p.root == "thresholds" && len(p.names) == 1 {
		text, declared := a.Thresholds[p.names[0]]
		return text, declared
	}
	return "", false
}

// outcome is what the schema leaves of a comparison, "" where it leaves both outcomes or is not understood.
func (s schema) outcome(function, value string) string {
	if function == operators.Equals || function == operators.NotEquals {
		switch {
		case s.admits(value):
			return ""
		case function == operators.Equals:
			return "can never be true"
		}
		return "is always true"
	}
	number, ok := new(big.Rat).SetString(value)
	if !ok {
		return ""
	}
	if kinds := s.kinds(); len(kinds) > 0 && !slices.Contains(kinds, "number") && !slices.Contains(kinds, "integer") {
		return "is always an error, since " + strings.Join(kinds, " or ") + " has no order"
	}
	switch {
	case !s.numeric():
		return ""
	case !s.possible(function, number):
		return "can never be true"
	case !s.possible(contrary[function], number):
		return "is always true"
	}
	return ""
}

// possible reports whether any number that the schema lets in compares like this.
func (s schema) possible(function string, number *big.Rat) bool {
	low, high := s.bounds()
	end, sign := low, -1
	if function == operators.Greater || function == operators.GreaterEquals {
		end, sign = high, 1
	}
	if end.value == nil {
		return true
	}
	compared := end.value.Cmp(number) * sign
	orEqual := function == operators.LessEquals || function == operators.GreaterEquals
	return compared > 0 || compared == 0 && orEqual && !end.open
}
