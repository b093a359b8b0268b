package config

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// outlined is a schema with what the outline and the library say of values.
type outlined struct {
	outline *outline
	library *jsonschema.Schema
}

func newOutlined(t *testing.T, schema string) outlined {
	t.Helper()
	compiled, err := compileSchema("x", []byte(schema))
	require.NoError(t, err, schema)
	return outlined{outlines{}.of(compiled), compiled}
}

func parseValue(t *testing.T, text string) canonical.Value {
	t.Helper()
	v, err := canonical.Parse([]byte(text))
	require.NoError(t, err, text)
	return v
}

// TestOutlineOfEachKeyword asks for certainty where it is to be had, and for none where there is nothing certain.
func TestOutlineOfEachKeyword(t *testing.T) {
	t.Parallel()
	cases := []struct{ schema, fits, left string }{
		{`true`, `null 1 "a" [] {}`, ``},
		{`false`, ``, `null 1 "a" [] {}`},
		{`{}`, `null true 1.5 "a" [] {"a":1}`, ``},
		{`{"type": "null"}`, `null`, `false 0 "" [] {}`},
		{`{"type": "boolean"}`, `true false`, `null 0 "" [] {}`},
		{`{"type": "number"}`, `0 -1.5 1e300 1e-300`, `null true "1" [] {}`},
		{`{"type": "integer"}`, `0 -7 1.0 15e3 1e300`, `1.5 1e-3 null "1" 12345678901234567890`},
		{`{"type": ["integer", "number"]}`, `0 1.5`, `null`},
		{`{"type": ["string", "null"]}`, `"a" null`, `1 true [] {}`},
		{`{"minimum": 0.1}`, `0.1 0.10 7 "a"`, `0.09 -1 0`},
		{`{"maximum": 1e2}`, `100 99.99 -7`, `100.01 1e300 -1e300`},
		{`{"exclusiveMinimum": 0}`, `0.01`, `0 -0.0 -1`},
		{`{"exclusiveMaximum": 9007199254740993}`, `9007199254740992`, `9007199254740993 9007199254740994`},
		{`{"multipleOf": 0.01}`, `0 1 1.1 99.50 -0.03 1e10`, `0.001 1.005 12345678901234567890`},
		{`{"multipleOf": 3}`, `9 -3 0`, `1 1e300 0.3`},
		{`{"enum": ["EUR", "USD"]}`, `"EUR"`, `"eur" null 1 ["EUR"]`},
		{`{"enum": ["EUR", null, 1]}`, `"EUR"`, `null 1 1.0 "USD"`},
		{`{"const": "a"}`, `"a"`, `"b" null`},
		{`{"const": 1}`, ``, `1 1.0 "1"`},
		{`{"const": "a", "enum": ["a", "b"]}`, `"a"`, `"b"`},
		{`{"type": "string", "minLength": 2, "maxLength": 3}`, `"ab" "äöü" "\ud83d\ude00\ud83d\ude00"`, `"a" "abcd" "\ud83d\ude00"`},
		{`{"pattern": "^[a-z]+$"}`, `"abc" 7`, `"ABC" ""`},
		{`{"format": "email"}`, `"a@b.example"`, `"a" 7`},
		{`{"format": "nothing-known"}`, `"a" 7`, ``},
		{`{"minItems": 1, "maxItems": 2}`, `[1] [1,2] {}`, `[] [1,2,3]`},
		{`{"items": {"type": "integer"}}`, `[] [1,2] {}`, `["a"] [1,null]`},
		{`{"minProperties": 1, "maxProperties": 2}`, `{"a":1} []`, `{} {"a":1,"b":2,"c":3}`},
		{`{"required": ["a", "b"]}`, `{"a":1,"b":null} []`, `{} {"a":1} {"A":1,"b":2}`},
		{`{"properties": {"a": {"type": "string"}}}`, `{} {"a":"x"} {"b":1}`, `{"a":1} {"a":null}`},
		{`{"properties": {"a": true}, "additionalProperties": false}`, `{} {"a":1}`, `{"A":1} {"a":1,"b":1}`},
		{`{"properties": {"a": false}}`, `{"b":1}`, `{"a":1}`},
		{`{"additionalProperties": {"type": "string"}}`, `{} {"a":"x"}`, `{"a":1}`},
		{`{"$ref": "#/$defs/n", "maximum": 5, "$defs": {"n": {"type": "number", "minimum": 1}}}`, `1 5`, `0 6 "a"`},
		{`{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "description": "D", "default": 1,
			"$comment": "c", "readOnly": true, "examples": [1], "deprecated": true, "unknown-keyword": 1}`, `1`, ``},
	}
	for _, tc := range cases {
		t.Run(tc.schema, func(t *testing.T) {
			t.Parallel()
			o := newOutlined(t, tc.schema)
			require.NotNil(t, o.outline)
			for text := range strings.FieldsSeq(tc.fits) {
				require.True(t, o.outline.fits(parseValue(t, text)), text)
				require.NoError(t, o.library.Validate(parseValue(t, text).Any()), text)
			}
			for text := range strings.FieldsSeq(tc.left) {
				require.False(t, o.outline.fits(parseValue(t, text)), text)
			}
		})
	}
}

