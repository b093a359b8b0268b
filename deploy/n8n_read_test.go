package deploy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// The n8n examples are held to the contracts and to the example configuration, so that neither can move without them.
const (
	proposing      = "propose-and-wait.json"
	working        = "worker.json"
	n8nCredentials = "credentials.demo.json"
)

// named is how n8n writes the fields of a Set node, headers and query parameters.
type named struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

func (n named) text() string { s, _ := n.Value.(string); return s }

type n8nCondition struct {
	Left     string `json:"leftValue"`
	Right    any    `json:"rightValue"`
	Operator struct {
		Operation string `json:"operation"`
	} `json:"operator"`
}

type n8nRule struct {
	Conditions struct {
		Conditions []n8nCondition `json:"conditions"`
	} `json:"conditions"`
}

// n8nResponse is how an HTTP Request node takes answers.
type n8nResponse struct {
	FullResponse   bool   `json:"fullResponse"`
	NeverError     bool   `json:"neverError"`
	ResponseFormat string `json:"responseFormat"`
}

type n8nNode struct {
	Name        string                    `json:"name"`
	Type        string                    `json:"type"`
	RetryOnFail bool                      `json:"retryOnFail"`
	MaxTries    int                       `json:"maxTries"`
	Credentials map[string]map[string]any `json:"credentials"`
	Parameters  struct {
		Method      string                        `json:"method"`
		URL         string                        `json:"url"`
		Auth        string                        `json:"genericAuthType"`
		Headers     struct{ Parameters []named }  `json:"headerParameters"`
		Query       struct{ Parameters []named }  `json:"queryParameters"`
		Body        string                        `json:"jsonBody"`
		Code        string                        `json:"jsCode"`
		Assignments struct{ Assignments []named } `json:"assignments"`
		Rules       struct{ Values []n8nRule }    `json:"rules"`
		Resume      string                        `json:"resume"`
		HTTPMethod  string                        `json:"httpMethod"`
		Limited     bool                          `json:"limitWaitTime"`
		Options     struct {
			Response struct{ Response n8nResponse }
		}
	} `json:"parameters"`
}

func (n *n8nNode) is(kind string) bool { return n.Type == "n8n-nodes-base."+kind }

// header is the value of a header of an HTTP Request node.
func (n *n8nNode) header(name string) string {
	for _, h := range n.Parameters.Headers.Parameters {
		if h.Name == name {
			return h.text()
		}
	}
	return ""
}

type n8nLink struct {
	Node  string `json:"node"`
	Index int    `json:"index"`
}

type n8nWorkflow struct {
	text        string
	Active      bool                                  `json:"active"`
	Nodes       []*n8nNode                            `json:"nodes"`
	Connections map[string]struct{ Main [][]n8nLink } `json:"connections"`
}

func readN8N(t *testing.T, file string) *n8nWorkflow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("n8n", file))
	require.NoError(t, err)
	w := &n8nWorkflow{text: string(text)}
	require.NoError(t, json.Unmarshal(text, w))
	return w
}

func (w *n8nWorkflow) node(t *testing.T, name string) *n8nNode {
	t.Helper()
	at := slices.IndexFunc(w.Nodes, func(n *n8nNode) bool { return n.Name == name })
	require.GreaterOrEqual(t, at, 0, "there is no node %q", name)
	return w.Nodes[at]
}

func (w *n8nWorkflow) kind(kind string) []*n8nNode {
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(n *n8nNode) bool { return !n.is(kind) })
}

// next are the nodes after one output of a node.
func (w *n8nWorkflow) next(name string, output int) []string {
	var names []string
	if outputs := w.Connections[name].Main; output < len(outputs) {
		for _, link := range outputs[output] {
			names = append(names, link.Node)
		}
	}
	return names
}

// filled evaluates a Set node over the item that it gets: texts, and expressions that read one member, on their own or
// inside a text. Names are dotted paths. What it cannot read fails the test.
func (n *n8nNode) filled(t *testing.T, item map[string]any) map[string]any {
	t.Helper()
	var made any = map[string]any{}
	for _, a := range n.Parameters.Assignments.Assignments {
		made = placed(made, strings.Split(strings.ReplaceAll(a.Name, "[0]", ".0"), "."), evaluated(t, a.Value, item))
	}
	return made.(map[string]any)
}

