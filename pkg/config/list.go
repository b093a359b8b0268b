package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// object is nil where the member is absent, or no mapping.
func (o *object) object(name string) *object {
	node := o.take(name)
	if node == nil {
		return nil
	}
	return newObject(o.problems, o.pos.File, node)
}

// needObject is never nil: where the member is missing, an empty object lets its own members be reported.
func (o *object) needObject(name string) *object {
	inner := o.object(name)
	if inner == nil {
		if o.take(name) == nil {
			o.fail(name, "is missing")
		}
		inner = &object{problems: new(problems), pos: o.pos} // the complaint stands; do not add to it
	}
	return inner
}

func (o *object) items(name string) []ast.Node {
	node := o.take(name)
	if node == nil {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		o.fail(name, "must be a list, found %s", describe(node))
		return nil
	}
	return list.Values
}

// objects reads a list of mappings.
func (o *object) objects(name string) []*object {
	var list []*object
	for _, node := range o.items(name) {
		if inner := newObject(o.problems, o.pos.File, node); inner != nil {
			list = append(list, inner)
		}
	}
	return list
}

// texts reads a list of different texts.
func (o *object) texts(name string, check func(at Position, text string)) []string {
	var list []string
	seen := map[string]bool{}
	for i, node := range o.items(name) {
		at := position(o.pos.File, node)
		text, ok := textOf(node)
		switch {
		case !ok || text == "":
			o.problems.add(at, "%s[%d] must be a text, found %s", name, i, describe(node))
			continue
		case seen[text]:
			o.problems.add(at, "%s[%d] repeats %s", name, i, quote(text))
			continue
		}
		seen[text] = true
		if check != nil {
			check(at, text)
		}
		list = append(list, text)
	}
	return list
}

// choices reads a list of different texts from a closed list.
func (o *object) choices(name string, allowed []string) []string {
	return o.texts(name, func(at Position, text string) {
		if !slices.Contains(allowed, text) {
			o.problems.add(at, "%s has %s, allowed: %s", name, quote(text), strings.Join(allowed, ", "))
		}
	})
}

// statuses reads a list of HTTP statuses between low and high.
func (o *object) statuses(name string, low, high int) []int {
	var list []int
	for i, node := range o.items(name) {
		n, err := strconv.Atoi(node.GetToken().Value)
		if _, whole := node.(*ast.IntegerNode); !whole || err != nil || n < low || n > high {
			o.problems.add(position(o.pos.File, node), "%s[%d] must be an HTTP status from %d to %d, found %s",
				name, i, low, high, describe(node))
			continue
		}
		list = append(list, n)
	}
	return list
}

// pointer is a JSON pointer to something inside a document; "" where the member is absent.
func (o *object) pointer(name string) string {
	text := o.optText(name)
	if o.take(name) != nil {
		o.checkPointer(o.at(name), name, text)
	}
	return text
}

// wholePointer is a pointer that may be empty, which means the whole; nil where the member is absent.
func (o *object) wholePointer(name string) *string {
	if o.take(name) == nil {
		return nil
	}
	text := o.optText(name)
	if text != "" {
		o.checkPointer(o.at(name), name, text)
	}
	return &text
}

// pointerMap reads a mapping of pointers to pointers.
func (o *object) pointerMap(name string) map[string]string {
	inner := o.object(name)
	if inner == nil {
		return nil
	}
	pairs := make(map[string]string, len(inner.members))
	for _, m := range inner.members {
		inner.checkPointer(m.pos, name, m.name)
		pairs[m.name] = inner.pointer(m.name)
		if inner.take(m.name) == nil {
			inner.fail(m.name, "is missing; it must be a JSON pointer such as /customer/id")
		}
	}
	return pairs
}

func (o *object) pointers(name string) []string {
	return o.texts(name, func(at Position, text string) { o.checkPointer(at, name, text) })
}

func (o *object) checkPointer(at Position, name, text string) {
	if text == "" {
		o.problems.add(at, "%s must be a JSON pointer such as /customer/id; leave it out to mean the whole", name)
		return
	}
	if _, err := canonical.SplitPointer(text); err != nil {
		o.problems.add(at, "%s is %s, which is no JSON pointer such as /customer/id: %v", name, quote(text), err)
	}
}
