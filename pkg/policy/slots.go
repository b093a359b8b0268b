package policy

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// slots number the paths that the rules of an engine read, so that one decision reads each of them once. CEL itself walks
// every path anew in every rule, which takes longer than all that is then done with the values.
type slots struct {
	names  map[string]bool // of the variables
	number map[string]int
}

// mostSlots bounds what every decision has to make room for. Further paths are read as CEL reads them.
const mostSlots = 64

func newSlots(env *cel.Env) *slots {
	s := &slots{names: map[string]bool{}, number: map[string]int{}}
	for _, name := range readable(env) {
		s.names[name] = true
	}
	return s
}

// of is the slot of a path, false where it has none. It makes one for a path that is new.
func (s *slots) of(p path) (int, bool) {
	if !s.names[p.root] {
		return 0, false
	}
	key := fmt.Sprintf("%q", append([]string{p.root}, p.names...))
	n, known := s.number[key]
	if !known {
		if len(s.number) == mostSlots {
			return 0, false
		}
		n = len(s.number)
		s.number[key] = n
	}
	return n, true
}

// filling makes the reads of one rule's paths use their slots.
func (s *slots) filling(tree *ast.AST) interpreter.InterpretableDecoratorV2 {
	paths := map[int64]path{}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		p := pathOf(e)
		if p.root == "" || p.presence {
			return
		}
		paths[e.ID()] = p
		switch e.Kind() { // what it goes on from is not read by itself
		case ast.SelectKind:
			delete(paths, e.AsSelect().Operand().ID())
		case ast.CallKind:
			delete(paths, e.AsCall().Args()[0].ID())
		}
	}))
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		read, again := i.(*slotRead)
		if !again {
			attr, ok := i.(interpreter.InterpretableAttribute)
			if !ok {
				return i, nil
			}
			if _, ok := attr.Attr().(interpreter.NamespacedAttribute); !ok { // of a computed value
				return i, nil
			}
			read = &slotRead{InterpretableAttribute: attr}
		}
		read.slot, read.has = s.of(paths[i.ID()])
		return read, nil
	}
}

// slotRead is a path into a variable. The planner makes those of a.b.c out of those of a.b, and shows each to the
// decorator when it is made.
type slotRead struct {
	interpreter.InterpretableAttribute

	slot int
	has  bool
}

// AddQualifier makes another path of it, whose slot is not known yet.
func (r *slotRead) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	r.has = false
	_, err := r.InterpretableAttribute.AddQualifier(q)
	return r, err
}

// Eval is Exec by CEL's older interface.
func (r *slotRead) Eval(vars interpreter.Activation) ref.Val {
	return r.Exec(interpreter.AsFrame(vars))
}

// Exec leaves the reading to CEL, and keeps what it finds. Errors are not kept: they say which expression they come from.
// Inside a loop, where the loop's own variable may hide one of ours, nothing is.
func (r *slotRead) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	vars, outside := frame.Activation.(*variables)
	if !outside || !r.has || r.slot >= len(vars.slots) {
		return r.InterpretableAttribute.Exec(frame)
	}
	if kept := vars.slots[r.slot]; kept != nil {
		return kept
	}
	value := r.InterpretableAttribute.Exec(frame)
	if !types.IsUnknownOrError(value) {
		vars.slots[r.slot] = value
	}
	return value
}
