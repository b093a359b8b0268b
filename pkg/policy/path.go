package policy

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// changeRoot is the variable that holds the change.
const changeRoot = "proposed_change"

// path is a place in a variable that an expression reads by names alone, such as proposed_change.fields.email. Its root
// is "" where the expression is something else.
type path struct {
	root     string
	names    []string
	presence bool // has() alone asks for it
}

func (p path) String() string { return strings.Join(append([]string{p.root}, p.names...), ".") }

func pathOf(e ast.Expr) path {
	var operand ast.Expr
	var name string
	presence := false
	switch e.Kind() {
	case ast.IdentKind:
		return path{root: e.AsIdent()}
	case ast.SelectKind:
		operand, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index && call.FunctionName() != hasFunction {
			return path{}
		}
		text, ok := literal(call.Args()[1]).(types.String)
		if !ok {
			return path{}
		}
		operand, name, presence = call.Args()[0], string(text), call.FunctionName() == hasFunction
	default:
		return path{}
	}
	p := pathOf(operand)
	if p.root == "" {
		return path{}
	}
	p.names, p.presence = append(p.names, name), presence
	return p
}

// literal is the value of a literal, nil where the expression is none.
func literal(e ast.Expr) ref.Val {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral()
}

// read is a path with the expression that reads it.
type read struct {
	path

	expr ast.Expr
}

// readsOf are the longest paths into the variables that an expression reads, in their order.
func readsOf(tree *ast.AST) []read {
	var found []read
	inside := map[int64]bool{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		p := pathOf(e)
		if p.root == "" {
			return
		}
		if !inside[e.ID()] {
			found = append(found, read{p, e})
		}
		switch e.Kind() { // what it is made of is part of the path
		case ast.SelectKind:
			inside[e.AsSelect().Operand().ID()] = true
		case ast.CallKind:
			inside[e.AsCall().Args()[0].ID()] = true
		}
	}))
	return found
}
