package config

import (
	"math/big"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// outline is a schema made of the keywords that most schemas are made of, to be asked of a canonical value as it is. It
// knows one answer only: that a value fits for certain. All that it does not know, and every value that does not fit, is
// left to the validator, which says why. What fits, as nearly everything does, is then neither converted nor put through
// rationals, which would take ten times as long.
type outline struct {
	takes  [canonical.Object + 1]bool // by kind
	checks [canonical.Object + 1][]check
	any    []check // of every kind
}

// check reports whether a value fits for certain.
type check func(v canonical.Value) bool

func (o *outline) fits(v canonical.Value) bool {
	if !o.takes[v.Kind()] {
		return false
	}
	for _, fits := range o.any {
		if !fits(v) {
			return false
		}
	}
	for _, fits := range o.checks[v.Kind()] {
		if !fits(v) {
			return false
		}
	}
	return true
}

func (o *outline) add(kind canonical.Kind, c check) { o.checks[kind] = append(o.checks[kind], c) }

// understood are the fields of a compiled schema that an outline reads, and those that say nothing about a value. A schema
// that sets any other has no outline, so a keyword that is new in the library is the library's.
var understood = map[string]bool{
	"Bool": true, "Ref": true, "Types": true, "Enum": true, "Const": true, "Format": true,
	"MaxProperties": true, "MinProperties": true, "Required": true, "Properties": true, "AdditionalProperties": true,
	"MinItems": true, "MaxItems": true, "Items2020": true,
	"MinLength": true, "MaxLength": true, "Pattern": true,
	"Maximum": true, "Minimum": true, "ExclusiveMaximum": true, "ExclusiveMinimum": true, "MultipleOf": true,

	"DraftVersion": true, "Location": true, "ID": true, "Anchor": true, "Title": true, "Description": true,
	"Default": true, "Comment": true, "ReadOnly": true, "WriteOnly": true, "Examples": true, "Deprecated": true,
}

// understands wants one draft: in another the same fields mean other things.
func understands(s *jsonschema.Schema) bool {
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		if field.IsExported() && !understood[field.Name] && !fields.Field(i).IsZero() {
			return false
		}
	}
	return s.DraftVersion == 2020
}

// outlines are those that are made already, nil where one is being made or there is none.
type outlines map[*jsonschema.Schema]*outline

// of is the outline of a schema, nil where it has none: so it is with one that stands within itself.
func (all outlines) of(s *jsonschema.Schema) *outline {
	if made, seen := all[s]; seen {
		return made
	}
	all[s] = nil
	o := &outline{}
	if !understands(s) || !all.read(o, s) {
		return nil
	}
	all[s] = o
	return o
}

// read is false where the schema has no outline.
func (all outlines) read(o *outline, s *jsonschema.Schema) bool {
	if s.Bool != nil && !*s.Bool {
		return true // and takes nothing
	}
	o.takes = everyKind
	o.readTypes(s)
	o.readTexts(s)
	if s.Ref != nil {
		ref := all.of(s.Ref)
		if ref == nil {
			return false
		}
		o.any = append(o.any, ref.fits)
	}
	return o.readNumbers(s) && all.readItems(o, s) && all.readMembers(o, s)
}

func (o *outline) readTypes(s *jsonschema.Schema) {
	if s.Types == nil || s.Types.IsEmpty() {
		return
	}
	names := s.Types.ToStrings()
	for kind := range o.takes {
		o.takes[kind] = slices.Contains(names, canonical.Kind(kind).String())
	}
	if slices.Contains(names, "integer") && !o.takes[canonical.Number] {
		o.takes[canonical.Number] = true
		o.add(canonical.Number, func(v canonical.Value) bool {
			n, ok := v.Scaled()
			return ok && n.Exponent >= 0
		})
	}
}

