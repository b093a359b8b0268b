package contracts

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func readSchema(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := fs.ReadFile(Schemas(), name+".json")
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return doc.(map[string]any)
}

func validate(t *testing.T, name string, instance []byte) error {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("mem:///"+name, readSchema(t, name)))
	schema, err := compiler.Compile("mem:///" + name)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(instance))
	require.NoError(t, err)
	return schema.Validate(doc)
}

func TestSchemas(t *testing.T) {
	t.Parallel()

	t.Run("GoldensAndEncodedEventsAreValid", func(t *testing.T) {
		t.Parallel()
		for name, data := range samples() {
			require.NoError(t, validate(t, name, readGolden(t, name)), name)
			require.NoError(t, validate(t, name, sampleEvent(t, data).AppendJSON(nil)), name)
		}
	})

	t.Run("EventTypesAndSchemasHaveTheSameMembers", func(t *testing.T) {
		t.Parallel()
		for name, data := range samples() {
			schema := readSchema(t, name)
			require.Equal(t, data.Type(), schema["title"])
			requireSameMembers(t, name, new(envelope).fields(), schema, "datacontenttype", "specversion", "type")
			requireSameMembers(t, name, data.fields(), schema["properties"].(map[string]any)["data"].(map[string]any))
		}
	})

	t.Run("AProposalWithAnUnknownOrCaseTwistedMemberIsInvalid", func(t *testing.T) {
		t.Parallel()
		for _, extra := range []string{`"auto_reply":true`, `"Action_Type":"a"`} {
			text := `{"action_type":"a","target":{"system":"s","record_id":"r"},"proposed_change":{},"workflow_version":"w@1",` +
				extra + `}`
			require.ErrorContains(t, validate(t, "proposal.v1", []byte(text)), "additional properties")
		}
	})
}

// requireSameMembers compares names, necessity, JSON types and closed lists both ways. Members named in constants are
// fixed by the schema with const.
func requireSameMembers(t *testing.T, name string, fields []field, schema map[string]any, constants ...string) {
	t.Helper()
	properties := schema["properties"].(map[string]any)
	var required []any
	for _, f := range fields {
		property, ok := properties[f.name].(map[string]any)
		require.True(t, ok, "%s: the schema lacks %s", name, f.name)
		if !f.optional {
			required = append(required, f.name)
		}
		if slices.Contains(constants, f.name) {
			require.Contains(t, property, "const", "%s: %s", name, f.name)
			continue
		}
		types := map[any]string{
			reflect.TypeFor[*string](): "string", reflect.TypeFor[*int](): "integer",
			reflect.TypeFor[*bool](): "boolean", reflect.TypeFor[*time.Time](): "string",
			reflect.TypeFor[*[]string](): "array", reflect.TypeFor[*json.RawMessage](): "object",
		}
		require.Equal(t, types[reflect.TypeOf(f.into)], property["type"], "%s: type of %s", name, f.name)
		var enum []any
		for _, value := range f.allowed {
			enum = append(enum, value)
		}
		require.ElementsMatch(t, enum, property["enum"], "%s: enum of %s", name, f.name)
	}
	require.ElementsMatch(t, required, schema["required"], "%s: required members", name)
	require.Len(t, properties, len(fields), "%s: the schema has members that Go lacks", name)
}

// requireCovers checks that the instance sets every property that the schema knows, and no other.
func requireCovers(t *testing.T, path string, schema map[string]any, instance any) {
	t.Helper()
	if items, ok := schema["items"].(map[string]any); ok {
		requireCovers(t, path+"[]", items, instance.([]any)[0])
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	object := instance.(map[string]any)
	for name, property := range properties {
		require.Contains(t, object, name, "%s: Go does not write %s", path, name)
		requireCovers(t, path+"."+name, property.(map[string]any), object[name])
	}
	require.Len(t, object, len(properties), "%s: Go writes members that the schema lacks", path)
}

func TestImportsAreOfTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			first, _, _ := strings.Cut(path, "/")
			require.NotContains(t, first, ".", "%s imports %s", file, path)
		}
	}
}

func TestNewProblem(t *testing.T) {
	t.Parallel()
	for code, kind := range problemKinds {
		p := NewProblem(code, "because")
		require.Equal(t, "urn:holdpoint:problem:"+code, p.Type)
		require.Equal(t, kind.status, p.Status)
		require.Equal(t, kind.title+": because", p.Error())
		text, err := json.Marshal(p)
		require.NoError(t, err)
		require.NoError(t, validate(t, "problem.v1", text))
	}
	require.Equal(t, CodeInternal, NewProblem("made_up", "").Code)
	require.Equal(t, ResultPayloadMismatch, NewProblem(CodePayloadMismatch, "").Result)
	require.Equal(t, ResultOwnershipLost, NewProblem(CodeOwnershipLost, "").Result)
}
