package canonical

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var seeds = []string{
	`{"b":1,"a":[1.0,-0,1e21,0.1,1e-7]}`, `{"\ue000":1,"\ud83d\ude00":2}`, `"\u00e9\n\"\\"`, `[null,true,false,{}]`,
	`9007199254740993`, `1e309`, `{"a":1,"a":2}`, "\"\xff\"", `[[[[1]]]]`, ` {"x" : "y"} `, `1.7976931348623157e308`,
	`12345678901234567890123.4`, `{"s":"\ud800"}`,
}

// doubles reports whether all numbers are written the way their nearest double is, so that RFC 8785 keeps them exactly.
func doubles(v Value) bool {
	switch v.Kind() {
	case Number:
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil {
			return false
		}
		shortest, err := FromAny(f)
		return err == nil && shortest.Equal(v)
	case Array, Object:
		for i := range v.list {
			if !doubles(v.list[i].Value) {
				return false
			}
		}
	}
	return true
}

func FuzzAgreesWithRFC8785(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		v, err := Parse(document)
		if err != nil || !doubles(v) {
			return
		}
		theirs, err := jcs.Transform(document)
		if err != nil {
			return
		}
		require.Equal(t, string(theirs), string(v.AppendCanonical(nil)))
	})
}

func FuzzCanonicalIsIdempotent(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		form, err := Canonical(document)
		if err != nil {
			require.IsType(t, new(Error), err)
			return
		}
		require.True(t, json.Valid(document), "accepted what encoding/json refuses")
		again, err := Canonical(form)
		require.NoError(t, err)
		require.Equal(t, string(form), string(again))
	})
}

func FuzzNumbersKeepTheirValue(f *testing.F) {
	for _, seed := range []string{"1", "-0.0", "1e21", "12345678901234567890", "0.00000012", "1E+2", "10E-1", "5e-324"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := NewNumber(text)
		if err != nil {
			return
		}
		before, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		after, ok := new(big.Rat).SetString(v.Text())
		require.True(t, ok)
		require.Zero(t, before.Cmp(after), v.Text())
	})
}

// document draws a value together with a writer that may permute members and write numbers in other ways.
func document(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[a-z\x{e9}\x{e000}\x{1f600}"\\]{0,4}`), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(i int64) any { return json.Number(strconv.FormatInt(i, 10)) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.Map(rapid.SliceOfN(document(depth-1), 0, 4), func(items []any) any { return items }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-c\x{e000}\x{1f600}]{1,3}`), document(depth-1), 0, 6),
			func(m map[string]any) any { return m }),
	)
}

// write renders with members in random order, random spaces and numbers in an equal form.
func write(out *strings.Builder, data any, random *rand.Rand) {
	space := func() { out.WriteString([]string{"", " ", "\n"}[random.IntN(3)]) }
	space()
	switch d := data.(type) {
	case json.Number:
		out.WriteString(string(d) + []string{"", ".0", "e0", ".000e-00", ".00E+0"}[random.IntN(5)])
	case []any:
		out.WriteByte('[')
		for i, item := range d {
			if i > 0 {
				out.WriteByte(',')
			}
			write(out, item, random)
		}
		out.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(d))
		for name := range d {
			names = append(names, name)
		}
		slices.Sort(names) // so that the seed alone decides
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		out.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				out.WriteByte(',')
			}
			write(out, name, random)
			out.WriteByte(':')
			write(out, d[name], random)
		}
		out.WriteByte('}')
	default:
		text, _ := json.Marshal(d)
		out.Write(text)
	}
	space()
}

func TestProperties(t *testing.T) {
	t.Parallel()

	t.Run("PermutedMembersHashAlike", rapid.MakeCheck(func(t *rapid.T) {
		data := document(3).Draw(t, "document")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		built, err := FromAny(data)
		require.NoError(t, err)
		for range 3 {
			var text strings.Builder
			write(&text, data, random)
			read, err := Parse([]byte(text.String()))
			require.NoError(t, err, text.String())
			require.Equal(t, Hash(built), Hash(read), text.String())
			require.Equal(t, data == nil, read.Any() == nil)
		}
	}))

	t.Run("DifferentIntegersNeverHashAlike", rapid.MakeCheck(func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		require.Equal(t, a == b, Hash(NewInt(a)) == Hash(NewInt(b)))
	}))

	t.Run("DoublesAreWrittenAsECMAScriptDoes", rapid.MakeCheck(func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		ours, err := FromAny(f)
		require.NoError(t, err)
		theirs, err := jcs.NumberToJSON(f)
		require.NoError(t, err)
		require.Equal(t, theirs, ours.Text())
	}))

	t.Run("NamesAreOrderedByUTF16", rapid.MakeCheck(func(t *rapid.T) {
		name := rapid.StringMatching(`[a\x{e9}\x{d7ff}\x{e000}\x{ffff}\x{10000}\x{1f600}\x{10ffff}]{0,4}`)
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		require.Equal(t, compareUnits(a, b), compareNames(a, b))
	}))
}

// allocated is how many bytes f allocates. It must not run beside other tests.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRefusalIsCheap is not parallel, because it counts what the whole process allocates. Of each document one copy may
// be made, and little besides.
func TestRefusalIsCheap(t *testing.T) {
	for name, document := range map[string]string{
		"HugeExponent":       `{"a":1e1000000000}`,
		"HugeMinusExponent":  `{"a":-1e-1000000000}`,
		"MegabyteOfDigits":   `{"a":` + strings.Repeat("7", 1<<20) + `}`,
		"MegabyteOfFraction": `{"a":0.` + strings.Repeat("7", 1<<20) + `}`,
		"MegabyteOfExponent": `{"a":1e` + strings.Repeat("0", 1<<20) + `1}`,
		"MegabyteOfBrackets": strings.Repeat("[", 1<<20),
		"MegabyteOfCommas":   "[" + strings.Repeat(",", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(document)
			var err error
			used := allocated(func() { _, err = Parse(data) })
			require.Error(t, err)
			require.Less(t, used, uint64(len(data)+128<<10))
		})
	}

	t.Run("NumberInItsLimitsIsNotExpanded", func(t *testing.T) {
		data := []byte("[" + strings.TrimSuffix(strings.Repeat("1e308,", 1000), ",") + "]")
		var form []byte
		used := allocated(func() { form, _ = Canonical(data) })
		require.Len(t, form, len(data)+1000) // a plus sign each
		require.Less(t, used, uint64(1<<20))
	})
}
