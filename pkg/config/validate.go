package config

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// maxFieldErrors bounds what is reported of one value.
const maxFieldErrors = 20

// Validator checks values against one compiled JSON Schema. It is safe for concurrent use.
type Validator struct {
	schema  *jsonschema.Schema
	outline *outline // nil where the schema has none
}

// NewValidator compiles a schema (draft 2020-12 unless it says otherwise) with formats asserted and without access to
// files or the network.
func NewValidator(name string, schema []byte) (*Validator, error) {
	compiled, err := compileSchema(name, schema)
	if err != nil {
		return nil, err
	}
	return &Validator{compiled, outlines{}.of(compiled)}, nil
}

// MustValidator is NewValidator for a schema that is part of the program.
func MustValidator(name string, schema []byte) *Validator {
	v, err := NewValidator(name, schema)
	if err != nil {
		panic(err)
	}
	return v
}

// Check lists what is wrong with a value; nil is nothing. Names match in exact letter case and numbers are compared by
// their exact decimal value (M2). The list is ordered by place and holds at most 20 errors; their texts say what is
// allowed and quote no text of the value, so that they may be stored and logged. What is longer than a person
// wants to read ends with ….
func (v *Validator) Check(value canonical.Value) []contracts.FieldError {
	if v.outline != nil && v.outline.fits(value) {
		return nil
	}
	return v.ask(value.Any())
}

// CheckDocument is Check for a value that was converted before.
func (v *Validator) CheckDocument(d Document) []contracts.FieldError {
	if v.outline != nil && v.outline.fits(d.Value) {
		return nil
	}
	return v.ask(d.tree)
}

// ask asks the library, which alone can tell what does not fit.
func (v *Validator) ask(tree any) []contracts.FieldError {
	err := v.schema.Validate(tree)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []contracts.FieldError{{Detail: "cannot be validated"}}
	}
	found := leaves(nil, invalid)
	slices.SortFunc(found, func(a, b contracts.FieldError) int { // the validator walks maps in no order
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Detail, b.Detail))
	})
	found = slices.Compact(found)
	found = found[:min(len(found), maxFieldErrors)]
	for i := range found {
		found[i] = contracts.FieldError{Pointer: clip(found[i].Pointer, maxPointer), Detail: clip(found[i].Detail, maxDetail)}
	}
	return found
}

// Bytes of an error: names are the sender's, and may be as long as the body.
const (
	maxPointer = 256
	maxDetail  = 512
)

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// leaves are the errors that have no cause of their own: those that a person can act on.
func leaves(found []contracts.FieldError, e *jsonschema.ValidationError) []contracts.FieldError {
	if len(e.Causes) == 0 {
		return append(found, explain(e)...)
	}
	for _, cause := range e.Causes {
		found = leaves(found, cause)
	}
	return found
}

var english = message.NewPrinter(language.English)

// explain puts an error in words. The library's own quote the value, or round a bound to a float.
func explain(e *jsonschema.ValidationError) []contracts.FieldError {
	at := pointerTo(e.InstanceLocation)
	one := func(format string, args ...any) []contracts.FieldError {
		return []contracts.FieldError{{Pointer: at, Detail: fmt.Sprintf(format, args...)}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return each(at, k.Properties, "is not a known field; names are exact in letter case")
	case *kind.Required:
		return each(at, k.Missing, "is missing")
	case *kind.Type:
		return one("must be %s, found %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Pattern:
		return one("must match %s", k.Want)
	case *kind.Format:
		return one("must be a valid %s", k.Want)
	case *kind.Minimum:
		return one("must be at least %s", exact(k.Want))
	case *kind.Maximum:
		return one("must be at most %s", exact(k.Want))
	case *kind.ExclusiveMinimum:
		return one("must be greater than %s", exact(k.Want))
	case *kind.ExclusiveMaximum:
		return one("must be less than %s", exact(k.Want))
	case *kind.MultipleOf:
		return one("must be a multiple of %s", exact(k.Want))
	}
	return one("is not allowed: %s", e.ErrorKind.LocalizedString(english))
}

func each(at string, names []string, detail string) []contracts.FieldError {
	list := make([]contracts.FieldError, len(names))
	for i, name := range names {
		list[i] = contracts.FieldError{Pointer: at + pointerTo([]string{name}), Detail: detail}
	}
	return list
}

// exact writes a bound of a schema, which is a decimal, without rounding it.
func exact(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

var escapeToken = strings.NewReplacer("~", "~0", "/", "~1")

func pointerTo(location []string) string {
	var b strings.Builder
	for _, token := range location {
		b.WriteByte('/')
		b.WriteString(escapeToken.Replace(token))
	}
	return b.String()
}