func TestSchemasThatHaveNoOutline(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"not": {}}`, `{"allOf": [true]}`, `{"anyOf": [true]}`, `{"oneOf": [true]}`, `{"if": true, "then": false}`,
		`{"patternProperties": {"^a": false}}`, `{"propertyNames": {"maxLength": 1}}`, `{"dependentRequired": {"a": ["b"]}}`,
		`{"dependentSchemas": {"a": false}}`, `{"unevaluatedProperties": false}`, `{"unevaluatedItems": false}`,
		`{"uniqueItems": true}`, `{"contains": true}`, `{"prefixItems": [false]}`, `{"dependencies": {"a": ["b"]}}`,
		`{"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}}`,
		`{"properties": {"a": {"$ref": "#"}}}`, `{"$ref": "#"}`, `{"items": {"not": {}}}`, `{"properties": {"a": {"not": {}}}}`,
		`{"additionalProperties": {"not": {}}}`, `{"$ref": "#/$defs/a", "$defs": {"a": {"not": {}}}}`,
		`{"minimum": 12345678901234567890}`, `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}`,
	} {
		require.Nil(t, newOutlined(t, schema).outline, schema)
	}
}

// TestTheLibraryKeepsNothingThatOutlinesDoNotSee fails where a newer library keeps something of a schema in another way.
func TestTheLibraryKeepsNothingThatOutlinesDoNotSee(t *testing.T) {
	t.Parallel()
	var hidden []string
	for i, fields := 0, reflect.TypeFor[jsonschema.Schema](); i < fields.NumField(); i++ {
		if field := fields.Field(i); !field.IsExported() {
			hidden = append(hidden, field.Name)
		}
	}
	require.Equal(t, []string{"up", "resource", "dynamicAnchors", "allPropsEvaluated", "allItemsEvaluated", "numItemsEvaluated"},
		hidden, "of these, dynamicAnchors serve $dynamicRef and the last three unevaluatedProperties and unevaluatedItems")
}

// drawer makes schemas and values that often fit them, and often nearly.
type drawer struct{ *rand.Rand }

func pick[T any](d drawer, from ...T) T { return from[d.IntN(len(from))] }

var (
	drawnNames   = []string{"a", "b", "A", "ä", "a/b", ""}
	drawnTexts   = []string{"", "a", "ab", "EUR", "äöü", "\U0001F600", "a@b.example", "2026-12-01", "12", "^a"}
	drawnNumbers = []string{"0", "1", "-1", "0.5", "0.01", "0.005", "2", "3", "10", "99.5", "1e2", "1e-3", "-0.07", "1e30", "1e-30", "1e300",
		"9007199254740993", "9223372036854775807", "-9223372036854775808", "12345678901234567890", "0.1234567890123456789"}
)

func (d drawer) number() json.Number { return json.Number(pick(d, drawnNumbers...)) }