func placed(into any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "0" {
		list, _ := into.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = placed(list[0], path[1:], value)
		return list
	}
	object, ok := into.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object[path[0]] = placed(object[path[0]], path[1:], value)
	return object
}

var n8nExpression = regexp.MustCompile(`\{\{ \$json\.([a-z_.]+) \}\}`)

func evaluated(t *testing.T, value any, item map[string]any) any {
	t.Helper()
	text, ok := value.(string)
	if !ok || !strings.HasPrefix(text, "=") {
		return value
	}
	read := func(path string) (v any) {
		v = item
		for _, name := range strings.Split(path, ".") {
			v = v.(map[string]any)[name]
		}
		require.NotNil(t, v, "the example has no %s", path)
		return v
	}
	if whole := n8nExpression.FindStringSubmatch(text); whole != nil && whole[0] == text[1:] {
		return read(whole[1])
	}
	text = n8nExpression.ReplaceAllStringFunc(text[1:], func(e string) string {
		return read(n8nExpression.FindStringSubmatch(e)[1]).(string)
	})
	require.NotContains(t, text, "{{", "this expression is not read")
	return text
}

// javaScript reads an object of JavaScript as YAML, which it is near enough to; expressions in it become texts.
func javaScript(t *testing.T, text string) map[string]any {
	t.Helper()
	text = regexp.MustCompile(`(?m) //.*$|^\s*//.*$`).ReplaceAllString(text, "")
	plain, err := yaml.YAMLToJSON([]byte(strings.Join(strings.Fields(text), " ")))
	require.NoError(t, err, text)
	var object map[string]any
	require.NoError(t, json.Unmarshal(plain, &object), text)
	return object
}

func requireFits(t *testing.T, schema []byte, value any) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("schema.json", doc))
	compiled, err := compiler.Compile("schema.json")
	require.NoError(t, err)
	text, err := json.Marshal(value)
	require.NoError(t, err)
	value, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, compiled.Validate(value), string(text))
}

func contract(t *testing.T, name string) []byte {
	t.Helper()
	text, err := contracts.Text(name)
	require.NoError(t, err)
	return text
}

// operation is the one of the OpenAPI document that an HTTP Request node calls, with its path.
func operation(t *testing.T, api map[string]any, n *n8nNode) map[string]any {
	t.Helper()
	_, path, found := strings.Cut(n.Parameters.URL, ".holdpoint }}")
	require.True(t, found, "%s does not take the address from the settings", n.Name)
	called := strings.Split(regexp.MustCompile(`\{\{.*?\}\}`).ReplaceAllString(path, "*"), "/")
	for declared, methods := range api["paths"].(map[string]any) {
		parts := strings.Split(declared, "/")
		fits := len(parts) == len(called)
		for i := 0; fits && i < len(parts); i++ {
			fits = parts[i] == called[i] || strings.HasPrefix(parts[i], "{")
		}
		method := strings.ToLower(n.Parameters.Method)
		if method == "" {
			method = "get"
		}
		if op, ok := methods.(map[string]any)[method].(map[string]any); fits && ok {
			return op
		}
	}
	require.Fail(t, "the contract has no such call", "%s %s", n.Parameters.Method, path)
	return nil
}

// declared are the names of an operation's headers and query parameters.
func declared(api, op map[string]any) []string {
	var names []string
	parameters, _ := op["parameters"].([]any)
	for _, p := range parameters {
		parameter := p.(map[string]any)
		if ref, ok := parameter["$ref"].(string); ok {
			at := api["components"].(map[string]any)["parameters"].(map[string]any)
			parameter = at[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
		}
		names = append(names, parameter["name"].(string))
	}
	return names
}

func openAPI(t *testing.T) map[string]any {
	t.Helper()
	var api map[string]any
	require.NoError(t, yaml.Unmarshal(contract(t, contracts.OpenAPI), &api))
	return api
}

type n8nCredential struct {
	ID, Name, Type string
	Data           map[string]string
}

func demoCredential(t *testing.T) n8nCredential {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("n8n", n8nCredentials))
	require.NoError(t, err)
	var all []n8nCredential
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 1)
	return all[0]
}
