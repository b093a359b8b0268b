package policy

import (
	"math"
	"math/big"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Nearly all amounts have a coefficient of 64 bits. What is here computes with those as long as nothing overflows, and
// leaves the rest to math/big.

// small is a number as coefficient and exponent, false where the coefficient is larger or the value is no number.
func small(v ref.Val) (canonical.Scaled, bool) {
	switch n := v.(type) {
	case types.Int:
		return canonical.Scaled{Coefficient: int64(n)}, true
	case decimal:
		return canonical.Scaled{Coefficient: n.coefficient.Int64(), Exponent: n.exponent}, n.coefficient.IsInt64()
	}
	return canonical.Scaled{}, false
}

// alignSmall gives both coefficients at the smaller of the two exponents.
func alignSmall(a, b ref.Val) (x, y int64, exponent int, ok bool) {
	p, ok1 := small(a)
	q, ok2 := small(b)
	if !ok1 || !ok2 {
		return 0, 0, 0, false
	}
	return canonical.Align(p, q)
}

func times(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	product := a * b
	return product, product/b == a && (a != math.MinInt64 || b != -1) && (b != math.MinInt64 || a != -1)
}

// smallNumber picks the form, as decimal.number does.
func smallNumber(s canonical.Scaled) ref.Val {
	coefficient, exponent := s.Coefficient, s.Exponent
	for coefficient != 0 && coefficient%10 == 0 {
		coefficient /= 10
		exponent++
	}
	if coefficient == 0 {
		return types.Int(0)
	}
	if exponent >= 0 {
		if whole, ok := canonical.Shift(coefficient, exponent); ok {
			return types.Int(whole)
		}
	}
	return decimal{big.NewInt(coefficient), exponent}
}
