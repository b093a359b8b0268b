package config

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// everySetting is a valid configuration in which every setting is written down.
const everySetting = "testdata/every_setting"

const agreementTenant = "tenants/demo"

var agreementFiles = []string{tenantFile, sourcesFile, actionsFile, policyFile, connectorsFile, peopleFile, testsFile, checksFile}

// agreement is one file with the schema that is to say what the loader says.
type agreement struct {
	t        *testing.T
	file     string
	schema   map[string]any
	compiled *jsonschema.Schema
	tree     map[string]any // the file of everySetting
	fs       fs.FS
}

func newAgreement(t *testing.T, file string) *agreement {
	t.Helper()
	name := "config." + strings.TrimSuffix(file, ".yaml") + ".v1"
	text, err := contracts.Text(name)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiled, err := compileSchema(name, text)
	require.NoError(t, err)
	a := &agreement{t: t, file: file, schema: doc.(map[string]any), compiled: compiled, fs: os.DirFS(everySetting)}
	a.tree = readTree(t, a.fs, file)
	return a
}

// readTree is a file as an editor sees it: as JSON, with numbers as they are written.
func readTree(t *testing.T, files fs.FS, file string) map[string]any {
	t.Helper()
	text, err := fs.ReadFile(files, agreementTenant+"/"+file)
	require.NoError(t, err)
	plain, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	require.NoError(t, err)
	return doc.(map[string]any)
}

// agreementEnv fills in the variables of everySetting that have no default.
func agreementEnv(name string) (string, bool) {
	if strings.HasSuffix(name, "_CHAT") {
		return "https://chat.example.com/services/x", true
	}
	return "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk=", strings.HasSuffix(name, "_SECRET")
}

// load reads the tree as this one file of a tenant, without what holds files together, and gives the complaints.
func (a *agreement) load(tree any) (*Tenant, []string) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	require.NoError(a.t, encoder.Encode(tree))
	l := &loader{fsys: a.fs, getenv: agreementEnv, files: map[string][]byte{}}
	d := &declared{Tenant: &Tenant{}, loader: l, folder: agreementTenant, places: map[any]*object{}}
	read := map[string]func(*object){tenantFile: d.readTenant, sourcesFile: d.readSources, actionsFile: d.readActions,
		policyFile: d.readRules, connectorsFile: d.readConnectors, peopleFile: d.readPeople,
		testsFile: d.readPolicyTests, checksFile: d.readChecks}
	if o := parseYAML(&l.problems, a.file, text.Bytes()); o != nil { // JSON is YAML
		read[a.file](o)
		o.close()
	}
	complaints := make([]string, len(l.list))
	for i, e := range l.list {
		complaints[i] = e.Msg
	}
	return d.Tenant, complaints
}

// parts are the tree with one item in each of its lists at the top, which is quicker to read many times.
func (a *agreement) parts() []map[string]any {
	common := maps.Clone(a.tree)
	maps.DeleteFunc(common, func(_ string, member any) bool { _, list := member.([]any); return list })
	var parts []map[string]any
	for name, member := range a.tree {
		items, _ := member.([]any)
		for _, item := range items {
			part := maps.Clone(common)
			part[name] = []any{item}
			parts = append(parts, part)
		}
	}
	for _, other := range alternatives[a.file] {
		without := with(a.tree, other.without, nothing{})
		parts = append(parts, with(without, other.path, other.value).(map[string]any))
	}
	return parts
}

// alternatives are settings for which a file has one place, that another has taken.
var alternatives = map[string][]struct {
	without, path []any
	value         string
}{
	tenantFile: {
		{[]any{"callbacks", "secret_env"}, []any{"callbacks", "secret"}, "${CALLBACK_SECRET}"},
		{[]any{"callbacks", "secret_env"}, []any{"callbacks", "secret_file"}, "/run/secrets/callback"},
	},
}

// spot is one value of a tree with what the schema says about it.
type spot struct {
	tree     map[string]any
	path     []any          // names and indexes from the top
	where    string         // the path with [] for every index and * for a name that is free: sources[].lease.duration
	schema   map[string]any // with what it refers to
	value    any
	optional bool
}

// name is what the loader calls the value in complaints: items go by the name of their list.
func (s spot) name() string {
	for _, step := range slices.Backward(s.path) {
		if name, ok := step.(string); ok {
			return name
		}
	}
	return ""
}

// spots are all values of a tree for which the schema has words, the tree itself first.
func (a *agreement) spots(tree map[string]any) []spot {
	return a.inside(spot{tree: tree, schema: a.schema, value: tree})
}

func (a *agreement) inside(s spot) []spot {
	found := []spot{s}
	step := func(step any, where string, schema, value any, optional bool) {
		found = append(found, a.inside(spot{s.tree, append(slices.Clone(s.path), step), s.where + where,
			a.resolved(schema), value, optional})...)
	}
	switch value := s.value.(type) {
	case map[string]any:
		properties, closed := s.schema["properties"].(map[string]any)
		required, _ := s.schema["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if closed {
				require.Contains(a.t, properties, name, "%s: the schema lacks a setting at %s", a.file, s.where)
				step(name, "."+name, properties[name], value[name], !slices.Contains(required, any(name)))
			} else if s.schema["additionalProperties"] != nil {
				step(name, ".*", s.schema["additionalProperties"], value[name], false)
			}
		}
	case []any:
		for i, item := range value {
			if s.schema["items"] != nil {
				step(i, "[]", s.schema["items"], item, false)
			}
		}
	}
	return found
}

// resolved is the schema with what it refers to in its place.
func (a *agreement) resolved(schema any) map[string]any {
	object := schema.(map[string]any)
	ref, ok := object["$ref"].(string)
	if !ok {
		return object
	}
	name := strings.TrimPrefix(ref, "#/$defs/")
	merged := maps.Clone(a.schema["$defs"].(map[string]any)[name].(map[string]any))
	maps.Copy(merged, object)
	delete(merged, "$ref")
	return merged
}

// places are all that the schema describes, each as the where of a spot.
func (a *agreement) places(where string, schema map[string]any) []string {
	found := []string{where}
	properties, _ := schema["properties"].(map[string]any)
	for name, member := range properties {
		found = append(found, a.places(where+"."+name, a.resolved(member))...)
	}
	if items, ok := schema["items"]; ok {
		found = append(found, a.places(where+"[]", a.resolved(items))...)
	}
	if free, ok := schema["additionalProperties"].(map[string]any); ok {
		found = append(found, a.places(where+".*", a.resolved(free))...)
	}
	return found
}

// nothing in place of a value leaves the member out.
type nothing struct{}

// with is a copy of the tree with another value at the path.
func with(tree any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch around := tree.(type) {
	case map[string]any:
		copied, name := maps.Clone(around), path[0].(string)
		if inner := with(around[name], path[1:], value); inner == (nothing{}) {
			delete(copied, name)
		} else {
			copied[name] = inner
		}
		return copied
	case []any:
		copied, i := slices.Clone(around), path[0].(int)
		copied[i] = with(around[i], path[1:], value)
		return copied
	}
	panic("the path leads nowhere")
}

// put is the spot's tree with another value there.
func (s spot) put(value any) any { return with(s.tree, s.path, value) }

// member is the spot's tree with another member there.
func (s spot) member(name string, value any) any {
	return with(s.tree, append(slices.Clone(s.path), name), value)
}
