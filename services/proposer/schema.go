package proposer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// answerSchema is the JSON Schema of an answer as the endpoint is given it, made of the actions' own schemas without the
// members that the event fixes. The lengths of the texts around the change are left out, which some endpoints do not
// take; they are checked here all the same.
func answerSchema(actions []*config.Action, fixed []config.FixedRule) (canonical.Value, error) {
	var choices []any
	for i, a := range actions {
		at := "#/properties/proposal"
		if len(actions) > 1 {
			at += fmt.Sprintf("/anyOf/%d", i)
		}
		change, err := changeSchema(a, fixed, at+"/properties/proposed_change")
		if err != nil {
			return canonical.Value{}, err
		}
		choices = append(choices, closedObject(map[string]any{
			"action_type":     map[string]any{"type": "string", "enum": []any{a.Type}},
			"proposed_change": change,
		}))
	}
	proposal := choices[0]
	if len(choices) > 1 {
		proposal = map[string]any{"anyOf": choices}
	}
	return canonical.FromAny(closedObject(map[string]any{
		"proposal": proposal,
		"assumptions": map[string]any{"type": "array", "items": map[string]any{"type": "string"},
			"description": "What you took for granted: at most 16 short sentences, or none."},
		"uncertainty": map[string]any{"type": "string", "enum": []any{"low", "medium", "high"},
			"description": "How sure the records leave you. It can only make the review stricter."},
	}))
}

func closedObject(properties map[string]any) map[string]any {
	required := make([]any, 0, len(properties))
	for name := range properties {
		required = append(required, name)
	}
	slices.SortFunc(required, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
}

// changeSchema is an action's schema, to stand inside another at a place.
func changeSchema(a *config.Action, fixed []config.FixedRule, at string) (any, error) {
	parsed, err := canonical.Parse(a.Schema)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", a.Type, err)
	}
	schema, ok := moveReferences(parsed.Any(), at).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema of %s is no object", a.Type)
	}
	delete(schema, "$schema")
	delete(schema, "$id")
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, f := range fixed {
		delete(properties, f.Member)
		required = slices.DeleteFunc(required, func(name any) bool { return name == f.Member })
	}
	if required != nil {
		schema["required"] = required
	}
	return schema, nil
}

// moveReferences makes references from a schema's own top lead to its new place. Values that are data are left alone.
func moveReferences(value any, to string) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			ref, isText := inner.(string)
			switch {
			case name == "$ref" && isText && (ref == "#" || strings.HasPrefix(ref, "#/")):
				v[name] = to + ref[1:]
			case name != "const" && name != "enum" && name != "default" && name != "examples":
				v[name] = moveReferences(inner, to)
			}
		}
	case []any:
		for i := range v {
			v[i] = moveReferences(v[i], to)
		}
	}
	return value
}
