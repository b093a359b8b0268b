package contracts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// The documents are compared with the source of the services, which registers each route and subject in one place: this
// package is below the services and cannot ask them. A registration that these functions cannot read fails the test.

// sources parses a package of the repository without its tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var files []*ast.File
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	return files
}

// text is the value of a string literal.
func text(node ast.Expr) (string, bool) {
	literal, ok := node.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// keysOf are the keys of a map literal of texts.
func keysOf(t *testing.T, node ast.Expr) []string {
	t.Helper()
	literal, ok := node.(*ast.CompositeLit)
	require.True(t, ok, "routes are made from something else than a map that is written out")
	var keys []string
	for _, element := range literal.Elts {
		key, ok := text(element.(*ast.KeyValueExpr).Key)
		require.True(t, ok, "a key is not a literal")
		keys = append(keys, key)
	}
	return keys
}

// route is a registered pattern, with the scope that callers need ("" where it is not an API key that they show).
type route struct{ pattern, scope string }

// routesOf are the patterns under /v1/ that a package hands to HandleFunc.
func routesOf(t *testing.T, dir string) []route {
	t.Helper()
	var found []route
	for _, file := range sources(t, dir) {
		var over []*ast.RangeStmt
		ast.Inspect(file, func(node ast.Node) bool {
			if loop, ok := node.(*ast.RangeStmt); ok {
				over = append(over, loop)
			}
			call, ok := node.(*ast.CallExpr)
			if !ok || called(call) != "HandleFunc" {
				return true
			}
			for _, pattern := range patterns(t, call.Args[0], over) {
				if strings.Contains(pattern, "/v1/") {
					found = append(found, route{pattern, scopeOf(call.Args[1])})
				}
			}
			return true
		})
	}
	return found
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// patterns reads a pattern: a literal, or a literal followed by the key of the loop that it is in. What has no literal
// under /v1/ in it is a page.
func patterns(t *testing.T, node ast.Expr, loops []*ast.RangeStmt) []string {
	t.Helper()
	if pattern, ok := text(node); ok {
		return []string{pattern}
	}
	sum, ok := node.(*ast.BinaryExpr)
	if !ok {
		return nil
	}
	prefix, ok := text(sum.X)
	if !ok || !strings.Contains(prefix, "/v1/") {
		return nil
	}
	variable, ok := sum.Y.(*ast.Ident)
	require.True(t, ok, "%s goes on with something else than a variable", prefix)
	for _, loop := range loops {
		inside := loop.Pos() < node.Pos() && node.End() < loop.End()
		if key, ok := loop.Key.(*ast.Ident); ok && inside && key.Name == variable.Name {
			var all []string
			for _, key := range keysOf(t, loop.X) {
				all = append(all, prefix+key)
			}
			return all
		}
	}
	require.Fail(t, "no loop has the key "+variable.Name)
	return nil
}

// scopeOf finds config.Scope… among the arguments that make a handler.
func scopeOf(node ast.Expr) string {
	scope := ""
	ast.Inspect(node, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && strings.HasPrefix(selector.Sel.Name, "Scope") {
			scope = strings.ToLower(strings.TrimPrefix(selector.Sel.Name, "Scope"))
		}
		return true
	})
	return scope
}

// verbsOf are the verbs of the request/reply interface, as subjects hold them: arguments of subject(), and the names of
// workerVerbs.
func verbsOf(t *testing.T, dir string) []string {
	t.Helper()
	var verbs []string
	for _, file := range sources(t, dir) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.CallExpr:
				if called(n) == "subject" {
					if verb, ok := text(n.Args[0]); ok {
						verbs = append(verbs, verb)
					} else {
						selector, ok := n.Args[0].(*ast.SelectorExpr)
						require.True(t, ok && selector.Sel.Name == "name", "a subject is not made of a verb's name")
					}
				}
			case *ast.CompositeLit:
				if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "workerVerb" {
					for _, element := range n.Elts {
						if pair := element.(*ast.KeyValueExpr); pair.Key.(*ast.Ident).Name == "name" {
							verb, ok := text(pair.Value)
							require.True(t, ok)
							verbs = append(verbs, verb)
						}
					}
				}
			}
			return true
		})
	}
	return verbs
}

func TestEveryHTTPOperationIsARouteAndEveryRouteIsAnOperation(t *testing.T) {
	t.Parallel()
	doc := printed(t, OpenAPI)
	var documented, registered []string
	for path, item := range at(doc, "paths") {
		for method := range item.(map[string]any) {
			if method != "servers" {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for _, dir := range []string{"services/intake", "services/approval", "services/reconciler"} {
		for _, r := range routesOf(t, dir) {
			registered = append(registered, r.pattern)
			method, path, _ := strings.Cut(r.pattern, " ")
			item := at(doc, "paths")[path]
			require.NotNil(t, item, "%s is not documented", r.pattern)
			operation, ok := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
			require.True(t, ok, "%s is not documented", r.pattern)
			_, elsewhere := item.(map[string]any)["servers"]
			require.Equal(t, dir != "services/intake", elsewhere, "%s: who answers", r.pattern)
			require.Equal(t, r.scope == "", operation["security"] != nil, "%s: whose credential", r.pattern)
			if r.scope != "" {
				words := strings.Join(strings.Fields(operation["description"].(string)), " ")
				require.Contains(t, words, "Needs the scope `"+r.scope+"`.", r.pattern)
			}
		}
	}
	require.Len(t, registered, 29)
	require.ElementsMatch(t, registered, documented)
}

func TestEverySubjectIsAChannelAndEveryChannelIsASubject(t *testing.T) {
	t.Parallel()
	const tenant, source, connector = "{tenant}", "{source}", "{connector}"
	want := []any{nil, bus.IngressSubject(tenant, source), bus.ExecSubject(tenant, connector)} // nil is the inbox
	for _, verb := range verbsOf(t, "services/intake") {
		want = append(want, strings.ReplaceAll(bus.APISubject(tenant, verb), "*", source))
	}
	for _, verb := range verbsOf(t, "services/dispatcher") {
		want = append(want, strings.ReplaceAll(bus.APISubject(tenant, verb), "*", connector))
	}
	for _, data := range samples() {
		if rest, ok := strings.CutPrefix(data.BusSubject(), EventsPrefix+"demo."); ok {
			want = append(want, EventsPrefix+tenant+"."+rest)
		}
	}
	require.Len(t, want, 20)
	doc := printed(t, AsyncAPI)
	var have []any
	actions := map[string]string{}
	for _, operation := range at(doc, "operations") {
		channel := at(operation, "channel")["$ref"].(string)
		require.Empty(t, actions[channel], "%s has two operations", channel)
		actions[channel] = at(operation)["action"].(string)
		require.Equal(t, actions[channel] == "receive", at(operation)["reply"] != nil, channel)
	}
	for name, channel := range at(doc, "channels") {
		address := at(channel)["address"]
		have = append(have, address)
		if address == nil {
			continue
		}
		action := "receive"
		if strings.HasPrefix(address.(string), EventsPrefix) || strings.HasPrefix(address.(string), CommandsPrefix) {
			action = "send"
		}
		require.Equal(t, action, actions["#/channels/"+name])
		for parameter := range at(channel, "parameters") {
			require.Contains(t, address, "{"+parameter+"}")
		}
	}
	require.ElementsMatch(t, want, have)
}
