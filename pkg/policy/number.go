package policy

import (
	"errors"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// decimal is coefficient × 10^exponent, with no trailing zeros in the coefficient.
//
// A rule sees every number in one of two forms: a CEL int where its value is a whole number of 64 bits, a decimal for
// everything else. Equal numbers thus always have the same form, whatever they were written like, which is what makes
// ==, in and map lookups right.
type decimal struct {
	coefficient *big.Int
	exponent    int
}

var decimalType = types.NewOpaqueType("decimal")

var errNotDecimal = errors.New("a text that is not a plain decimal number, such as 100.00")

// parseDecimal reads a number as JSON writes it. The text is sound where it comes from canonical, and its exponent is
// bounded there too.
func parseDecimal(text string) (decimal, bool) {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	if power != "" {
		n, err := strconv.Atoi(power)
		if err != nil {
			return decimal{}, false
		}
		exponent = n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	coefficient, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return decimal{}, false
	}
	return decimal{coefficient, exponent - len(fraction)}, true
}

// number picks the form. It takes the coefficient over.
func (d decimal) number() ref.Val {
	var quotient, remainder big.Int
	for d.coefficient.Sign() != 0 {
		if quotient.QuoRem(d.coefficient, ten, &remainder); remainder.Sign() != 0 {
			break
		}
		d.coefficient.Set(&quotient)
		d.exponent++
	}
	if d.coefficient.Sign() == 0 {
		return types.Int(0)
	}
	if d.exponent >= 0 && d.exponent < 19 { // 10^19 is over 64 bits already
		if whole := d.scaled(d.exponent); whole.IsInt64() {
			return types.Int(whole.Int64())
		}
	}
	return d
}

var ten = big.NewInt(10)

// scaled is the coefficient times 10^n.
func (d decimal) scaled(n int) *big.Int {
	power := new(big.Int).Exp(ten, big.NewInt(int64(n)), nil)
	return power.Mul(power, d.coefficient)
}

// numberOf is the value of a JSON number.
func numberOf(v canonical.Value) ref.Val {
	if s, ok := v.Scaled(); ok {
		return smallNumber(s)
	}
	if i, ok := v.Int64(); ok {
		return types.Int(i)
	}
	text, _ := v.Decimal()
	d, ok := parseDecimal(text)
	if !ok {
		return types.NewErr("a number that cannot be read exactly")
	}
	return d.number()
}

// plainDecimal reads text by the grammar of a plain JSON number without exponent. Negative zero is refused: it is two
// values to some readers and one to others.
func plainDecimal(text string) (ref.Val, error) {
	if strings.ContainsAny(text, "eE") {
		return nil, errNotDecimal
	}
	v, err := canonical.NewNumber(text)
	if err != nil {
		return nil, errNotDecimal
	}
	if exact, _ := v.Decimal(); exact == "0" && text[0] == '-' {
		return nil, errors.New("negative zero")
	}
	return numberOf(v), nil
}

func isNumber(v ref.Val) bool {
	switch v.(type) {
	case types.Int, decimal:
		return true
	}
	return false
}

// asDecimal widens either form; false for everything that is no number.
func asDecimal(v ref.Val) (decimal, bool) {
	switch n := v.(type) {
	case decimal:
		return n, true
	case types.Int:
		return decimal{big.NewInt(int64(n)), 0}, true
	}
	return decimal{}, false
}

// align gives both coefficients at the smaller of the two exponents.
func align(a, b decimal) (x, y *big.Int, exponent int) {
	exponent = min(a.exponent, b.exponent)
	return a.scaled(a.exponent - exponent), b.scaled(b.exponent - exponent), exponent
}

func (d decimal) compare(other decimal) int {
	x, y, _ := align(d, other)
	return x.Cmp(y)
}

// The rest makes decimal a CEL value.

// ConvertToNative is refused: nothing may leave as a float.
func (d decimal) ConvertToNative(to reflect.Type) (any, error) {
	return nil, errors.New("a decimal cannot be converted to " + to.String())
}

// ConvertToType knows its type.
func (d decimal) ConvertToType(to ref.Type) ref.Val {
	if to == types.TypeType {
		return decimalType
	}
	return types.NewErr("a decimal cannot be converted to %s", to.TypeName())
}

// Equal compares by value; a whole number of 64 bits never has this form.
func (d decimal) Equal(other ref.Val) ref.Val {
	o, ok := other.(decimal)
	return types.Bool(ok && d.compare(o) == 0)
}

// Type is the opaque type decimal.
func (d decimal) Type() ref.Type { return decimalType }

// Value is the exact text.
func (d decimal) Value() any { return d.String() }

// String is the exact value, as coefficient and exponent.
func (d decimal) String() string { return d.coefficient.String() + "e" + strconv.Itoa(d.exponent) }
