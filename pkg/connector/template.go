package connector

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Operation is one effect to prepare or to look for.
type Operation struct {
	Name string // of an operation that the connector declares
	// Action is the approved action of the intent, an object with target, proposed_change and, for conditional updates,
	// current_version.
	Action         canonical.Value
	OperationID    string
	IdempotencyKey string
	TenantID       string
	CorrelationID  string
	// FirstAttempt is when the first attempt of the effect began, the same on every attempt: it dates a message. Only a Mailer needs it.
	FirstAttempt time.Time
}

// roots are the names a template may begin with.
var (
	actionRoots = []string{"proposed_change", "target", "current_version"}
	textRoots   = []string{"operation_id", "idempotency_key", "tenant_id", "correlation_id"}
)

// template is text with references such as ${target.record_id}. "$${" stands for a literal "${".
type template struct{ parts []part }

// part is either text or a reference.
type part struct {
	text string
	ref  *reference
}

// reference leads to a value of an Operation.
type reference struct {
	name    string // as it was written
	root    string
	pointer string // into the action, root included
}

func (c *compiler) template(where, text string) (t template) {
	rest := text
	literal := ""
	for rest != "" {
		before, after, found := strings.Cut(rest, "${")
		if !found {
			literal += rest
			break
		}
		if strings.HasSuffix(before, "$") {
			literal += strings.TrimSuffix(before, "$") + "${"
			rest = after
			continue
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed {
			c.check(false, "%s: ${ without } in %q", where, text)
			return t
		}
		if literal += before; literal != "" {
			t.parts = append(t.parts, part{text: literal})
			literal = ""
		}
		t.parts = append(t.parts, part{ref: c.reference(where, name)})
		rest = next
	}
	if literal != "" {
		t.parts = append(t.parts, part{text: literal})
	}
	return t
}

func (c *compiler) reference(where, name string) *reference {
	root, below, nested := strings.Cut(name, ".")
	ref := &reference{name: name, root: root, pointer: "/" + root}
	switch {
	case slices.Contains(textRoots, root):
		c.check(!nested, "%s: ${%s}: %s is text and has no fields", where, name, root)
	case slices.Contains(actionRoots, root):
		if nested {
			escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(below)
			ref.pointer += "/" + strings.ReplaceAll(escaped, ".", "/")
		}
	default:
		c.check(false, "%s: ${%s}: unknown name, it must begin with one of %s", where, name,
			strings.Join(slices.Concat(actionRoots, textRoots), ", "))
	}
	return ref
}

// path compiles a template for the part of a URL after the base.
func (c *compiler) path(where, text string) template {
	c.check(strings.HasPrefix(text, "/"), "%s: %q must begin with /", where, text)
	literal := c.template(where, text)
	for _, p := range literal.parts {
		plain := strings.IndexFunc(p.text, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' || r == '\\' }) < 0
		c.check(plain, "%s: %q holds characters that must be escaped in a URL", where, p.text)
	}
	return literal
}

// value is what the reference leads to; absent and empty values are refused, so that a misnamed field can never turn a
// write to one record into a write to a collection.
func (r *reference) value(op *Operation) (canonical.Value, error) {
	var text string
	switch r.root {
	case "operation_id":
		text = op.OperationID
	case "idempotency_key":
		text = op.IdempotencyKey
	case "tenant_id":
		text = op.TenantID
	case "correlation_id":
		text = op.CorrelationID
	default:
		v, found := op.Action.Pointer(r.pointer)
		if !found {
			return v, fmt.Errorf("${%s} is missing from the intent", r.name)
		}
		return v, nil
	}
	if text == "" {
		return canonical.Value{}, fmt.Errorf("${%s} is missing", r.name)
	}
	v, err := canonical.NewString(text)
	if err != nil {
		return v, fmt.Errorf("${%s}: %w", r.name, err)
	}
	return v, nil
}

func (r *reference) text(op *Operation) (string, error) {
	v, err := r.value(op)
	if err != nil {
		return "", err
	}
	switch v.Kind() {
	case canonical.String, canonical.Number, canonical.Bool:
		if text := v.Text(); text != "" {
			return text, nil
		}
		return "", fmt.Errorf("${%s} is empty, which cannot be inserted into text", r.name)
	default:
		return "", fmt.Errorf("${%s} is %s, which cannot be inserted into text", r.name, v.Kind())
	}
}

// render inserts values as text.
func (t template) render(op *Operation, escape func(string) string) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.ref != nil {
			inserted, err := p.ref.text(op)
			if err != nil {
				return "", err
			}
			text = escape(inserted)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// renderPath inserts values escaped for their place: as part of one path segment, or of the query after a "?".
func (t template) renderPath(op *Operation) (string, error) {
	var out strings.Builder
	query := false
	for _, p := range t.parts {
		text := p.text
		if p.ref != nil {
			inserted, err := p.ref.text(op)
			if err != nil {
				return "", err
			}
			if text = url.PathEscape(inserted); query {
				text = url.QueryEscape(inserted)
			} else if climbs(inserted) {
				return "", fmt.Errorf("${%s} has a path segment of dots in it, which servers that unescape before they route take to"+
					" another place", p.ref.name)
			}
		}
		query = query || strings.Contains(p.text, "?")
		out.WriteString(text)
	}
	path, _, _ := strings.Cut(out.String(), "?")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("a path segment became %q, which would lead to another place", segment)
		}
	}
	return out.String(), nil
}

// climbs reports whether a text has "." or ".." between slashes of either kind: escaped, it is one segment to us, and several to some.
func climbs(text string) bool {
	segments := strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' })
	return strings.ContainsAny(text, `/\`) && (slices.Contains(segments, ".") || slices.Contains(segments, ".."))
}

// node is a JSON body with templates in place of some strings.
type node struct {
	literal canonical.Value // where nothing below is a template
	text    *template
	kind    canonical.Kind // Array or Object where it has children
	names   []string
	nodes   []*node
}

func (c *compiler) node(where string, tree any) *node {
	switch t := tree.(type) {
	case string:
		text := c.template(where, t)
		return &node{text: &text}
	case map[string]any:
		n := &node{kind: canonical.Object}
		for name := range t {
			n.names = append(n.names, name)
		}
		slices.Sort(n.names)
		for _, name := range n.names {
			n.nodes = append(n.nodes, c.node(where+"."+name, t[name]))
		}
		return n
	case []any:
		n := &node{kind: canonical.Array}
		for i := range t {
			n.nodes = append(n.nodes, c.node(where+"."+strconv.Itoa(i), t[i]))
		}
		return n
	default:
		literal, err := canonical.FromAny(tree)
		c.check(err == nil, "%s: %v", where, err)
		return &node{literal: literal}
	}
}

func (n *node) render(op *Operation) (canonical.Value, error) {
	switch {
	case n.text != nil:
		return n.text.value(op)
	case n.kind == canonical.Array:
		items := make([]canonical.Value, len(n.nodes))
		for i := range n.nodes {
			var err error
			if items[i], err = n.nodes[i].render(op); err != nil {
				return canonical.Value{}, err
			}
		}
		return canonical.NewArray(items...), nil
	case n.kind == canonical.Object:
		members := make([]canonical.Member, len(n.nodes))
		for i := range n.nodes {
			v, err := n.nodes[i].render(op)
			if err != nil {
				return canonical.Value{}, err
			}
			members[i] = canonical.Member{Name: n.names[i], Value: v}
		}
		return canonical.NewObject(members...)
	}
	return n.literal, nil
}

// value is a JSON value: a lone reference gives what it leads to, anything else gives a string.
func (t template) value(op *Operation) (canonical.Value, error) {
	if len(t.parts) == 1 && t.parts[0].ref != nil {
		return t.parts[0].ref.value(op)
	}
	text, err := t.render(op, func(s string) string { return s })
	if err != nil {
		return canonical.Value{}, err
	}
	return canonical.NewString(text)
}
