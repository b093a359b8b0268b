package policy

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// route of a change under a rule that rejects; auto where the rule does not match.
func rejects(t testingT, when, amount string) string {
	w := newWorld(t)
	w.rule(config.RouteAuto, "true")
	w.rule(config.RouteReject, when)
	w.change(`{"amount": ` + amount + `}`)
	d := w.decide()
	if d.Reasons[len(d.Reasons)-1].Code == CodeRuleError {
		return "error"
	}
	return d.Route
}

func TestAmountsAreExact(t *testing.T) {
	t.Parallel()

	const above = `decimal(proposed_change.amount) > decimal("100.00")`
	cases := []struct{ name, when, amount, want string }{
		{"JustBelow", above, "99.999", "auto"},
		{"Equal", above, "100", "auto"},
		{"EqualWithZeros", above, "100.000", "auto"},
		{"EqualWithExponent", above, "1e2", "auto"},
		{"OneCentAbove", above, "100.01", "reject"},
		{"AHairAbove", above, "100.00000000000000000000000000000000001", "reject"},
		{"MinusZero", above, "-0", "auto"},
		{"Negative", above, "-250", "auto"},
		{"AsNumbersNotAsLetters", above, "9", "auto"},
		{"PlainText", above, `"100.01"`, "reject"},
		{"TextWithExponent", above, `"1e9"`, "error"},
		{"TextWithSpace", above, `" 100"`, "error"},
		{"TextWithSign", above, `"+100"`, "error"},
		{"TextWithLeadingZero", above, `"0100"`, "error"},
		{"TextWithComma", above, `"100,00"`, "error"},
		{"TextWithoutDigits", above, `"."`, "error"},
		{"TextInHex", above, `"0x64"`, "error"},
		{"NegativeZeroAsText", above, `"-0.00"`, "error"},
		{"NotANumber", above, `"NaN"`, "error"},
		{"EmptyText", above, `""`, "error"},
		{"TextWithoutDecimal", "proposed_change.amount > 100", `"9000"`, "error"},
		{"TextWithoutDecimalOnTheRight", "100 < proposed_change.amount", `"9000"`, "error"},
		{"BothTexts", "proposed_change.amount > proposed_change.amount", `"9000"`, "error"},
		{"TheSumOfTenths", `decimal("0.1") + decimal("0.2") == decimal(proposed_change.amount)`, "0.3", "reject"},
		{"BeyondDoubles", `decimal(proposed_change.amount) == decimal("9007199254740993")`, "9007199254740992", "auto"},
		{"BeyondDoublesEqual", "proposed_change.amount == 9007199254740993", "9007199254740993", "reject"},
		{"BeyondInt64", `proposed_change.amount == decimal("9223372036854775808")`, "9223372036854775808", "reject"},
		{"BeyondInt64Ordered", "proposed_change.amount > 9223372036854775807", "9223372036854775808", "reject"},
		{"SumsBeyondInt64", `proposed_change.amount + 1 > 9223372036854775807`, "9223372036854775807", "reject"},
		{"EachOrderHolds", "proposed_change.amount <= 10 && proposed_change.amount >= 10 && proposed_change.amount < 11 && " +
			"proposed_change.amount > 9", "10", "reject"},
		{"NoOrderHoldsByOne", "proposed_change.amount <= 9 || proposed_change.amount >= 11 || proposed_change.amount < 10 " +
			"|| proposed_change.amount > 10", "10", "auto"},
		{"DurationsHaveAnOrder", `duration("1h") < duration("2h") && proposed_change.amount == 1`, "1", "reject"},
		{"MinusAFraction", "-proposed_change.amount < 0", "1.5", "error"},
		{"EqualToALiteralEitherWay", "proposed_change.amount == 100 && 100 == proposed_change.amount", "100.0", "reject"},
		{"InAListOfLiterals", "proposed_change.amount in [1, 100]", "1.0e2", "reject"},
		{"EqualToAThreshold", "proposed_change.amount == thresholds.limit", "1e3", "reject"},
		{"OrderedAgainstAThreshold", "thresholds.ratio < proposed_change.amount", "0.250001", "reject"},
		{"MixedArithmetic", "proposed_change.amount * 4 - 1 + 1 == 401", "100.25", "reject"},
		{"WholeResults", `decimal("0.5") * proposed_change.amount == 50`, "100", "reject"},
		{"TextIsNotAdded", "proposed_change.amount + 1 > 1", `"1"`, "error"},
		{"NumberIsNotJoinedToText", `"1" + proposed_change.amount == "11"`, "1", "error"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, rejects(t, tc.when, tc.amount))
		})
	}

	t.Run("ANegativeOrOverPreciseAmountIsRefusedByItsSchema", func(t *testing.T) {
		t.Parallel()
		for _, amount := range []string{"-1", "-0", "0", "10.005", `"100"`, "99.999"} {
			w := newWorld(t)
			w.action.Schema = []byte(strictSchema)
			w.rule(config.RouteAuto, "true")
			w.change(`{"amount": ` + amount + `}`)
			w.requireRoute(config.RouteReject, CodeSchemaInvalid)
		}
	})

	t.Run("FloatsAreRefused", func(t *testing.T) {
		t.Parallel()
		_, ok := asDecimal(types.Double(1))
		require.False(t, ok)
	})
}

// Order, equality and arithmetic agree with math/big on whatever JSON can hold.
func TestNumbersAgreeWithRationals(t *testing.T) {
	t.Parallel()
	number := rapid.Custom(func(t *rapid.T) string {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,12})?`).Draw(t, "digits")
		if rapid.Bool().Draw(t, "at the limits of 64 bits") {
			text = rapid.SampledFrom([]string{"9223372036854775807", "-9223372036854775808", "922337203685477580.7", "-1", "10",
				"9223372036854775808", "-922337203685477580.8", "4611686018427387904", "0.1", "3037000500"}).Draw(t, "limit")
		}
		return text + rapid.SampledFrom([]string{"", "", "e3", "e-7", "e60"}).Draw(t, "exponent")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = a
		}
		x, y := numberOf(parseNumber(t, a)), numberOf(parseNumber(t, b))
		text, _ := parseNumber(t, a).Decimal()
		long, ok := parseDecimal(text)
		require.True(t, ok)
		require.Equal(t, long.number(), x, "the short way comes to the same form")
		p, _ := new(big.Rat).SetString(a)
		q, _ := new(big.Rat).SetString(b)

		sign, err := order(x, y)
		require.NoError(t, err)
		require.Equal(t, p.Cmp(q), sign)
		require.Equal(t, types.Bool(p.Cmp(q) == 0), types.Equal(x, y))
		require.Zero(t, new(big.Rat).Add(p, q).Cmp(rational(t, add(x, y))))
		require.Zero(t, new(big.Rat).Sub(p, q).Cmp(rational(t, subtract(x, y))))
		require.Zero(t, new(big.Rat).Mul(p, q).Cmp(rational(t, multiply(x, y))))
		for _, result := range []ref.Val{add(x, y), subtract(x, y), multiply(x, y)} { // equal numbers have one form
			again := parseNumber(t, rational(t, result).FloatString(80))
			require.Equal(t, numberOf(again), result)
		}
	})
}

func rational(t *rapid.T, v any) *big.Rat {
	r, ok := new(big.Rat).SetString(fmt.Sprint(v))
	require.True(t, ok, "%v", v)
	return r
}
