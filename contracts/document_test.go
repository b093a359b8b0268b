package contracts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func parseYAML(t *testing.T, text []byte) map[string]any {
	t.Helper()
	plain, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	require.NoError(t, err)
	return doc.(map[string]any)
}

// printed is a document as integrators get it.
func printed(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := Text(name)
	require.NoError(t, err)
	return parseYAML(t, text)
}

// at goes down by names; it panics where one is not there.
func at(value any, names ...string) map[string]any {
	for _, name := range names {
		value = value.(map[string]any)[name]
	}
	return value.(map[string]any)
}

// visit calls see for every object of a document, with its JSON pointer. Examples are other people's words.
func visit(pointer string, value any, see func(pointer string, object map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		see(pointer, v)
		for name, member := range v {
			if (name == "value" || name == "payload") && strings.Contains(pointer, "/examples") {
				continue
			}
			visit(pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), member, see)
		}
	case []any:
		for i, item := range v {
			visit(pointer+"/"+strconv.Itoa(i), item, see)
		}
	}
}

// resolved is what a reference within the document stands for; other values stand for themselves.
func resolved(t *testing.T, doc, value any) any {
	t.Helper()
	object, _ := value.(map[string]any)
	ref, ok := object["$ref"].(string)
	if !ok {
		return value
	}
	require.True(t, strings.HasPrefix(ref, "#/"), "%s leads out of the document", ref)
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, ok := doc.(map[string]any)
		require.True(t, ok, ref)
		doc = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		require.NotNil(t, doc, "%s leads nowhere", ref)
	}
	return doc
}

// example is one example of a document with where its schema is.
type example struct {
	at, schema string
	value      any
}

// examplesOf finds those of media types and parameters (OpenAPI), and of messages (AsyncAPI).
func examplesOf(t *testing.T, doc map[string]any) []example {
	t.Helper()
	var found []example
	visit("#", doc, func(pointer string, object map[string]any) {
		if _, typed := object["schema"]; typed {
			if one, ok := object["example"]; ok {
				found = append(found, example{pointer, pointer + "/schema", one})
			}
			named, _ := object["examples"].(map[string]any)
			for name, one := range named {
				value := resolved(t, doc, one).(map[string]any)["value"]
				found = append(found, example{pointer + "/" + name, pointer + "/schema", value})
			}
		}
		listed, _ := object["examples"].([]any)
		for i, one := range listed {
			message, ok := one.(map[string]any)
			if !ok {
				continue
			}
			where := fmt.Sprintf("%s/%d", pointer, i)
			found = append(found, example{where, pointer + "/payload", message["payload"]})
			headers := pointer
			if traits, ok := object["traits"].([]any); ok { // the one trait of events has their headers
				headers = traits[0].(map[string]any)["$ref"].(string)
			}
			if message["headers"] != nil {
				found = append(found, example{where, headers + "/headers", message["headers"]})
			}
		}
	})
	return found
}

