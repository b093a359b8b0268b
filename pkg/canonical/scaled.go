package canonical

import (
	"math"
	"strconv"
)

// Scaled is Coefficient × 10^Exponent. Nearly all numbers of practice have this form, and can be computed with exactly at
// little cost; what does not fit is left to math/big.
type Scaled struct {
	Coefficient int64
	Exponent    int
}

// Scaled is the exact value of a number whose digits fit into 64 bits; false for everything else.
func (v Value) Scaled() (Scaled, bool) {
	if v.kind != Number {
		return Scaled{}, false
	}
	text, negative := v.text, v.text[0] == '-'
	if negative {
		text = text[1:]
	}
	var s Scaled
	fraction := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			fraction = true
		case c == 'e':
			exponent, err := strconv.Atoi(text[i+1:])
			s.Exponent += exponent
			return s.signed(negative), err == nil
		case s.Coefficient > (math.MaxInt64-9)/10:
			return Scaled{}, false
		default:
			s.Coefficient = s.Coefficient*10 + int64(c-'0')
			if fraction {
				s.Exponent--
			}
		}
	}
	return s.signed(negative), true
}

func (s Scaled) signed(negative bool) Scaled {
	if negative {
		s.Coefficient = -s.Coefficient
	}
	return s
}

// Align gives both coefficients at the smaller of the two exponents, false where one of them does not fit into 64 bits.
func Align(a, b Scaled) (x, y int64, exponent int, ok bool) {
	exponent = min(a.Exponent, b.Exponent)
	x, ok1 := Shift(a.Coefficient, a.Exponent-exponent)
	y, ok2 := Shift(b.Coefficient, b.Exponent-exponent)
	return x, y, exponent, ok1 && ok2
}

// Shift is n × 10^places, false where that does not fit into 64 bits. It is for places from 0.
func Shift(n int64, places int) (int64, bool) {
	if n == 0 {
		return 0, true
	}
	if places >= len(powers) {
		return 0, false
	}
	shifted := n * powers[places]
	return shifted, shifted/powers[places] == n
}

// powers are those of ten that fit into 64 bits.
var powers = func() (p [19]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()
