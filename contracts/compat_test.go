package contracts

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var (
	// annotations are keywords that no reader or writer depends on.
	annotations = []string{"title", "description", "examples", "$comment", "deprecated", "example", "summary", "info",
		"servers", "tags"}
	// growing are keywords whose value has members by name, to which others may be added.
	growing = []string{"paths", "responses", "headers", "content", "parameters", "schemas", "channels", "operations",
		"messages", "messageTraits", "$defs"}
	// methods may be added to a path.
	methods = []string{"get", "put", "post", "patch", "delete"}
)

// breaks lists what a schema or a document does to those who relied on it as it was shipped. Within one version only a
// new optional property, a new operation, answer or optional parameter, and annotations are harmless; any other
// difference takes a new version.
func breaks(path string, shipped, current any) []string {
	was, ok1 := shipped.(map[string]any)
	is, ok2 := current.(map[string]any)
	if !ok1 || !ok2 {
		if reflect.DeepEqual(shipped, current) {
			return nil
		}
		return []string{fmt.Sprintf("%s was %v and is %v", path, shipped, current)}
	}
	var found []string
	keywords := slices.Sorted(maps.Keys(was))
	for keyword := range is {
		if _, had := was[keyword]; !had {
			keywords = append(keywords, keyword)
		}
	}
	for _, keyword := range keywords {
		switch {
		case slices.Contains(annotations, keyword):
		case keyword == "properties":
			found = append(found, propertyBreaks(path, was[keyword], is[keyword])...)
		case was[keyword] == nil && slices.Contains(methods, keyword):
		case is[keyword] == nil && slices.Contains(methods, keyword):
			found = append(found, fmt.Sprintf("%s %s was removed", path, keyword))
		case slices.Contains(growing, keyword) && isList(was[keyword]) && isList(is[keyword]):
			found = append(found, parameterBreaks(path+"/"+keyword, was[keyword].([]any), is[keyword].([]any))...)
		case slices.Contains(growing, keyword):
			found = append(found, propertyBreaks(path+"/"+keyword, was[keyword], is[keyword])...)
		default:
			found = append(found, breaks(path+" "+keyword, was[keyword], is[keyword])...)
		}
	}
	return found
}

func propertyBreaks(path string, shipped, current any) []string {
	var found []string
	was, _ := shipped.(map[string]any)
	is, _ := current.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[name]; !still {
			found = append(found, fmt.Sprintf("%s/%s was removed", path, name))
			continue
		}
		found = append(found, breaks(path+"/"+name, was[name], is[name])...)
	}
	return found
}

func isList(value any) bool {
	_, ok := value.([]any)
	return ok
}

// parameterBreaks compares the parameters of an operation. What is new must be written in its place, so that it can be
// seen to be optional.
func parameterBreaks(path string, shipped, current []any) []string {
	var found []string
	has := func(list []any, one any) bool {
		return slices.ContainsFunc(list, func(other any) bool { return len(breaks("", one, other)) == 0 })
	}
	for _, parameter := range shipped {
		if !has(current, parameter) {
			found = append(found, fmt.Sprintf("%s: %v was removed or changed", path, parameter))
		}
	}
	for _, parameter := range current {
		inPlace := parameter.(map[string]any)
		if !has(shipped, parameter) && (inPlace["name"] == nil || inPlace["required"] == true) {
			found = append(found, fmt.Sprintf("%s: %v is new and not optional", path, parameter))
		}
	}
	return found
}

func TestShippedSchemasStayAsTheyWere(t *testing.T) {
	t.Parallel()
	const frozen = "testdata/shipped"
	files, err := filepath.Glob(frozen + "/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	read := func(data []byte, err error) any {
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		require.NoError(t, err)
		return doc
	}
	for _, file := range files {
		name := filepath.Base(file)
		shipped := read(os.ReadFile(file))
		current := read(fs.ReadFile(Schemas(), name))
		if slices.Contains(configurations, strings.TrimSuffix(name, ".json")) {
			shipped = widened(shipped, current)
		}
		require.Empty(t, breaks(name, shipped, current), "%s changes what was shipped: make a new version", name)
	}
	current, err := fs.Glob(Schemas(), "*.json")
	require.NoError(t, err)
	for _, name := range current {
		require.FileExists(t, filepath.Join(frozen, name), "a schema that ships is frozen with it")
	}
}

// TestShippedDocumentsStayAsTheyWere looks at operations, answers and headers; the schemas are frozen by themselves.
func TestShippedDocumentsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{OpenAPI, AsyncAPI} {
		text, err := os.ReadFile(filepath.Join("testdata", "shipped", name+".yaml"))
		require.NoError(t, err)
		current, err := documents.ReadFile(name + ".yaml")
		require.NoError(t, err)
		require.Empty(t, breaks(name, parseYAML(t, text), parseYAML(t, current)),
			"%s takes away what was shipped: keep it beside the new", name)
	}
}

