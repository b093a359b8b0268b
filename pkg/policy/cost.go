package policy

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// costLimit bounds one evaluation that is counted, in CEL's units: roughly one for each operation and for each ten
// characters of text that are looked at. A rule over all 64 items of evidence takes some 500.
const costLimit = 10_000

// listCosts counts membership, which the engine has replaced, by the length of its list or object.
type listCosts struct{}

// CallCost is nil for everything else, which CEL counts itself.
func (listCosts) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != operators.In || len(args) != 2 {
		return nil
	}
	cost := uint64(1)
	if sized, ok := args[1].(traits.Sizer); ok {
		if size, ok := sized.Size().(types.Int); ok {
			cost += uint64(size)
		}
	}
	return &cost
}

// shortWork is how many elementary steps an evaluation may take without being counted: some milliseconds at worst.
const shortWork = 1 << 20

// bound is what is known beforehand about the work of a rule. Whether an evaluation is counted follows from the rule
// and the size of the intent alone, so it is the same everywhere.
type bound struct {
	loops  int  // how deep all, exists, map and filter nest
	length int  // of the expression, which bounds the lists that are written in it
	open   bool // lists may be joined, so their lengths are not bounded by what they are made from
}

func boundOf(tree *ast.AST, expression string) bound {
	return bound{loops: nesting(tree.Expr()), length: len(expression), open: strings.Contains(expression, "+")}
}

// short reports whether the work is small in any case. With n items or characters to look at, each level of loops
// multiplies by n, and so does the text that the innermost step may compare.
func (b bound) short(size int) bool {
	if b.loops == 0 {
		return true // in proportion to the intent and the expression
	}
	if b.open {
		return false
	}
	work := 1
	for range b.loops + 1 {
		if work *= size + b.length; work > shortWork {
			return false
		}
	}
	return true
}

// nesting is the depth of loops inside one another. The list that a loop goes over is made once, before it.
func nesting(e ast.Expr) int {
	deepest := 0
	below := func(inner ...ast.Expr) int {
		deep := 0
		for _, i := range inner {
			deep = max(deep, nesting(i))
		}
		return deep
	}
	switch e.Kind() {
	case ast.CallKind:
		deepest = below(e.AsCall().Args()...)
		if e.AsCall().IsMemberFunction() {
			deepest = max(deepest, below(e.AsCall().Target()))
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		deepest = max(below(c.IterRange(), c.AccuInit()), 1+below(c.LoopCondition(), c.LoopStep(), c.Result()))
	case ast.ListKind:
		deepest = below(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			deepest = max(deepest, below(entry.AsMapEntry().Key(), entry.AsMapEntry().Value()))
		}
	case ast.SelectKind:
		deepest = below(e.AsSelect().Operand())
	}
	return deepest
}