func TestDocuments(t *testing.T) {
	t.Parallel()

	t.Run("EveryReferenceStaysInTheDocumentAndLeadsSomewhere", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{OpenAPI, AsyncAPI} {
			doc := printed(t, name)
			refs := 0
			visit("#", doc, func(pointer string, object map[string]any) {
				if object["$ref"] != nil {
					resolved(t, doc, object)
					refs++
				}
			})
			require.Greater(t, refs, 50, name)
		}
	})

	t.Run("SchemasInThemAreThoseOfTheFilesAndEveryOneIsUsed", func(t *testing.T) {
		t.Parallel()
		used := map[string]bool{
			"approval.v1":         true,                              // inside approval_list.v1 and approval_card.v1
			"intent.submitted.v1": true, "effect.requested.v1": true, // between our own services
		}
		for _, name := range configurations { // of files, which cross no interface
			used[name] = true
		}
		for _, name := range []string{OpenAPI, AsyncAPI} {
			text, err := documents.ReadFile(name + ".yaml")
			require.NoError(t, err)
			inside := at(printed(t, name), "components", "schemas")
			for title, schema := range at(parseYAML(t, text), "components", "schemas") {
				file, ok := schema.(map[string]any)["$ref"].(string)
				if !ok {
					continue
				}
				schemaName := strings.TrimSuffix(strings.TrimPrefix(file, "schemas/"), ".json")
				want := readSchema(t, schemaName)
				delete(want, "$schema")
				delete(want, "$id")
				require.Equal(t, want, inside[title], "%s: %s", name, title)
				used[schemaName] = true
			}
		}
		files, err := fs.Glob(Schemas(), "*.json")
		require.NoError(t, err)
		for _, file := range files {
			require.True(t, used[strings.TrimSuffix(file, ".json")], "no document uses %s", file)
		}
	})

	t.Run("EveryExampleFitsItsSchema", func(t *testing.T) {
		t.Parallel()
		for name, atLeast := range map[string]int{OpenAPI: 60, AsyncAPI: 25} {
			doc := printed(t, name)
			compiler := jsonschema.NewCompiler()
			compiler.AssertFormat()
			require.NoError(t, compiler.AddResource("mem:///"+name, doc))
			examples := examplesOf(t, doc)
			require.GreaterOrEqual(t, len(examples), atLeast, name)
			for _, one := range examples {
				pointer := strings.NewReplacer("{", "%7B", "}", "%7D").Replace(one.schema)
				schema, err := compiler.Compile("mem:///" + name + pointer)
				require.NoError(t, err, one.at)
				require.NoError(t, schema.Validate(one.value), one.at)
			}
		}
	})

	t.Run("EventExamplesAreEventsThatAreReadAndProblemsAreOnesThatAreMade", func(t *testing.T) {
		t.Parallel()
		told := map[string]bool{}
		for _, name := range []string{OpenAPI, AsyncAPI} {
			for _, one := range examplesOf(t, printed(t, name)) {
				text, err := json.Marshal(one.value)
				require.NoError(t, err)
				object, _ := one.value.(map[string]any)
				if object["specversion"] != nil {
					event, err := Decode(text)
					require.NoError(t, err, one.at)
					require.JSONEq(t, string(text), string(event.AppendJSON(nil)), one.at)
				}
				if object["code"] == nil {
					continue
				}
				var got Problem
				require.NoError(t, json.Unmarshal(text, &got))
				want := NewProblem(got.Code, got.Detail)
				want.RunID, want.Errors = got.RunID, got.Errors
				require.Equal(t, *want, got, one.at)
				told[got.Code] = true
			}
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(problemKinds)), slices.Collect(maps.Keys(told)))
	})
}

// TestAnswersOfTheHTTPInterface looks at every answer that an operation lists.
func TestAnswersOfTheHTTPInterface(t *testing.T) {
	t.Parallel()
	doc := printed(t, OpenAPI)
	digits := regexp.MustCompile(`^[2-5][0-9]{2}$`)
	for path, item := range at(doc, "paths") {
		for method, operation := range item.(map[string]any) {
			if method == "servers" {
				continue
			}
			where := method + " " + path
			responses := at(operation, "responses")
			for _, always := range []string{"401", "500", "503"} {
				require.Contains(t, responses, always, where)
			}
			security, own := operation.(map[string]any)["security"].([]any)
			noCredential := own && len(security) == 0 // then there is nobody to be told that they may not
			require.Equal(t, !noCredential, responses["403"] != nil, where)
			_, takesBody := operation.(map[string]any)["requestBody"]
			for _, status := range []string{"413", "415"} {
				require.Equal(t, takesBody, responses[status] != nil, "%s: %s", where, status)
			}
			for status, response := range responses {
				require.Regexp(t, digits, status, where)
				if status == "204" {
					require.NotContains(t, resolved(t, doc, response), "content", where)
					continue
				}
				content := at(resolved(t, doc, response), "content")
				require.Len(t, content, 1, "%s: %s", where, status)
				media, isProblem := content[ProblemContentType]
				require.Equal(t, status[0] >= '4', isProblem, "%s: %s", where, status)
				if !isProblem {
					continue
				}
				examples := at(media, "examples")
				require.NotEmpty(t, examples, "%s: %s", where, status)
				for name, one := range examples {
					value := at(resolved(t, doc, one), "value")
					require.Equal(t, json.Number(status), value["status"], "%s: %s %s", where, status, name)
				}
			}
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()

	t.Run("EveryNameIsPrinted", func(t *testing.T) {
		t.Parallel()
		names := Names()
		require.Equal(t, []string{OpenAPI, AsyncAPI, "answer.v1"}, names[:3])
		for _, name := range names {
			text, err := Text(name)
			require.NoError(t, err)
			require.NotEmpty(t, parseYAML(t, text), name)
		}
	})

	t.Run("AnUnknownNameIsToldWhatThereIs", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"", "answer", "answer.v1.json", "../contracts/openapi"} {
			_, err := Text(name)
			require.ErrorContains(t, err, "there are: openapi, asyncapi, answer.v1, ", name)
		}
	})
}
