package canonical_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

func TestScaled(t *testing.T) {
	t.Parallel()

	cases := []struct {
		text string
		want canonical.Scaled
		ok   bool
	}{
		{"0", canonical.Scaled{}, true},
		{"-0.0", canonical.Scaled{}, true},
		{"12.50", canonical.Scaled{Coefficient: 125, Exponent: -1}, true},
		{"-0.000001", canonical.Scaled{Coefficient: -1, Exponent: -6}, true},
		{"1200", canonical.Scaled{Coefficient: 1200}, true},
		{"1.5e300", canonical.Scaled{Coefficient: 15, Exponent: 299}, true},
		{"-2e-300", canonical.Scaled{Coefficient: -2, Exponent: -300}, true},
		{"922337203685477579", canonical.Scaled{Coefficient: 922337203685477579}, true},
		{"92233720368547758070", canonical.Scaled{}, false},
		{"9223372036854775809", canonical.Scaled{}, false},
		{"0.12345678901234567890123", canonical.Scaled{}, false},
	}
	for _, tc := range cases {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			v, err := canonical.NewNumber(tc.text)
			require.NoError(t, err)
			got, ok := v.Scaled()
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, got)
		})
	}

	t.Run("OnlyNumbersHaveOne", func(t *testing.T) {
		t.Parallel()
		for _, v := range []canonical.Value{{}, canonical.NewBool(true), canonical.MustString("5"), canonical.NewArray()} {
			_, ok := v.Scaled()
			require.False(t, ok, v)
		}
	})
}

// rat is the value by way of math/big.
func rat(t *testing.T, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	require.True(t, ok, text)
	return r
}

func TestScaledHasTheExactValueAndAligningKeepsIt(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	digits := func(most int) string {
		var b strings.Builder
		for range 1 + random.IntN(most) {
			b.WriteByte(byte('0' + random.IntN(10)))
		}
		return b.String()
	}
	draw := func() (canonical.Scaled, *big.Rat, bool) {
		text := strings.TrimLeft(digits(20), "0")
		if text == "" {
			text = "0"
		}
		if random.IntN(2) == 0 {
			text = "-" + text
		}
		if random.IntN(2) == 0 {
			text += "." + digits(8)
		}
		if random.IntN(3) == 0 {
			text += fmt.Sprintf("e%d", random.IntN(60)-30)
		}
		v, err := canonical.NewNumber(text)
		require.NoError(t, err)
		s, ok := v.Scaled()
		if ok {
			require.Equal(t, rat(t, text), rat(t, fmt.Sprintf("%de%d", s.Coefficient, s.Exponent)), text)
		}
		return s, rat(t, text), ok
	}
	aligned := 0
	for range 20_000 {
		a, exactA, ok1 := draw()
		b, exactB, ok2 := draw()
		if !ok1 || !ok2 {
			continue
		}
		x, y, exponent, ok := canonical.Align(a, b)
		if !ok {
			continue
		}
		aligned++
		require.Equal(t, exactA, rat(t, fmt.Sprintf("%de%d", x, exponent)))
		require.Equal(t, exactB, rat(t, fmt.Sprintf("%de%d", y, exponent)))
	}
	require.Greater(t, aligned, 4_000)
}