func TestDocumentBreaks(t *testing.T) {
	t.Parallel()

	type testBundle struct{ shipped, current map[string]any }
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		text, err := documents.ReadFile(OpenAPI + ".yaml")
		require.NoError(t, err)
		return &testBundle{parseYAML(t, text), parseYAML(t, text)}
	}
	const path = "/v1/runs/{run}"
	cases := []struct {
		name   string
		change func(paths map[string]any)
		want   []string
	}{
		{"ANewPathIsHarmless", func(paths map[string]any) { paths["/v1/new"] = map[string]any{} }, nil},
		{"ANewMethodIsHarmless", func(paths map[string]any) { at(paths, path)["delete"] = map[string]any{} }, nil},
		{"ANewAnswerIsHarmless", func(paths map[string]any) {
			at(paths, path, "get", "responses")["418"] = map[string]any{}
		}, nil},
		{"ANewOptionalParameterIsHarmless", func(paths map[string]any) {
			get := at(paths, path, "get")
			get["parameters"] = append(get["parameters"].([]any), map[string]any{"name": "wait", "in": "query"})
		}, nil},
		{"ANewRequiredParameterBreaks", func(paths map[string]any) {
			get := at(paths, path, "get")
			get["parameters"] = append(get["parameters"].([]any), map[string]any{"name": "w", "required": true})
		}, []string{"s/paths/" + path + " get/parameters: map[name:w required:true] is new and not optional"}},
		{"ARemovedParameterBreaks", func(paths map[string]any) {
			get := at(paths, path, "get")
			get["parameters"] = get["parameters"].([]any)[1:]
		},
			[]string{"s/paths/" + path + " get/parameters: map[$ref:#/components/parameters/Run] was removed or " +
				"changed"}},
		{"ARemovedPathBreaks", func(paths map[string]any) { delete(paths, path) },
			[]string{"s/paths/" + path + " was removed"}},
		{"ARemovedMethodBreaks", func(paths map[string]any) { delete(at(paths, "/v1/runs"), "get") }, []string{
			"s/paths//v1/runs get was removed"}},
		{"ARemovedAnswerBreaks", func(paths map[string]any) { delete(at(paths, path, "get", "responses"), "404") },
			[]string{"s/paths/" + path + " get/responses/404 was removed"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bundle := setup(t)
			tc.change(at(bundle.current, "paths"))
			require.Equal(t, tc.want, breaks("s", bundle.shipped, bundle.current))
		})
	}
}

func TestBreaks(t *testing.T) {
	t.Parallel()

	type testBundle struct{ shipped, current map[string]any }
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		return &testBundle{readSchema(t, "run.completed.v1"), readSchema(t, "run.completed.v1")}
	}
	data := func(schema map[string]any) map[string]any {
		return schema["properties"].(map[string]any)["data"].(map[string]any)
	}
	cases := []struct {
		name   string
		change func(data map[string]any)
		want   []string
	}{
		{"ANewOptionalPropertyIsHarmless", func(data map[string]any) {
			data["properties"].(map[string]any)["cost"] = map[string]any{"type": "string"}
		}, nil},
		{"ANewDescriptionIsHarmless", func(data map[string]any) { data["description"] = "other words" }, nil},
		{"ARemovedPropertyBreaks", func(data map[string]any) {
			delete(data["properties"].(map[string]any), "target_receipt")
		}, []string{"s/data/target_receipt was removed"}},
		{"ARetypedPropertyBreaks", func(data map[string]any) {
			data["properties"].(map[string]any)["run_id"].(map[string]any)["type"] = "integer"
		}, []string{"s/data/run_id type was string and is integer"}},
		{"ANewlyRequiredPropertyBreaks", func(data map[string]any) {
			data["required"] = []any{"target_receipt"}
		}, []string{"s/data required was [tenant_id run_id idempotency_key correlation_id outcome operation_id]" +
			" and is [target_receipt]"}},
		{"AnotherClosedListBreaks", func(data map[string]any) {
			data["properties"].(map[string]any)["outcome"].(map[string]any)["enum"] = []any{"executed"}
		}, []string{"s/data/outcome enum was [executed partial] and is [executed]"}},
		{"ANewConstraintBreaks", func(data map[string]any) { data["additionalProperties"] = false },
			[]string{"s/data additionalProperties was <nil> and is false"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bundle := setup(t)
			tc.change(data(bundle.current))
			require.Equal(t, tc.want, breaks("s", bundle.shipped, bundle.current))
		})
	}
}
