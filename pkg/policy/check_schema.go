package policy

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// schema is the JSON Schema of a change, or a part of it, as far as it is cheap to understand: properties, references
// inside the document, types, lists of values and bounds of numbers. All that it does not understand makes it know
// less.
type schema struct {
	root, part map[string]any
}

func readSchema(text []byte) schema {
	value, err := canonical.Parse(text)
	if err != nil {
		return schema{}
	}
	part, _ := value.Any().(map[string]any)
	return schema{part, part}.resolved()
}

// resolved follows a reference inside the document, where nothing but words stands beside it.
func (s schema) resolved() schema {
	for range 10 { // references can go round in circles
		ref, ok := s.part["$ref"].(string)
		name, inside := strings.CutPrefix(ref, "#/$defs/")
		if !ok {
			return s
		}
		defs, _ := s.root["$defs"].(map[string]any)
		next, found := defs[name].(map[string]any)
		if !inside || !found {
			return schema{s.root, nil}
		}
		s.part = next
	}
	return schema{s.root, nil}
}

// at is the schema of a field, with a nil part where that is not known; there is false where there can be no such
// field.
func (s schema) at(names []string) (_ schema, there bool) {
	for _, name := range names {
		properties, _ := s.part["properties"].(map[string]any)
		inner, found := properties[name]
		if !found {
			_, patterns := s.part["patternProperties"]
			return schema{s.root, nil}, patterns || s.part["additionalProperties"] != false
		}
		part, _ := inner.(map[string]any)
		s = schema{s.root, part}.resolved()
	}
	return s, true
}

// fields are the paths of all fields that hold no named fields themselves.
func (s schema) fields() [][]string { return s.fieldsBelow(nil, 0) }

func (s schema) fieldsBelow(above []string, depth int) [][]string {
	properties, _ := s.part["properties"].(map[string]any)
	if len(properties) == 0 || depth > 10 {
		if len(above) == 0 {
			return nil
		}
		return [][]string{above}
	}
	var all [][]string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner, _ := s.at([]string{name})
		all = append(all, inner.fieldsBelow(append(slices.Clone(above), name), depth+1)...)
	}
	return all
}

// kinds are the JSON types that the schema lets in, nil where that is not known.
func (s schema) kinds() []string {
	switch kind := s.part["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var all []string
		for _, one := range kind {
			text, _ := one.(string)
			all = append(all, text)
		}
		return all
	}
	return nil
}

// numeric reports whether it lets in numbers and nothing else.
func (s schema) numeric() bool {
	kinds := s.kinds()
	other := func(kind string) bool { return kind != "number" && kind != "integer" }
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, other)
}

// admits reports whether a value may stand there; true also where that is not known.
func (s schema) admits(value string) bool {
	if s.part == nil {
		return true
	}
	whole := maps.Clone(s.part)
	if defs, ok := s.root["$defs"]; ok {
		whole["$defs"] = defs
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return true
	}
	validator, err := config.NewValidator("part", text)
	if err != nil {
		return true
	}
	parsed, err := canonical.Parse([]byte(value))
	return err != nil || validator.Check(parsed) == nil
}

// numberBound is an end of a range of numbers; a nil value is none.
type numberBound struct {
	value *big.Rat
	open  bool // the value itself is outside
}

// bounds are the ends of the numbers that the schema lets in.
func (s schema) bounds() (low, high numberBound) {
	return s.tighter("minimum", "exclusiveMinimum", 1), s.tighter("maximum", "exclusiveMaximum", -1)
}

func (s schema) tighter(closed, open string, sign int) numberBound {
	a, b := ratOf(s.part[closed]), ratOf(s.part[open])
	if b != nil && (a == nil || b.Cmp(a)*sign >= 0) {
		return numberBound{b, true}
	}
	return numberBound{a, false}
}

func ratOf(v any) *big.Rat {
	number, ok := v.(json.Number)
	if !ok {
		return nil
	}
	r, ok := new(big.Rat).SetString(number.String())
	if !ok {
		return nil
	}
	return r
}
