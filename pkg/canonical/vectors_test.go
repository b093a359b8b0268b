package canonical

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func hashOf(t *testing.T, document string) Digest {
	t.Helper()
	v, err := Parse([]byte(document))
	require.NoError(t, err, document)
	return Hash(v)
}

// TestVectors holds pairs of documents that must hash alike, or must not (K5).
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		a     string
		same  []string
		other []string
	}{
		{"Row1MemberOrderAndSpace", `{"b":1,"a":2}`, []string{"{ \"a\" : 2,\n\"b\":1 }"}, nil},
		{"Row2EqualIntegers", `{"n":1}`, []string{`{"n":1.0}`, `{"n":1e0}`, `{"n":10E-1}`}, nil},
		{"Row3PositiveExponent", `{"n":100}`, []string{`{"n":1E+2}`}, nil},
		{"Row4NegativeZero", `{"n":0}`, []string{`{"n":-0}`, `{"n":-0.0}`}, nil},
		{"Row5TrailingZero", `{"n":0.1}`, []string{`{"n":0.10}`}, nil},
		{"Row6Beyond2To53", `{"n":9007199254740992}`, nil, []string{`{"n":9007199254740993}`}},
		{"Row7BeyondDoublePrecision", `{"n":0.1}`, nil, []string{`{"n":0.1000000000000000055511151231257827}`}},
		{"Row8Kinds", `{"n":1}`, nil, []string{`{"n":"1"}`, `{"n":true}`, `{"n":[1]}`}},
		{"Row9NullIsNotAbsent", `{"n":null}`, nil, []string{`{}`}},
		{"Row10EscapedLetter", `{"s":"\u00e9"}`, []string{`{"s":"é"}`}, nil},
		{"Row11NoNormalisation", `{"s":"\u00e9"}`, nil, []string{`{"s":"e\u0301"}`}},
		{"Row12EscapedMarkup", `{"s":"<&>"}`, []string{`{"s":"\u003c\u0026\u003e"}`}, nil},
		{"Row13Spaces", `{"s":"a b"}`, nil, []string{`{"s":"a\u00a0b"}`, `{"s":"a  b"}`}},
		{"Row14ArrayOrder", `{"a":[1,2]}`, nil, []string{`{"a":[2,1]}`}},
		{"Row15EmptyContainers", `{"a":{}}`, nil, []string{`{"a":[]}`}},
		{"Row16UTF16Order", `{"\ue000":1,"\ud83d\ude00":2}`, []string{`{"\ud83d\ude00":2,"\ue000":1}`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range c.same {
				require.Equal(t, hashOf(t, c.a), hashOf(t, b), b)
			}
			for _, b := range c.other {
				require.NotEqual(t, hashOf(t, c.a), hashOf(t, b), b)
			}
		})
	}
}

