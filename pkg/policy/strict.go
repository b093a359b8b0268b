package policy

import (
	"fmt"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// strictly replaces CEL's equality and membership, to which values of two types are unequal: then x != "blocked" and
// !(x in ["blocked"]) would hold for null, for 7 and for ["blocked"] (POL-01). Here they are errors. What is compared
// with the literal null may be anything that is there.
func strictly(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	args := call.Args()
	switch call.Function() {
	case operators.Equals, operators.NotEquals:
		null := func(i interpreter.InterpretableV2) bool { return constant(i) == types.NullValue }
		return &equality{InterpretableCall: call, left: args[0], right: args[1],
			unequal: call.Function() == operators.NotEquals, withNull: null(args[0]) || null(args[1])}, nil
	case operators.In:
		m := &membership{InterpretableCall: call, item: args[0], container: args[1]}
		if list, ok := constant(args[1]).(traits.Lister); ok {
			m.fixed = list
		}
		return m, nil
	case "decimal":
		if v := constant(args[0]); v != nil { // and sound, as inspect has seen
			return interpreter.NewConstValue(call.ID(), toDecimal(v)), nil
		}
	}
	return i, nil
}

// constant is the value of a literal, nil where it is none.
func constant(i interpreter.InterpretableV2) ref.Val {
	if c, ok := i.(interpreter.InterpretableConst); ok {
		return c.Value()
	}
	return nil
}

// equality is == or !=.
type equality struct {
	interpreter.InterpretableCall

	left, right       interpreter.InterpretableV2
	unequal, withNull bool
}

// Eval is Exec by CEL's older interface.
func (e *equality) Eval(vars interpreter.Activation) ref.Val {
	return e.Exec(interpreter.AsFrame(vars))
}

// Exec compares.
func (e *equality) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a, b := e.left.Exec(frame), e.right.Exec(frame)
	if stop := stopping(a, b); stop != nil {
		return stop
	}
	if e.withNull {
		return types.Bool((a.Type() == types.NullType) == (b.Type() == types.NullType) != e.unequal)
	}
	same, err := equal(a, b)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(same != e.unequal)
}

// stopping is the operand that is an error, or else the one that is not known yet; nil where both have values.
func stopping(a, b ref.Val) ref.Val {
	switch {
	case types.IsError(a):
		return a
	case types.IsError(b):
		return b
	case types.IsUnknown(a):
		return a
	case types.IsUnknown(b):
		return b
	}
	return nil
}

// membership is in.
type membership struct {
	interpreter.InterpretableCall

	item, container interpreter.InterpretableV2
	fixed           traits.Lister // the container where it is written in the rule
}

// OverloadID keeps CEL from putting a set of its own in the place of a list.
func (m *membership) OverloadID() string { return "strict_in" }

// Eval is Exec by CEL's older interface.
func (m *membership) Eval(vars interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(vars))
}

// Exec looks for the item: in a list among the values, in an object among the names.
func (m *membership) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	item := m.item.Exec(frame)
	if m.fixed != nil {
		if types.IsUnknownOrError(item) {
			return item
		}
		return contains(m.fixed, item)
	}
	container := m.container.Exec(frame)
	if stop := stopping(item, container); stop != nil {
		return stop
	}
	switch c := container.(type) {
	case traits.Lister:
		return contains(c, item)
	case traits.Mapper:
		if _, text := item.(types.String); text {
			return c.Contains(item)
		}
		return types.NewErr("cannot look for %s among the names of an object", kindOf(item))
	}
	return types.NewErr("cannot look into %s; in takes a list or an object", kindOf(container))
}

// contains is true where any value is equal, else an error where any cannot be compared.
func contains(list traits.Lister, item ref.Val) ref.Val {
	var failed error
	size, _ := list.Size().(types.Int)
	for i := range size {
		same, err := equal(list.Get(i), item)
		if same {
			return types.True
		}
		if err != nil {
			failed = err
		}
	}
	if failed != nil {
		return types.WrapErr(failed)
	}
	return types.False
}

// equal compares two values of one type. Parts of lists and objects that cannot be compared make an error, unless
// another part is different for certain.
func equal(a, b ref.Val) (bool, error) {
	switch x := a.(type) {
	case types.String:
		if y, ok := b.(types.String); ok {
			return x == y, nil
		}
	case types.Bool:
		if y, ok := b.(types.Bool); ok {
			return x == y, nil
		}
	case types.Int, decimal:
		if isNumber(b) {
			return a.Equal(b) == types.True, nil
		}
	case traits.Lister:
		if y, ok := b.(traits.Lister); ok {
			return equalLists(x, y)
		}
	case traits.Mapper:
		if y, ok := b.(traits.Mapper); ok {
			return equalObjects(x, y)
		}
	case types.Timestamp, types.Duration, types.Bytes:
		if a.Type() == b.Type() {
			return a.Equal(b) == types.True, nil
		}
	}
	return false, fmt.Errorf("cannot compare %s and %s", kindOf(a), kindOf(b))
}

func equalLists(a, b traits.Lister) (bool, error) {
	size, _ := a.Size().(types.Int)
	if a.Size() != b.Size() {
		return false, nil
	}
	var failed error
	for i := range size {
		same, err := equalParts(a.Get(i), b.Get(i))
		if err == nil && !same {
			return false, nil
		}
		if err != nil {
			failed = err
		}
	}
	return failed == nil, failed
}

func equalObjects(a, b traits.Mapper) (bool, error) {
	if a.Size() != b.Size() {
		return false, nil
	}
	var failed error
	for names := a.Iterator(); names.HasNext() == types.True; {
		name := names.Next()
		mine, _ := a.Find(name)
		other, found := b.Find(name)
		if !found {
			return false, nil
		}
		same, err := equalParts(mine, other)
		if err == nil && !same {
			return false, nil
		}
		if err != nil {
			failed = err
		}
	}
	return failed == nil, failed
}

// equalParts also takes two nulls: what is compared is the whole around them.
func equalParts(a, b ref.Val) (bool, error) {
	if a.Type() == types.NullType && b.Type() == types.NullType {
		return true, nil
	}
	return equal(a, b)
}

// kindOf names what a value is in the words of JSON.
func kindOf(v ref.Val) string {
	switch v.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return "true or false"
	case types.Int, decimal:
		return "a number"
	case types.String:
		return "a text"
	case traits.Lister:
		return "a list"
	case traits.Mapper:
		return "an object"
	}
	return "a " + v.Type().TypeName()
}
