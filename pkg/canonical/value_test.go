package canonical

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

func compareUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func parse(t *testing.T, document string) Value {
	t.Helper()
	v, err := Parse([]byte(document))
	require.NoError(t, err)
	return v
}

func TestValue(t *testing.T) {
	t.Parallel()
	const document = `{"z":null,"a":{"b":[10,{"c":"x"},12.50]},"x/y":{"~":true},"":7,"0":"zero"}`

	t.Run("PointersFollowRFC6901", func(t *testing.T) {
		t.Parallel()
		v := parse(t, document)
		for pointer, want := range map[string]string{
			"": v.String(), "/a/b/0": "10", "/a/b/1/c": `"x"`, "/a/b/2": "12.5", "/x~1y/~0": "true", "/": "7", "/0": `"zero"`, "/z": "null",
		} {
			got, found := v.Pointer(pointer)
			require.True(t, found, pointer)
			require.Equal(t, want, got.String(), pointer)
		}
		for _, pointer := range []string{"a", "/missing", "/a/b/3", "/a/b/-", "/a/b/00", "/a/b/+1", "/a/b/0/x", "/z/x", "/a/b/"} {
			_, found := v.Pointer(pointer)
			require.False(t, found, pointer)
		}
	})

	t.Run("AccessorsAnswerByKind", func(t *testing.T) {
		t.Parallel()
		v := parse(t, `["s",12.50,true,false,null,{"a":1},[2],9223372036854775807,9223372036854775808]`)
		var texts []string
		for item := range v.Items() {
			texts = append(texts, item.Kind().String()+" "+item.Text())
		}
		require.Equal(t, []string{
			"string s", "number 12.5", "boolean true", "boolean false", "null null", `object {"a":1}`, "array [2]",
			"number 9223372036854775807", "number 9223372036854775808",
		}, texts)
		require.Equal(t, 9, v.Len())
		require.True(t, v.Index(2).True())
		require.False(t, v.Index(3).True())
		require.True(t, v.Index(4).IsNull())
		decimal, ok := v.Index(1).Decimal()
		require.True(t, ok)
		require.Equal(t, "12.5", decimal)
		_, ok = v.Index(0).Decimal()
		require.False(t, ok)
		i, ok := v.Index(7).Int64()
		require.True(t, ok)
		require.Equal(t, int64(math.MaxInt64), i)
		_, ok = v.Index(8).Int64()
		require.False(t, ok)
		for name, member := range v.Index(5).Members() {
			require.Equal(t, "a=1", name+"="+member.Text())
		}
		for range v.Members() {
			t.Fatal("an array has no members")
		}
		for range v.Index(5).Items() {
			t.Fatal("an object has no items")
		}
	})

	t.Run("AnyKeepsNumbersAsText", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, map[string]any{
			"a": []any{json.Number("9007199254740993"), nil, true, "x", map[string]any{}},
		}, parse(t, `{"a":[9007199254740993,null,true,"x",{}]}`).Any())
	})

	t.Run("StructFieldsAreReadStrictly", func(t *testing.T) {
		t.Parallel()
		var into struct{ Change Value }
		require.ErrorContains(t, json.Unmarshal([]byte(`{"Change":{"a":1,"a":2}}`), &into), "repeated")
		require.NoError(t, json.Unmarshal([]byte(`{"Change":{"b":1.0,"a":2}}`), &into))
		out, err := json.Marshal(into)
		require.NoError(t, err)
		require.Equal(t, `{"Change":{"a":2,"b":1}}`, string(out))
	})

	t.Run("InputMayBeReusedAfterParsing", func(t *testing.T) {
		t.Parallel()
		data := []byte(`{"a":"before"}`)
		v, err := Parse(data)
		require.NoError(t, err)
		copy(data, `{"a":"changed`)
		require.Equal(t, `{"a":"before"}`, v.String())
	})

	t.Run("EqualComparesCanonically", func(t *testing.T) {
		t.Parallel()
		require.True(t, parse(t, `{"a":[1.0],"b":2}`).Equal(parse(t, `{"b":2,"a":[1]}`)))
		for _, other := range []string{`{"a":[1],"b":3}`, `{"a":[1]}`, `{"a":[1],"c":2}`, `[1]`, `{"a":["1"],"b":2}`} {
			require.False(t, parse(t, `{"a":[1],"b":2}`).Equal(parse(t, other)), other)
		}
	})

	t.Run("DigestsRoundTripAsText", func(t *testing.T) {
		t.Parallel()
		digest := Hash(NewInt(1))
		text, err := digest.MarshalText()
		require.NoError(t, err)
		back, err := ParseDigest(string(text))
		require.NoError(t, err)
		require.Equal(t, digest, back)
		_, err = ParseDigest("abc")
		require.ErrorContains(t, err, "64 hex characters")
		_, err = ParseDigest("zz" + string(text[2:]))
		require.Error(t, err)
	})
}