// TestRefused holds documents that cannot be kept faithfully, with where and why they are refused (K5).
func TestRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, MaxDepth+1)
	for _, c := range []struct {
		name, document, path, reason string
	}{
		{"Row17RepeatedMember", `{"a":1,"a":1}`, "/a", "repeated"},
		{"RepeatedMemberByEscape", `{"a":1,"\u0061":1}`, "/a", "repeated"},
		{"RepeatedMemberTwoLevelsDown", `{"x":[0,{"z":1,"amount":5,"amount":5000}]}`, "/x/1/amount", "repeated"},
		{"Row18HugeExponent", `{"a":1e1000000000}`, "/a", reasonExponent},
		{"HugeNegativeExponent", `{"a":-1e-1000000000}`, "/a", reasonExponent},
		{"ExponentBeyondDoubles", `{"a":1e400}`, "/a", reasonExponent},
		{"ExponentThatJsonbRefuses", `{"a":1e131071}`, "/a", reasonExponent},
		{"ExponentJustTooLarge", `1e309`, "", reasonExponent},
		{"ExponentJustTooSmall", `1e-325`, "", reasonExponent},
		{"ExponentTooLargeByItsDigits", `10e308`, "", reasonExponent},
		{"ExponentWithEndlessZeros", `1e00000000000`, "", reasonExponent},
		{"TooManyDigits", strings.Repeat("1", MaxDigits+1), "", reasonDigits},
		{"TooManyFractionDigits", "0." + strings.Repeat("1", MaxDigits), "", reasonDigits},
		{"Row19LoneHighSurrogate", `{"s":"\ud800"}`, "/s", reasonSurrogate},
		{"HighSurrogateBeforeLetter", `{"s":"\ud800a\udc00"}`, "/s", reasonSurrogate},
		{"HighSurrogateTwice", `{"s":"\ud800\ud800"}`, "/s", reasonSurrogate},
		{"LoneLowSurrogate", `{"s":"\udfff"}`, "/s", reasonSurrogate},
		{"Row19ByteFF", "{\"s\":\"a\xff\"}", "/s", reasonUTF8},
		{"ByteFE", "{\"s\":[\"\xfe\"]}", "/s/0", reasonUTF8},
		{"ByteFFAfterEscape", "{\"s\":\"\\n\xff\"}", "/s", reasonUTF8},
		{"SurrogateInUTF8", "{\"s\":\"\xed\xa0\x80\"}", "/s", reasonUTF8},
		{"OverlongUTF8", "{\"s\":\"\xc0\xaf\"}", "/s", reasonUTF8},
		{"InvalidUTF8InMemberName", "{\"o\":{\"\xff\":1}}", "/o", reasonUTF8},
		{"Row19EscapedNUL", `{"s":"\u0000"}`, "/s", reasonNUL},
		{"NULInMemberName", `{"o":{"a\u0000":1}}`, "/o", reasonNUL},
		{"RawNUL", "{\"s\":\"\x00\"}", "/s", reasonControl},
		{"RawNewline", "{\"s\":\"a\nb\"}", "/s", reasonControl},
		{"UnknownEscape", `{"s":"\x41"}`, "/s", reasonEscape},
		{"ShortUnicodeEscape", `{"s":"\u12"}`, "/s", reasonEscape},
		{"EscapeAtTheEnd", `"\`, "", reasonEscape},
		{"UnclosedString", `{"s":"abc`, "/s", reasonUnclosed},
		{"UnclosedStringAfterEscape", `{"s":"a\nbc`, "/s", reasonUnclosed},
		{"Row20TrailingData", `{"a":1} {}`, "", "more data"},
		{"Row20ByteOrderMark", "\ufeff{}", "", "byte order mark"},
		{"Row20Empty", "", "", "empty"},
		{"OnlySpace", " \n\t\r", "", "empty"},
		{"Row20NaN", `NaN`, "", "a value is expected"},
		{"Infinity", `-Infinity`, "", reasonNumber},
		{"Row20LeadingZero", `01`, "", reasonNumber},
		{"NegativeLeadingZero", `-01`, "", reasonNumber},
		{"Row20TrailingCommaInArray", `[1,]`, "/1", "a value is expected"},
		{"TrailingCommaInObject", `{"a":1,}`, "", "member name"},
		{"LeadingComma", `[,1]`, "/0", "a value is expected"},
		{"PlusSign", `+1`, "", "a value is expected"},
		{"PointWithoutDigits", `1.`, "", reasonNumber},
		{"PointWithoutWhole", `.5`, "", "a value is expected"},
		{"ExponentWithoutDigits", `1e+`, "", reasonNumber},
		{"LoneMinus", `-`, "", reasonNumber},
		{"HexNumber", `0x10`, "", "more data"},
		{"SingleQuotes", `{'a':1}`, "", "member name"},
		{"Comment", `{/**/}`, "", "member name"},
		{"MissingColon", `{"a" 1}`, "/a", "colon"},
		{"MissingComma", `[1 2]`, "", "a comma or ]"},
		{"WrongEnd", `{"a":1]`, "", "a comma or }"},
		{"EndInsideObject", `{"a":1`, "", "ends inside"},
		{"EndAfterComma", `[1,`, "/1", "ends where a value"},
		{"EndAfterColon", `{"a":`, "/a", "ends where a value"},
		{"WrongLiteral", `{"a":nul}`, "/a", "a value is expected"},
		{"NonBreakingSpace", "\u00a01", "", "a value is expected"},
		{"VerticalTab", "\v1", "", "a value is expected"},
		{"TooDeep", deep, strings.Repeat("/0", MaxDepth), "nested too deeply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Canonical([]byte(c.document))
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, c.path, refusal.Path)
			require.Contains(t, refusal.Reason, c.reason)
			require.GreaterOrEqual(t, refusal.Offset, 0)
			require.LessOrEqual(t, refusal.Offset, len(c.document))
		})
	}

	t.Run("ErrorNamesPathAndByte", func(t *testing.T) {
		t.Parallel()
		_, err := Parse([]byte(`{"a":[{"b/c":01}]}`))
		require.EqualError(t, err, `JSON not acceptable: "/a/0/b~1c", byte 13: malformed number`)
	})

	t.Run("RepeatedMemberIsShownAtItsSecondPlace", func(t *testing.T) {
		t.Parallel()
		_, err := Parse([]byte(`{"b":1,"a":1,"b":2}`))
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, 13, refusal.Offset)
	})

	t.Run("LongMemberNameIsCutInThePath", func(t *testing.T) {
		t.Parallel()
		_, err := Parse(fmt.Appendf(nil, `{"%s":01}`, strings.Repeat("é", 5000)))
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "/"+strings.Repeat("é", maxPathToken/2)+"…", refusal.Path)
	})

	t.Run("EscapedBackslashBeforeZerosIsText", func(t *testing.T) {
		t.Parallel()
		form, err := Canonical([]byte(`{"s":"\\u0000"}`))
		require.NoError(t, err)
		require.Equal(t, `{"s":"\\u0000"}`, string(form))
	})

	t.Run("CaseTwinsAreTwoMembers", func(t *testing.T) {
		t.Parallel()
		form, err := Canonical([]byte(`{"amount":5,"AMOUNT":5000}`))
		require.NoError(t, err)
		require.Equal(t, `{"AMOUNT":5000,"amount":5}`, string(form))
	})

	t.Run("DeepestAllowedNestingIsRead", func(t *testing.T) {
		t.Parallel()
		document := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
		form, err := Canonical([]byte(document))
		require.NoError(t, err)
		require.Equal(t, document, string(form))
	})
}

