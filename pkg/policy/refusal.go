package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// refusal is one thing that is wrong with a rule's condition.
func refusal(r *config.Rule, at config.Position, format string, args ...any) *config.Error {
	return &config.Error{Pos: at, Msg: "rule " + r.ID + ": when " + fmt.Sprintf(format, args...)}
}

// placeOf is where in its file an expression begins: an operator where it stands, anything else at its first letter.
// CEL's own place of a field is the dot before it, and that of a call the parenthesis.
func placeOf(tree *ast.AST, r *config.Rule, e ast.Expr) config.Position {
	for {
		switch {
		case e.Kind() == ast.SelectKind:
			e = e.AsSelect().Operand()
			continue
		case e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction():
			e = e.AsCall().Target()
			continue
		case e.Kind() == ast.CallKind && pathOf(e).root != "":
			e = e.AsCall().Args()[0]
			continue
		}
		break
	}
	at := tree.SourceInfo().GetStartLocation(e.ID())
	column := at.Column()
	if e.Kind() == ast.CallKind && functionName.MatchString(e.AsCall().FunctionName()) {
		column -= len(e.AsCall().FunctionName())
	}
	return r.At(at.Line(), column)
}

// explainAll puts the compiler's complaints in the words of whoever writes rules, each at its place in the file.
func explainAll(env *cel.Env, r *config.Rule, issues *cel.Issues) error {
	var all []error
	for _, issue := range issues.Errors() {
		line, column := issue.Location.Line(), issue.Location.Column()
		if name := calledName(r, issue); name != "" {
			column -= utf8.RuneCountInString(name)
		}
		all = append(all, refusal(r, r.At(line, column), "%s", explain(env, r, issue)))
	}
	return errors.Join(all...)
}

// The compiler's complaints, of which only the texts are public. One that is worded otherwise is passed on as it is.
var (
	undeclaredName  = regexp.MustCompile(`^undeclared reference to '(.*)' \(in container '.*'\)$`)
	wrongOperands   = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`)
	functionName    = regexp.MustCompile(`^[a-z][A-Za-z_]*$`)
	unexpectedToken = regexp.MustCompile(`^Syntax error: (.*?)(?: expecting \{.*\})?$`)
)

func explain(env *cel.Env, r *config.Rule, issue *cel.Error) string {
	if found := undeclaredName.FindStringSubmatch(issue.Message); found != nil {
		if symbol, ok := symbolOf(found[1]); ok {
			return fmt.Sprintf("uses %s, which could round, allowed: %s", symbol, strings.Join(symbols(env), " "))
		}
		if name := calledName(r, issue); name != "" {
			return fmt.Sprintf("calls %s(), which is no function of rules, allowed: %s", name, strings.Join(callable(env), ", "))
		}
		return fmt.Sprintf("reads %s, which no rule can see, allowed: %s", found[1], strings.Join(readable(env), ", "))
	}
	if found := wrongOperands.FindStringSubmatch(issue.Message); found != nil {
		name, shown := found[1], found[1]
		if symbol, ok := symbolOf(name); ok {
			shown = symbol
		}
		said := fmt.Sprintf("applies %s to %s, allowed: %s", shown, plainTypes.Replace(found[2]),
			strings.Join(signatures(env, name), ", "))
		if strings.Contains(found[2], "double") {
			said += `; a float is not exact, so write decimal("0.1") for 0.1`
		}
		return said
	}
	if found := unexpectedToken.FindStringSubmatch(issue.Message); found != nil {
		said := strings.ReplaceAll(found[1], "mismatched input '<EOF>'", "it ends too early")
		return "is not a CEL expression: " + said + "; allowed is one expression, such as " +
			"proposed_change.amount > thresholds.limit"
	}
	return "is not valid: " + issue.Message
}

// symbolOf is how an operator is written, such as > for _>_.
func symbolOf(function string) (string, bool) {
	if function == operators.Conditional {
		return "?:", true
	}
	if function == operators.Index {
		return "[]", true
	}
	return operators.FindReverse(function)
}

// calledName is the function that an issue is about, "" where it is about none: its place is then the parenthesis.
func calledName(r *config.Rule, issue *cel.Error) string {
	if runeAt(r.When, issue.Location.Line(), issue.Location.Column()) != '(' {
		return ""
	}
	for _, of := range []*regexp.Regexp{undeclaredName, wrongOperands} {
		if found := of.FindStringSubmatch(issue.Message); found != nil && functionName.MatchString(found[1]) {
			return found[1]
		}
	}
	return ""
}

// runeAt is the letter at a place of a text, as CEL counts places.
func runeAt(text string, line, column int) rune {
	for ; line > 1; line-- {
		_, text, _ = strings.Cut(text, "\n")
	}
	for i, r := range text {
		if utf8.RuneCountInString(text[:i]) == column {
			return r
		}
	}
	return 0
}

// readable are the names of all variables.
func readable(env *cel.Env) []string {
	var names []string
	for _, v := range env.Variables() {
		names = append(names, v.Name())
	}
	slices.Sort(names)
	return names
}

// callable are the names of all functions and macros.
func callable(env *cel.Env) []string {
	var names []string
	for name := range env.Functions() {
		if _, operator := symbolOf(name); !operator && functionName.MatchString(name) && name != operators.OldIn {
			names = append(names, name)
		}
	}
	for _, macro := range env.Macros() {
		names = append(names, macro.Function())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// symbols are the operators.
func symbols(env *cel.Env) []string {
	var all []string
	for name := range env.Functions() {
		if symbol, operator := symbolOf(name); operator {
			all = append(all, symbol)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// plainTypes puts types as whoever writes rules knows them. An int of CEL stands for every number here.
var plainTypes = strings.NewReplacer("google.protobuf.Duration", "duration", "google.protobuf.Timestamp", "timestamp",
	"<A>", "any", "<B>", "any", "int", "number", "double", "float", "dyn", "any")

// signatures are what a function or an operator can be applied to.
func signatures(env *cel.Env, name string) []string {
	function := env.Functions()[name]
	if function == nil {
		return []string{"nothing"}
	}
	if name == operators.Equals || name == operators.NotEquals {
		return []string{"two values of one type"}
	}
	var all []string
	for _, overload := range function.OverloadDecls() {
		var of []string
		for _, t := range overload.ArgTypes() {
			of = append(of, t.String())
		}
		all = append(all, plainTypes.Replace("("+strings.Join(of, ", ")+")"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}
