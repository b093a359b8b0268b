package policy

import (
	"cmp"
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// excluded is what CEL's standard library may not do here. Order, arithmetic, has and what reads times are defined
// anew; division and double would round; the other conversions and type would make a wrong type right, or let it be
// asked for (POL-01): they read "5" as 5, and null as something that is no text.
func excluded() *env.LibrarySubset {
	subset := env.NewLibrarySubset()
	for _, name := range []string{operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
		overloads.TypeConvertTimestamp, overloads.TypeConvertDuration, overloads.TypeConvertDouble,
		overloads.TypeConvertUint, overloads.TypeConvertInt, overloads.TypeConvertBool, overloads.TypeConvertString,
		overloads.TypeConvertBytes, overloads.TypeConvertType} {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, env.NewFunction(name))
	}
	subset.ExcludeMacros = []string{operators.Has}
	return subset
}

// ordering declares <, <=, > and >= over numbers, durations and timestamps. CEL's own would also order texts by their
// letters, where "9000" is more than "10000".
func ordering() []cel.EnvOption {
	holds := map[string]func(sign int) bool{
		operators.Less:          func(sign int) bool { return sign < 0 },
		operators.LessEquals:    func(sign int) bool { return sign <= 0 },
		operators.Greater:       func(sign int) bool { return sign > 0 },
		operators.GreaterEquals: func(sign int) bool { return sign >= 0 },
	}
	var options []cel.EnvOption
	for name, hold := range holds {
		options = append(options, cel.Function(name,
			overload(name, "int", cel.IntType, cel.BoolType),
			overload(name, "duration", cel.DurationType, cel.BoolType),
			overload(name, "timestamp", cel.TimestampType, cel.BoolType),
			cel.SingletonBinaryBinding(func(a, b ref.Val) ref.Val {
				sign, err := order(a, b)
				if err != nil {
					return types.WrapErr(err)
				}
				return types.Bool(hold(sign))
			})))
	}
	return options
}

// overload declares a binary operator on two operands of one type. A field whose type is not known until it is read
// (dyn) fits all of them.
func overload(name, suffix string, operand, result *cel.Type) cel.FunctionOpt {
	return cel.Overload(name+suffix, []*cel.Type{operand, operand}, result)
}

func order(a, b ref.Val) (int, error) {
	if x, ok := a.(types.Int); ok {
		if y, ok := b.(types.Int); ok { // nearly always
			return cmp.Compare(x, y), nil
		}
	}
	if x, y, _, ok := alignSmall(a, b); ok {
		return cmp.Compare(x, y), nil
	}
	x, ok1 := asDecimal(a)
	y, ok2 := asDecimal(b)
	if ok1 && ok2 {
		return x.compare(y), nil
	}
	if a.Type() == b.Type() && (a.Type() == types.DurationType || a.Type() == types.TimestampType) {
		if sign, ok := a.(traits.Comparer).Compare(b).(types.Int); ok {
			return int(sign), nil
		}
	}
	return 0, errors.New("cannot order " + kindOf(a) + " and " + kindOf(b) +
		"; only numbers, durations and timestamps have an order")
}

// arithmetic declares +, - and * exactly. Adding also joins texts and lists, which macros such as filter are made of.
func arithmetic() []cel.EnvOption {
	list := cel.ListType(cel.TypeParamType("A"))
	return []cel.EnvOption{
		cel.Function(operators.Add,
			overload(operators.Add, "int", cel.IntType, cel.DynType),
			overload(operators.Add, "string", cel.StringType, cel.StringType),
			overload(operators.Add, "list", list, list),
			cel.SingletonBinaryBinding(add)),
		cel.Function(operators.Subtract, overload(operators.Subtract, "int", cel.IntType, cel.DynType),
			cel.SingletonBinaryBinding(subtract)),
		cel.Function(operators.Multiply, overload(operators.Multiply, "int", cel.IntType, cel.DynType),
			cel.SingletonBinaryBinding(multiply)),
	}
}

func add(a, b ref.Val) ref.Val {
	if !isNumber(a) {
		if adder, ok := a.(traits.Adder); ok && (a.Type() == types.StringType || a.Type() == types.ListType) {
			return adder.Add(b) // an error where b is something else
		}
	}
	if x, y, exponent, ok := alignSmall(a, b); ok {
		if sum := x + y; (sum > x) == (y > 0) {
			return smallNumber(canonical.Scaled{Coefficient: sum, Exponent: exponent})
		}
	}
	return exactly("+", a, b, func(a, b decimal) decimal {
		x, y, exponent := align(a, b)
		return decimal{x.Add(x, y), exponent}
	})
}

func subtract(a, b ref.Val) ref.Val {
	if x, y, exponent, ok := alignSmall(a, b); ok {
		if difference := x - y; (difference < x) == (y > 0) {
			return smallNumber(canonical.Scaled{Coefficient: difference, Exponent: exponent})
		}
	}
	return exactly("-", a, b, func(a, b decimal) decimal {
		x, y, exponent := align(a, b)
		return decimal{x.Sub(x, y), exponent}
	})
}

func multiply(a, b ref.Val) ref.Val {
	x, ok1 := small(a)
	y, ok2 := small(b)
	if ok1 && ok2 {
		if product, ok := times(x.Coefficient, y.Coefficient); ok {
			return smallNumber(canonical.Scaled{Coefficient: product, Exponent: x.Exponent + y.Exponent})
		}
	}
	return exactly("*", a, b, func(a, b decimal) decimal {
		return decimal{a.scaled(0).Mul(a.coefficient, b.coefficient), a.exponent + b.exponent}
	})
}

func exactly(symbol string, a, b ref.Val, compute func(a, b decimal) decimal) ref.Val {
	x, ok1 := asDecimal(a)
	y, ok2 := asDecimal(b)
	if !ok1 || !ok2 {
		return types.NewErr("cannot compute %s %s %s", kindOf(a), symbol, kindOf(b))
	}
	return compute(x, y).number()
}