// TestForm pins the canonical text, numbers above all.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{`0e5`, `0`}, {`-0.000e-7`, `0`}, {`1200`, `1200`}, {`-1200.0`, `-1200`}, {`12.50`, `12.5`}, {`0.0000010`, `0.000001`},
		{`0.0000001`, `1e-7`}, {`0.00000012`, `1.2e-7`}, {`12e-8`, `1.2e-7`}, {`1e-07`, `1e-7`}, {`-1E-7`, `-1e-7`},
		{`1e20`, `100000000000000000000`}, {`1e21`, `1e+21`}, {`1000000000000000000000`, `1e+21`}, {`1.5e21`, `1.5e+21`},
		{`123456789012345678901`, `123456789012345678901`}, {`1234567890123456789012`, `1234567890123456789012`},
		{`123456789012345678901234567890.50`, `123456789012345678901234567890.5`},
		{`1234567890123456789e12`, `1234567890123456789000000000000`}, {`12345678901234567e5`, `1.2345678901234567e+21`},
		{`9007199254740993`, `9007199254740993`}, {`0.1`, `0.1`}, {`0.10`, `0.1`}, {`0.000000`, `0`}, {`100e-2`, `1`},
		{`1.7976931348623157e308`, `1.7976931348623157e+308`}, {`5e-324`, `5e-324`}, {`0.05`, `0.05`}, {`333333333.33333329`, `333333333.33333329`},
		{`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"€$\u000f\nA'B\"\\\\\"/"`},
		{`"\b\t\n\f\r\u0001\u001f\u007f"`, "\"\\b\\t\\n\\f\\r\\u0001\\u001f\u007f\""},
		{`"\ud83d\ude00\u2028"`, "\"😀\u2028\""},
		{`[ ]`, `[]`}, {`{ }`, `{}`}, {`[null , true,false]`, `[null,true,false]`},
		// RFC 8785, section 3.2.3
		{`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
			`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
	} {
		form, err := Canonical([]byte(c[0]))
		require.NoError(t, err, c[0])
		require.Equal(t, c[1], string(form), c[0])
	}

	t.Run("HashIsPinned", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, 1, HashVersion)
		require.Equal(t, "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772",
			hashOf(t, `{"b":1.0, "a":2}`).String())
	})
}