// readTexts reads closed lists and formats as of texts alone; the validator knows what else fits those.
func (o *outline) readTexts(s *jsonschema.Schema) {
	onlyTexts := func() {
		taken := o.takes[canonical.String]
		o.takes = [len(o.takes)]bool{canonical.String: taken}
	}
	oneOf := func(values []any) {
		onlyTexts()
		var words []string
		for _, value := range values {
			if word, ok := value.(string); ok {
				words = append(words, word)
			}
		}
		o.add(canonical.String, func(v canonical.Value) bool { return slices.Contains(words, v.Text()) })
	}
	if s.Enum != nil {
		oneOf(s.Enum.Values)
	}
	if s.Const != nil {
		oneOf([]any{*s.Const})
	}
	if s.Format != nil {
		onlyTexts()
		o.add(canonical.String, func(v canonical.Value) bool { return s.Format.Validate(v.Text()) == nil })
	}
	if s.MinLength != nil || s.MaxLength != nil {
		o.add(canonical.String, func(v canonical.Value) bool {
			return between(utf8.RuneCountInString(v.Text()), s.MinLength, s.MaxLength)
		})
	}
	if s.Pattern != nil {
		o.add(canonical.String, func(v canonical.Value) bool { return s.Pattern.MatchString(v.Text()) })
	}
}

func between(n int, least, most *int) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

func (o *outline) readNumbers(s *jsonschema.Schema) bool {
	known := true
	limit := func(bound *big.Rat, fits func(n, bound int64) bool) {
		if bound == nil {
			return
		}
		to, ok := scaled(bound)
		known = known && ok
		o.add(canonical.Number, func(v canonical.Value) bool {
			n, ok := v.Scaled()
			if !ok {
				return false
			}
			x, y, _, ok := canonical.Align(n, to)
			return ok && fits(x, y)
		})
	}
	limit(s.Minimum, func(n, bound int64) bool { return n >= bound })
	limit(s.Maximum, func(n, bound int64) bool { return n <= bound })
	limit(s.ExclusiveMinimum, func(n, bound int64) bool { return n > bound })
	limit(s.ExclusiveMaximum, func(n, bound int64) bool { return n < bound })
	limit(s.MultipleOf, func(n, bound int64) bool { return bound != 0 && n%bound == 0 })
	return known
}

// scaled is a bound of a schema, which is a decimal.
func scaled(bound *big.Rat) (canonical.Scaled, bool) {
	_, isDecimal := bound.FloatPrec()
	v, err := canonical.NewNumber(exact(bound))
	if err != nil || !isDecimal {
		return canonical.Scaled{}, false
	}
	return v.Scaled()
}

func (all outlines) readItems(o *outline, s *jsonschema.Schema) bool {
	if s.MinItems != nil || s.MaxItems != nil {
		o.add(canonical.Array, func(v canonical.Value) bool { return between(v.Len(), s.MinItems, s.MaxItems) })
	}
	if s.Items2020 == nil {
		return true
	}
	item := all.of(s.Items2020)
	if item == nil {
		return false
	}
	o.add(canonical.Array, func(v canonical.Value) bool {
		for i := range v.Len() {
			if !item.fits(v.Index(i)) {
				return false
			}
		}
		return true
	})
	return true
}

func (all outlines) readMembers(o *outline, s *jsonschema.Schema) bool {
	if s.MinProperties != nil || s.MaxProperties != nil {
		o.add(canonical.Object, func(v canonical.Value) bool { return between(v.Len(), s.MinProperties, s.MaxProperties) })
	}
	for _, name := range s.Required {
		o.add(canonical.Object, func(v canonical.Value) bool {
			_, there := v.Get(name)
			return there
		})
	}
	parts := make(map[string]*outline, len(s.Properties))
	for name, part := range s.Properties {
		if parts[name] = all.of(part); parts[name] == nil {
			return false
		}
	}
	var others *outline // nil where there may be none
	switch additional := s.AdditionalProperties.(type) {
	case nil:
		others = &outline{takes: everyKind}
	case bool:
		if additional {
			others = &outline{takes: everyKind}
		}
	case *jsonschema.Schema:
		if others = all.of(additional); others == nil {
			return false
		}
	default:
		return false
	}
	o.add(canonical.Object, func(v canonical.Value) bool {
		for name, member := range v.Members() {
			part, named := parts[name]
			if !named {
				part = others
			}
			if part == nil || !part.fits(member) {
				return false
			}
		}
		return true
	})
	return true
}

var everyKind = [canonical.Object + 1]bool{true, true, true, true, true, true}
