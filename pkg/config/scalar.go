package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

func quote(s string) string { return strconv.Quote(s) }

// textOf is the text of a scalar that YAML reads as text.
func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// optText is "" where the member is absent.
func (o *object) optText(name string) string {
	node := o.take(name)
	if node == nil {
		return ""
	}
	text, ok := textOf(node)
	if !ok {
		o.fail(name, "must be a text, found %s; put it in quotes", describe(node))
	}
	return strings.TrimSpace(text)
}

func (o *object) text(name string) string {
	if o.take(name) == nil {
		o.fail(name, "is missing; it must be a text")
		return ""
	}
	text := o.optText(name)
	if text == "" {
		if written, ok := textOf(o.take(name)); ok && strings.TrimSpace(written) == "" {
			o.fail(name, "must not be empty")
		}
	}
	return text
}

// shape is what an id may look like, as a pattern and in words.
type shape struct {
	pattern *regexp.Regexp
	words   string
}

var (
	tenantID = shape{regexp.MustCompile(`^[a-z0-9-]{1,32}$`), "1 to 32 of a-z, 0-9 and -"}
	slug     = shape{regexp.MustCompile(`^[a-z0-9-]{1,64}$`), "1 to 64 of a-z, 0-9 and -"}
	dotted   = shape{regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`), "words of a-z, 0-9 and _ joined by dots"}
	word     = shape{regexp.MustCompile(`^[a-z][a-z0-9_]*$`), "a letter of a-z, then a-z, 0-9 and _"}
	workflow = shape{regexp.MustCompile(`^[a-z0-9-]+@[1-9][0-9]*$`), "a name and a version, such as crm-enrichment@3"}
	digest   = shape{regexp.MustCompile(`^[0-9a-f]{64}$`), "64 lower-case hexadecimal digits"}
	header   = shape{regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`), "letters, digits and -"}
	variable = shape{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), "the name of an environment variable"}
	decimal  = shape{regexp.MustCompile(`^(0|-?[1-9][0-9]{0,37}|-?(0|[1-9][0-9]{0,37})\.[0-9]{1,18})$`),
		"a plain decimal such as 100.00, at most 38 digits before the point and 18 after it"}
	share = shape{regexp.MustCompile(`^(1(\.0{1,18})?|0\.0{0,17}[1-9][0-9]{0,17})$`), "a share above 0 and at most 1, such as 0.995"}
)

func (o *object) check(name, value string, s shape) {
	if value != "" && !s.pattern.MatchString(value) {
		o.fail(name, "is %s, allowed: %s", quote(value), s.words)
	}
}

func (o *object) id(name string, s shape) string {
	value := o.text(name)
	o.check(name, value, s)
	return value
}

func (o *object) optID(name string, s shape) string {
	value := o.optText(name)
	o.check(name, value, s)
	return value
}

// oneOf holds a value to a closed list. With "" in the list the member may be absent.
func (o *object) oneOf(name string, allowed ...string) string {
	optional := slices.Contains(allowed, "")
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	value := o.optText(name)
	switch {
	case value == "" && optional && o.take(name) == nil, slices.Contains(allowed, value):
		return value
	case o.take(name) == nil:
		o.fail(name, "is missing, allowed: %s", strings.Join(allowed, ", "))
	default:
		if _, ok := textOf(o.take(name)); ok { // else optText has complained
			o.fail(name, "is %s, allowed: %s", quote(value), strings.Join(allowed, ", "))
		}
	}
	return value
}

// flag is a boolean that has to be written down.
func (o *object) flag(name string) bool {
	if o.take(name) == nil {
		o.fail(name, "is missing, allowed: true, false")
		return false
	}
	return o.optFlag(name)
}

func (o *object) optFlag(name string) bool {
	node := o.take(name)
	if node == nil {
		return false
	}
	b, ok := node.(*ast.BoolNode)
	if !ok {
		o.fail(name, "must be true or false, found %s", describe(node))
		return false
	}
	return b.Value
}

// number is a whole number between low and high, or fallback where the member is absent.
func (o *object) number(name string, fallback, low, high int) int {
	node := o.take(name)
	if node == nil {
		return fallback
	}
	n, err := strconv.Atoi(node.GetToken().Value)
	if _, whole := node.(*ast.IntegerNode); !whole || err != nil || n < low || n > high {
		o.fail(name, "must be a whole number from %d to %d, found %s", low, high, describe(node))
	}
	return n
}

// duration is positive, or fallback where the member is absent; a fallback of 0 makes it required.
func (o *object) duration(name string, fallback time.Duration) time.Duration {
	node := o.take(name)
	if node == nil {
		if fallback == 0 {
			o.fail(name, "is missing; it must be a duration such as 30s, 15m or 24h")
		}
		return fallback
	}
	text, _ := textOf(node)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		o.fail(name, "must be a positive duration such as 30s, 15m or 24h, found %s", describe(node))
		return fallback
	}
	return d
}

// optDuration is 0 where the member is absent.
func (o *object) optDuration(name string) time.Duration {
	if o.take(name) == nil {
		return 0
	}
	return o.duration(name, 0)
}

// decimals reads a mapping of names to exact decimals. Numbers are taken as they are written, never through a float.
func (o *object) decimals(name string) map[string]string {
	inner := o.object(name)
	if inner == nil {
		return nil
	}
	values := make(map[string]string, len(inner.members))
	for _, m := range inner.members {
		inner.check(m.name, m.name, word)
		text, ok := scalarText(inner.take(m.name))
		if !ok || !decimal.pattern.MatchString(text) {
			inner.fail(m.name, "must be %s, found %s", decimal.words, describe(m.value))
		}
		values[m.name] = text
	}
	return values
}

// scalarText is a number or text as written.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return textOf(node)
}

// scalar is a text, a boolean or a json.Number that has to be written down.
func (o *object) scalar(name string) any {
	node := o.take(name)
	if node == nil {
		o.fail(name, "is missing; it must be a text, a number, true or false")
		return nil
	}
	value := o.treeOf(name, node, func(Position, string, string) {})
	switch value.(type) {
	case string, bool, json.Number:
	default:
		o.fail(name, "must be a text, a number, true or false, found %s", describe(node))
	}
	return value
}

// tree converts a body template: mappings, lists, texts, booleans, null, and numbers as json.Number.
func (o *object) tree(name string) any {
	node := o.take(name)
	if node == nil {
		return nil
	}
	return o.treeOf(name, node, o.checkTemplate)
}

// treeOf converts what is written below a node, and checks every text of it.
func (o *object) treeOf(path string, node ast.Node, check func(at Position, path, text string)) any {
	switch n := node.(type) {
	case *ast.MappingNode:
		inner := newObject(o.problems, o.pos.File, n)
		values := make(map[string]any, len(inner.members))
		for _, m := range inner.members {
			values[m.name] = nil
			if m.value != nil {
				values[m.name] = o.treeOf(path+"."+m.name, m.value, check)
			}
		}
		return values
	case *ast.SequenceNode:
		values := make([]any, len(n.Values))
		for i, item := range n.Values {
			values[i] = o.treeOf(path+"["+strconv.Itoa(i)+"]", item, check)
		}
		return values
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.StringNode, *ast.LiteralNode:
		text, _ := textOf(n)
		check(position(o.pos.File, n), path, text)
		return text
	}
	if text, ok := scalarText(node); ok && json.Valid([]byte(text)) {
		return json.Number(text)
	}
	at := position(o.pos.File, node)
	o.problems.add(at, "%s cannot be written as JSON, found %s; put it in quotes", path, describe(node))
	return nil
}