func (d drawer) schema(depth int) any {
	if d.IntN(12) == 0 {
		return pick(d, true, true, false)
	}
	s := map[string]any{}
	sometimes := func(one int, keyword string, value func() any) {
		if d.IntN(one) == 0 {
			s[keyword] = value()
		}
	}
	below := func() any { return d.schema(depth - 1) }
	kinds := []any{"null", "boolean", "number", "integer", "string", "array", "object"}
	sometimes(2, "type", func() any { return pick(d, kinds...) })
	sometimes(8, "type", func() any {
		return pick[any](d, []any{"string", "null"}, []any{"integer", "object"}, []any{"array", "number"})
	})
	sometimes(12, "enum", func() any { return []any{pick(d, drawnTexts...), d.number(), pick[any](d, "ab", nil, true)} })
	sometimes(16, "const", func() any { return pick[any](d, "a", "EUR", json.Number("1"), nil) })
	sometimes(12, "format", func() any { return pick(d, "email", "date", "regex", "unknown") })
	for _, bound := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		sometimes(10, bound, func() any { return d.number() })
	}
	sometimes(8, "multipleOf", func() any { return json.Number(pick(d, "0.01", "0.5", "1", "3", "1e-30", "1e10")) })
	for _, least := range []string{"minLength", "minItems", "minProperties"} {
		sometimes(12, least, func() any { return d.IntN(3) })
		sometimes(12, strings.Replace(least, "min", "max", 1), func() any { return d.IntN(4) })
	}
	sometimes(12, "pattern", func() any { return pick(d, "^a", "[A-Z]", "^.?$") })
	sometimes(6, "required", func() any { return []any{pick(d, drawnNames...)} })
	sometimes(40, pick(d, "not", "if", "contains", "propertyNames", "unevaluatedProperties"), func() any { return d.schema(0) })
	sometimes(40, "uniqueItems", func() any { return true })
	if depth > 0 {
		sometimes(2, "properties", func() any {
			parts := map[string]any{}
			for range d.IntN(4) {
				parts[pick(d, drawnNames...)] = below()
			}
			return parts
		})
		sometimes(4, "additionalProperties", func() any { return pick(d, any(false), any(true), below()) })
		sometimes(4, "items", below)
		sometimes(30, "allOf", func() any { return []any{below()} })
		sometimes(12, "$ref", func() any { return "#/$defs/" + pick(d, "one", "two") })
	}
	return s
}

func (d drawer) value(depth int) any {
	if depth > 0 && d.IntN(3) > 0 {
		if d.IntN(3) == 0 {
			items := make([]any, d.IntN(4))
			for i := range items {
				items[i] = d.value(depth - 1)
			}
			return items
		}
		members := map[string]any{}
		for range d.IntN(4) {
			members[pick(d, drawnNames...)] = d.value(depth - 1)
		}
		return members
	}
	return pick[any](d, nil, true, false, d.number(), d.number(), d.number(), pick(d, drawnTexts...), pick(d, drawnTexts...))
}

// agreementOfOutline draws a schema and values, and counts what the outline was sure of and what the library lets through.
func agreementOfOutline(t *testing.T, seed uint64) (sure, valid int) {
	t.Helper()
	d := drawer{rand.New(rand.NewPCG(seed, 0))}
	root := d.schema(2)
	if s, ok := root.(map[string]any); ok {
		s["$defs"] = map[string]any{"one": d.schema(1), "two": d.schema(0)}
	}
	text, err := json.Marshal(root)
	require.NoError(t, err)
	compiled, err := compileSchema("x", text)
	require.NoError(t, err, string(text))
	o := outlined{outlines{}.of(compiled), compiled}
	if o.outline == nil {
		return 0, 0
	}
	for range 20 {
		v, err := canonical.FromAny(d.value(2))
		require.NoError(t, err)
		fits, lets := o.outline.fits(v), o.library.Validate(v.Any()) == nil
		require.False(t, fits && !lets, "seed %d: %s is taken to fit %s", seed, v, text)
		if fits {
			sure++
		}
		if lets {
			valid++
		}
	}
	return sure, valid
}

func TestOutlinesAgreeWithTheLibrary(t *testing.T) {
	t.Parallel()
	sure, valid := 0, 0
	for seed := range uint64(1500) {
		s, v := agreementOfOutline(t, seed)
		sure, valid = sure+s, valid+v
	}
	require.Greater(t, sure, 3_000)
	require.Greater(t, sure*10, valid*8, "%d sure of %d that fit: what is common is to be known", sure, valid)
}

// FuzzOutline looks for a value that an outline is sure of and the library refuses.
func FuzzOutline(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { agreementOfOutline(t, seed) })
}

// TestActionsOfTheExampleHaveOutlines keeps the short way from being lost unseen.
func TestActionsOfTheExampleHaveOutlines(t *testing.T) {
	t.Parallel()
	loaded, err := LoadEnv(os.DirFS("../../deploy/config/example"), agreementEnv)
	require.NoError(t, err)
	require.NotEmpty(t, loaded.Tenants[0].Actions)
	for _, a := range loaded.Tenants[0].Actions {
		require.NotNil(t, newOutlined(t, string(a.Schema)).outline, a.Type)
	}
}
