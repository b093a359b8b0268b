package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// object is a YAML mapping being read. It knows where everything stands and which members were asked for, so that close
// can name the ones that nobody knows. Reading by hand instead of into tagged structs is what lets one pass report all
// mistakes, each with its place and with what is allowed.
type object struct {
	problems *problems
	pos      Position
	members  []member
	known    []string
}

type member struct {
	name  string
	pos   Position // of the name
	value ast.Node // nil where nothing is written after the colon
}

// parseYAML reads a file that holds one mapping; nil and a problem otherwise.
func parseYAML(p *problems, file string, data []byte) *object {
	top := Position{File: file, Line: 1, Column: 1}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		p.add(syntaxPosition(file, err), "not valid YAML: %s", syntaxMessage(err))
		return nil
	}
	if len(parsed.Docs) != 1 || parsed.Docs[0].Body == nil {
		p.add(top, "the file must hold one YAML document, with settings in it")
		return nil
	}
	return newObject(p, file, parsed.Docs[0].Body)
}

func syntaxPosition(file string, err error) Position {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) && syntax.Token != nil {
		return Position{file, syntax.Token.Position.Line, syntax.Token.Position.Column}
	}
	return Position{file, 1, 1}
}

func syntaxMessage(err error) string {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		return syntax.Message
	}
	return err.Error()
}

func newObject(p *problems, file string, node ast.Node) *object {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		p.add(position(file, node), "must be a mapping of names to values, found %s", describe(node))
		return nil
	}
	o := &object{problems: p, pos: position(file, node)}
	for i, entry := range mapping.Values {
		at := position(file, entry.Key)
		if i == 0 && !mapping.IsFlowStyle {
			o.pos = at // a block mapping's own token is its first colon
		}
		name, ok := entry.Key.(*ast.StringNode)
		if !ok {
			p.add(at, "must be a plain name; merge keys and numbers are not supported")
			continue
		}
		value := entry.Value
		if _, null := value.(*ast.NullNode); null {
			value = nil
		}
		o.members = append(o.members, member{name.Value, at, value})
	}
	return o
}

// take marks the name as known and gives its value; nil where it is absent or empty.
func (o *object) take(name string) ast.Node {
	if !slices.Contains(o.known, name) {
		o.known = append(o.known, name)
	}
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// at is where the member stands, or the object where it is missing.
func (o *object) at(name string) Position {
	for _, m := range o.members {
		if m.name == name {
			if m.value != nil {
				return position(o.pos.File, m.value)
			}
			return m.pos
		}
	}
	return o.pos
}

func (o *object) fail(name, format string, args ...any) {
	o.problems.add(o.at(name), name+" "+format, args...)
}

// close reports every member that was not asked for.
func (o *object) close() {
	for _, m := range o.members {
		if !slices.Contains(o.known, m.name) {
			o.problems.add(m.pos, "%s is not a known setting here, allowed: %s", m.name, strings.Join(o.known, ", "))
		}
	}
}

func position(file string, node ast.Node) Position {
	if token := node.GetToken(); token != nil && token.Position != nil {
		return Position{file, token.Position.Line, token.Position.Column}
	}
	return Position{File: file}
}

// describe names what was found, for people who know YAML by sight only.
func describe(node ast.Node) string {
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return "the text " + quote(n.Value)
	case *ast.LiteralNode:
		return "a text"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias, which are not supported"
	case *ast.TagNode:
		return "a YAML tag, which is not supported"
	default:
		return "the value " + node.GetToken().Value
	}
}
