package contracts

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// configurations are the schemas of a tenant's files. That they say what the loader does is tested beside the loader.
var configurations = []string{"config.actions.v1", "config.checks.v1", "config.connectors.v1", "config.people.v1", "config.policy.v1",
	"config.policy_tests.v1", "config.sources.v1", "config.tenant.v1"}

// setting is where a schema says what a setting is; conditions name settings too, without saying more about them.
var (
	setting   = regexp.MustCompile(`/properties/[a-z0-9_]+$`)
	condition = regexp.MustCompile(`/(allOf|oneOf|not)(/|$)`)
)

func TestConfigurationSchemas(t *testing.T) {
	t.Parallel()
	for _, name := range configurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := readSchema(t, name)

			require.Equal(t, "urn:holdpoint:schema:"+name, doc["$id"])
			compiler := jsonschema.NewCompiler()
			require.NoError(t, compiler.AddResource("mem:///"+name, doc))
			_, err := compiler.Compile("mem:///" + name)
			require.NoError(t, err)

			settings := 0
			visit("#", doc, func(pointer string, object map[string]any) {
				if object["$ref"] != nil {
					resolved(t, doc, object)
				}
				if object["type"] == "object" {
					require.Contains(t, object, "additionalProperties", "%s takes unknown settings", pointer)
				}
				if !setting.MatchString(pointer) || condition.MatchString(pointer) {
					return
				}
				settings++
				words, _ := object["description"].(string)
				require.NotEmpty(t, words, "%s is not described", pointer)
				if value := object["default"]; value != nil && value != false {
					require.Contains(t, words, fmt.Sprint(value), "the description of %s does not say its default", pointer)
				}
			})
			require.GreaterOrEqual(t, settings, 5)
		})
	}
}

// widened is a shipped schema with what integrators may write besides in the current one: a longer closed list, a wider
// bound, a setting that is no longer required. They write the configuration and Holdpoint alone reads it, so that none
// of these harms anybody.
func widened(shipped, current any) any {
	was, ok1 := shipped.(map[string]any)
	is, ok2 := current.(map[string]any)
	if !ok1 || !ok2 {
		return shipped
	}
	result := maps.Clone(was)
	for keyword := range was {
		if wider(keyword, was[keyword], is[keyword]) {
			result[keyword] = is[keyword]
		} else {
			result[keyword] = widened(was[keyword], is[keyword])
		}
	}
	return result
}

// wider reports whether the keyword takes all that it took.
func wider(keyword string, was, is any) bool {
	switch keyword {
	case "enum":
		return isList(was) && isList(is) && holds(is.([]any), was.([]any))
	case "required":
		return isList(was) && (is == nil || isList(is) && holds(was.([]any), is.([]any)))
	case "minimum", "maximum":
		low, ok1 := was.(json.Number)
		high, ok2 := is.(json.Number)
		if keyword == "minimum" {
			low, high = high, low
		}
		return ok1 && ok2 && rational(low).Cmp(rational(high)) <= 0
	}
	return false
}

func holds(all, some []any) bool {
	return !slices.ContainsFunc(some, func(one any) bool { return !slices.Contains(all, one) })
}

func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic("a JSON number is no number: " + n)
	}
	return r
}

func TestConfigurationBreaks(t *testing.T) {
	t.Parallel()

	type testBundle struct{ shipped, current map[string]any }
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		return &testBundle{readSchema(t, "config.actions.v1"), readSchema(t, "config.actions.v1")}
	}
	action := func(schema map[string]any) map[string]any { return at(schema, "properties", "actions", "items") }
	risk := []any{"low", "medium", "high"}
	cases := []struct {
		name   string
		change func(schema map[string]any)
		want   []string
	}{
		{"ANewOptionalSettingIsHarmlessThoughUnknownOnesAreRefused", func(schema map[string]any) {
			at(action(schema), "properties")["color"] = map[string]any{"type": "string"}
		}, nil},
		{"ANewDefinitionIsHarmless", func(schema map[string]any) {
			at(schema, "$defs")["color"] = map[string]any{"type": "string"}
		}, nil},
		{"ALongerClosedListIsHarmless", func(schema map[string]any) {
			at(action(schema), "properties", "risk")["enum"] = append(slices.Clone(risk), "extreme")
		}, nil},
		{"AWiderBoundIsHarmless", func(schema map[string]any) {
			at(action(schema), "properties", "review", "properties", "quorum")["maximum"] = json.Number("20")
		}, nil},
		{"ASettingThatIsNoLongerRequiredIsHarmless", func(schema map[string]any) {
			action(schema)["required"] = action(schema)["required"].([]any)[1:]
		}, nil},
		{"AShorterClosedListBreaks", func(schema map[string]any) {
			at(action(schema), "properties", "risk")["enum"] = risk[:2]
		}, []string{"s/actions items/risk enum was [low medium high] and is [low medium]"}},
		{"ANarrowerBoundBreaks", func(schema map[string]any) {
			at(action(schema), "properties", "review", "properties", "quorum")["maximum"] = json.Number("9")
		}, []string{"s/actions items/review/quorum maximum was 10 and is 9"}},
		{"ARaisedLowerBoundBreaks", func(schema map[string]any) {
			at(action(schema), "properties", "review", "properties", "quorum")["minimum"] = json.Number("2")
		}, []string{"s/actions items/review/quorum minimum was 1 and is 2"}},
		{"ANewlyRequiredSettingBreaks", func(schema map[string]any) {
			at(action(schema), "properties", "review")["required"] = []any{"quorum"}
		}, []string{"s/actions items/review required was <nil> and is [quorum]"}},
		{"ARemovedSettingBreaks", func(schema map[string]any) {
			delete(at(action(schema), "properties"), "category")
		}, []string{"s/actions items/category was removed"}},
		{"AnotherDefaultBreaks", func(schema map[string]any) {
			at(action(schema), "properties", "review", "properties", "quorum")["default"] = json.Number("2")
		}, []string{"s/actions items/review/quorum default was 1 and is 2"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bundle := setup(t)
			tc.change(bundle.current)
			require.Equal(t, tc.want, breaks("s", widened(bundle.shipped, bundle.current), bundle.current))
		})
	}
}
