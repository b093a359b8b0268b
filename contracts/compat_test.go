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
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// annotations are keywords that no reader or writer depends on.
var annotations = []string{"title", "description", "examples", "$comment", "deprecated"}

// breaks lists what a schema does to those who relied on it as it was shipped. Within one version only a new optional
// property and annotations are harmless; any other difference takes a new version.
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
		require.Empty(t, breaks(name, shipped, current), "%s changes what was shipped: make a new version", name)
	}
	current, err := fs.Glob(Schemas(), "*.json")
	require.NoError(t, err)
	for _, name := range current {
		require.FileExists(t, filepath.Join(frozen, name), "a schema that ships is frozen with it")
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
