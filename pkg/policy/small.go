package policy

import (
	"math"
	"math/big"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Nearly all amounts have a coefficient of 64 bits. What is here computes with those as long as nothing overflows, and
// leaves the rest to math/big.

// small is a number as coefficient and exponent, false where the coefficient is larger or the value is no number.
func small(v ref.Val) (coefficient int64, exponent int, ok bool) {
	switch n := v.(type) {
	case types.Int:
		return int64(n), 0, true
	case decimal:
		return n.coefficient.Int64(), n.exponent, n.coefficient.IsInt64()
	}
	return 0, 0, false
}

// alignSmall gives both coefficients at the smaller of the two exponents.
func alignSmall(a, b ref.Val) (x, y int64, exponent int, ok bool) {
	x, xe, ok1 := small(a)
	y, ye, ok2 := small(b)
	if !ok1 || !ok2 {
		return 0, 0, 0, false
	}
	exponent = min(xe, ye)
	x, ok1 = shifted(x, xe-exponent)
	y, ok2 = shifted(y, ye-exponent)
	return x, y, exponent, ok1 && ok2
}

// shifted is n times 10^places.
func shifted(n int64, places int) (int64, bool) {
	if places > 18 && n != 0 {
		return 0, false
	}
	for ok := true; places > 0 && n != 0; places-- {
		if n, ok = times(n, 10); !ok {
			return 0, false
		}
	}
	return n, true
}

func times(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	product := a * b
	return product, product/b == a && (a != math.MinInt64 || b != -1) && (b != math.MinInt64 || a != -1)
}

// smallNumber picks the form of coefficient times 10^exponent, as decimal.number does.
func smallNumber(coefficient int64, exponent int) ref.Val {
	for coefficient != 0 && coefficient%10 == 0 {
		coefficient /= 10
		exponent++
	}
	if coefficient == 0 {
		return types.Int(0)
	}
	if exponent >= 0 {
		if whole, ok := shifted(coefficient, exponent); ok {
			return types.Int(whole)
		}
	}
	return decimal{big.NewInt(coefficient), exponent}
}
