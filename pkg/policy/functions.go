package policy

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/parser"
)

// hasFunction is what has(x.name) becomes; no rule can write its name.
const hasFunction = "@has"

// functions declares what rules have besides operators and CEL's own functions of texts, lists and times.
func functions() []cel.EnvOption {
	anyObject := cel.MapType(cel.StringType, cel.DynType)
	return []cel.EnvOption{
		cel.Function("decimal", cel.Overload("decimal_dyn", []*cel.Type{cel.DynType}, cel.DynType),
			cel.SingletonUnaryBinding(toDecimal)),
		reads(overloads.TypeConvertTimestamp, cel.TimestampType),
		reads(overloads.TypeConvertDuration, cel.DurationType),
		cel.Macros(parser.NewGlobalMacro(operators.Has, 1, expandHas)),
		// A singleton, whose operands CEL does not look through before every call.
		cel.Function(hasFunction, cel.Overload("has_member", []*cel.Type{anyObject, cel.StringType}, cel.BoolType),
			cel.SingletonBinaryBinding(has)),
	}
}

// toDecimal is a number as it is, or one written as plain text.
func toDecimal(v ref.Val) ref.Val {
	if isNumber(v) {
		return v
	}
	text, ok := v.(types.String)
	if !ok {
		return types.NewErr("decimal() takes a number or a plain decimal text, found %s", kindOf(v))
	}
	n, err := plainDecimal(string(text))
	if err != nil {
		return types.NewErr("decimal() was given %v", err)
	}
	return n
}

// reads declares a function that reads a text as a time or a duration. CEL's own would also take a number, as seconds.
func reads(name string, into *cel.Type) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_dyn", []*cel.Type{cel.DynType}, into),
		cel.SingletonUnaryBinding(func(v ref.Val) ref.Val {
			if v.Type() == into {
				return v
			}
			if text, ok := v.(types.String); ok {
				return text.ConvertToType(into)
			}
			return types.NewErr("%s() takes a text, found %s", name, kindOf(v))
		}))
}

// expandHas turns has(x.name) into a call, since CEL's own finds a null there, and nothing wrong with it.
func expandHas(f parser.ExprHelper, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	if args[0].Kind() != ast.SelectKind {
		return nil, f.NewError(args[0].ID(), "has() takes a field, as in has(proposed_change.note)")
	}
	field := args[0].AsSelect()
	return f.NewCall(hasFunction, field.Operand(), f.NewLiteral(types.String(field.FieldName()))), nil
}

// has is an error where the member is null: that is neither there nor left out, so has(x.y) and !has(x.y) both hold
// back.
func has(object, name ref.Val) ref.Val {
	members, ok := object.(traits.Mapper)
	if !ok {
		return types.NewErr("has() looks into an object, found %s", kindOf(object))
	}
	value, found := members.Find(name)
	if found && value.Type() == types.NullType {
		return types.NewErr("has() found null for %v, which is neither there nor left out", name)
	}
	return types.Bool(found)
}