func TestBuild(t *testing.T) {
	t.Parallel()

	t.Run("GoDataBecomesCanonical", func(t *testing.T) {
		t.Parallel()
		v, err := FromAny(map[string]any{
			"z": []any{nil, true, "<s>", 7, uint64(math.MaxUint64), 0.1, 1e21, json.Number("1.50"), json.RawMessage(` {"k":1.0}`)},
			"a": map[string]string{"x": "y"}, "b": []string{"p"}, "c": NewInt(-3), "d": []Value{NewBool(false)},
			"e": map[string]Value{"n": {}},
		})
		require.NoError(t, err)
		require.Equal(t, `{"a":{"x":"y"},"b":["p"],"c":-3,"d":[false],"e":{"n":null},`+
			`"z":[null,true,"<s>",7,18446744073709551615,0.1,1e+21,1.5,{"k":1}]}`, v.String())
	})

	t.Run("WhatJSONCannotSayIsRefusedWithItsPath", func(t *testing.T) {
		t.Parallel()
		cycle := []any{nil}
		cycle[0] = cycle
		for reason, data := range map[string]any{
			`"/a/1": a number must be finite`: map[string]any{"a": []any{1, math.NaN()}},
			`"/a": invalid UTF-8`:             map[string]any{"a": "\xff"},
			`"/a": ` + reasonNUL:              map[string]any{"a": "\x00"},
			"a member name: invalid UTF-8":    map[string]any{"\xff": 1},
			`"/a": a chan int has no JSON`:    map[string]any{"a": make(chan int)},
			`"/0": malformed number`:          []any{json.Number("01")},
			"nested too deeply":               cycle,
		} {
			_, err := FromAny(data)
			require.ErrorContains(t, err, reason)
		}
	})

	t.Run("ObjectsAreOrderedAndRefuseRepeats", func(t *testing.T) {
		t.Parallel()
		members := []Member{{"b", NewInt(1)}, {"a", NewArray(MustString("x"), NewBool(true))}}
		v, err := NewObject(members...)
		require.NoError(t, err)
		require.Equal(t, `{"a":["x",true],"b":1}`, v.String())
		require.Equal(t, "b", members[0].Name, "the caller's slice is left alone")
		_, err = NewObject(Member{Name: "a"}, Member{Name: "b"}, Member{Name: "a"})
		require.ErrorContains(t, err, `"/a": a member name is repeated`)
	})

	t.Run("NumbersAreReadWhole", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "1 ", " 1", "1x", "1e309", "0x1", "--1"} {
			_, err := NewNumber(text)
			require.Error(t, err, text)
		}
	})

	t.Run("MustStringPanicsOnUnsoundText", func(t *testing.T) {
		t.Parallel()
		require.Panics(t, func() { MustString("\xff") })
	})
}

func TestSelect(t *testing.T) {
	t.Parallel()
	const document = `{"id":7,"meta":{"sent_at":"now","by":"x"},"items":[{"sku":1,"ts":5},{"sku":2,"ts":6}],"new":null}`
	for _, c := range []struct {
		name             string
		include, exclude []string
		want             string
	}{
		{"EverythingByDefault", nil, nil, `{"id":7,"items":[{"sku":1,"ts":5},{"sku":2,"ts":6}],"meta":{"by":"x","sent_at":"now"},"new":null}`},
		{"UnknownFieldsStayUnlessExcluded", nil, []string{"/meta/sent_at", "/items"}, `{"id":7,"meta":{"by":"x"},"new":null}`},
		{"IncludedPartsKeepTheirPlace", []string{"/id", "/meta/by"}, nil, `{"id":7,"meta":{"by":"x"}}`},
		{"NullIsTakenAndAbsentIsNot", []string{"/new", "/gone", "/meta/gone", "/id/x"}, nil, `{"new":null}`},
		{"ArrayItemsKeepTheirIndex", []string{"/items/1/sku"}, nil, `{"items":[null,{"sku":2}]}`},
		{"ArrayItemsAreTakenOutByOriginalIndex", []string{"/items"}, []string{"/items/0", "/items/1/ts", "/items/9"}, `{"items":[{"sku":2}]}`},
		{"ExcludeWinsOverInclude", []string{"/meta"}, []string{"/meta/by"}, `{"meta":{"sent_at":"now"}}`},
		{"AWiderIncludeCoversANarrowerOne", []string{"/meta/by", "/meta"}, nil, `{"meta":{"by":"x","sent_at":"now"}}`},
		{"TheWholeDocumentByPointer", []string{""}, []string{"/items", "/meta", "/new"}, `{"id":7}`},
		{"NothingFoundIsEmpty", []string{"/gone"}, nil, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := parse(t, document)
			got, err := Select(v, c.include, c.exclude)
			require.NoError(t, err)
			require.Equal(t, c.want, got.String())
			require.Equal(t, parse(t, document).String(), v.String(), "the document itself is unchanged")
		})
	}

	t.Run("MalformedPointersAreRefused", func(t *testing.T) {
		t.Parallel()
		for _, pointer := range []string{"id", "/a~2", "/a~"} {
			_, err := NewSelection([]string{pointer}, nil)
			require.ErrorContains(t, err, "included fields")
			_, err = NewSelection(nil, []string{pointer})
			require.ErrorContains(t, err, "excluded fields")
		}
		_, err := NewSelection(nil, []string{""})
		require.ErrorContains(t, err, "whole document")
	})

	t.Run("ARedeliverysOwnTimestampMakesNoConflict", func(t *testing.T) {
		t.Parallel()
		rules, err := NewSelection(nil, []string{"/meta/sent_at"})
		require.NoError(t, err)
		first := Hash(rules.Apply(parse(t, `{"amount":1.0,"meta":{"sent_at":"10:00"}}`)))
		require.Equal(t, first, Hash(rules.Apply(parse(t, `{"meta":{"sent_at":"10:05"},"amount":1}`))))
		require.NotEqual(t, first, Hash(rules.Apply(parse(t, `{"amount":1,"meta":{"sent_at":"10:05"},"extra":1}`))))
	})
}
