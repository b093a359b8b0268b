package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// noOtherFiles keeps a schema from reading anything besides itself: every decision must be a function of the files that
// PolicyVersion covers.
type noOtherFiles struct{}

func (noOtherFiles) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema cannot refer to another file; use #/$defs", url)
}

func compileSchema(name string, schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("reading schema %s: %w", name, err)
	}
	url := "holdpoint:///" + name
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noOtherFiles{})
	compiler.AssertFormat()
	if err := compiler.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("reading schema %s: %w", name, err)
	}
	compiled, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("compiling schema %s: %w", name, err)
	}
	return compiled, nil
}

// schema reads the file that the member "schema" names. Actions need one, and theirs must refuse unknown fields (M2).
func (d *declared) schema(o *object, ofAction bool) []byte {
	name := o.optText("schema")
	if name == "" {
		if ofAction {
			o.fail("schema", "is missing; it must name a file in %s", schemasDir)
		}
		return nil
	}
	if name != path.Base(name) || !strings.HasSuffix(name, ".json") {
		o.fail("schema", "is %s, which must be the name of a .json file in %s", quote(name), schemasDir)
		return nil
	}
	file := path.Join(d.folder, schemasDir, name)
	data := d.loader.read(file, o.at("schema"))
	if data == nil {
		return nil
	}
	doc := d.compile(file, data)
	if ofAction && doc != nil {
		if loose := looseObjects("", doc); len(loose) > 0 {
			d.loader.add(Position{file, 1, 1}, `must refuse unknown fields: set "additionalProperties": false at %s`,
				strings.Join(loose, ", "))
		}
		if kind, _ := doc["type"].(string); kind != "object" {
			d.loader.add(Position{file, 1, 1}, `must say "type": "object" at the top`)
		}
	}
	return data
}

// compile is nil, and a problem, where the file is no schema.
func (d *declared) compile(file string, data []byte) map[string]any {
	value, err := canonical.Parse(data) // refuses repeated names, where a reader could take either
	var malformed *canonical.Error
	if errors.As(err, &malformed) {
		d.loader.add(offsetPosition(file, data, malformed.Offset), "not valid JSON: %v", err)
		return nil
	}
	doc, ok := value.Any().(map[string]any)
	if !ok {
		d.loader.add(Position{file, 1, 1}, "a JSON Schema is an object here, found %s", value.Kind())
		return nil
	}
	if _, err := compileSchema(path.Base(file), data); err != nil {
		d.loader.add(Position{file, 1, 1}, "%v", err)
		return nil
	}
	return doc
}

func offsetPosition(file string, data []byte, offset int) Position {
	before := data[:min(max(offset, 0), len(data))]
	line := bytes.Count(before, []byte("\n"))
	return Position{file, line + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

// looseObjects lists, as JSON pointers, the objects of a schema in which unknown fields would pass. It follows the
// keywords that say what a value is; those that only add conditions (allOf, if, …) may name fields without closing the
// object.
func looseObjects(at string, schema map[string]any) []string {
	var loose []string
	extra, closed := schema["additionalProperties"]
	if !closed {
		extra, closed = schema["unevaluatedProperties"]
	}
	open := !closed || extra == true
	if _, described := extra.(map[string]any); described && at == "" {
		open = true // at the top every field has a name of its own
	}
	if _, names := schema["properties"]; open && (names || mayBeObject(schema["type"])) {
		loose = append(loose, cmp.Or(at, "the top"))
	}
	for _, keyword := range []string{"properties", "patternProperties", "$defs"} {
		inner, _ := schema[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(inner)) {
			loose = append(loose, looseValue(at+"/"+keyword+"/"+name, inner[name])...)
		}
	}
	for _, keyword := range []string{"additionalProperties", "items"} {
		loose = append(loose, looseValue(at+"/"+keyword, schema[keyword])...)
	}
	prefix, _ := schema["prefixItems"].([]any)
	for i, item := range prefix {
		loose = append(loose, looseValue(fmt.Sprintf("%s/prefixItems/%d", at, i), item)...)
	}
	return loose
}

func looseValue(at string, value any) []string {
	schema, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	return looseObjects(at, schema)
}

func mayBeObject(kind any) bool {
	list, ok := kind.([]any)
	return kind == "object" || ok && slices.Contains(list, any("object"))
}
