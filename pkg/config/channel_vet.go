package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// messageFuncs are the functions of a message's template. printf, range, variables and templates within templates are left out: without
// them a template ends soon, says no more than the fields and its own words, and every field that it could ever take is seen when it
// is loaded, whichever branch it stands in.
var messageFuncs = []string{"and", "or", "not", "eq", "ne"}

// vetMessage finds the first thing in a text that a message's template may not have, with the offset in bytes at which it stands.
func vetMessage(text string, allowed []string) (offset int, err error) {
	parsed, err := template.New("message").Parse(text)
	if err != nil {
		_, says, _ := strings.Cut(strings.TrimPrefix(err.Error(), "template: message:"), ": ")
		return lineOffset(text, templateLine(err)), fmt.Errorf("cannot be read: %s", says)
	}
	if len(parsed.Templates()) > 1 {
		return 0, errors.New("must be one template: define and block are not for messages")
	}
	v := vet{allowed: allowed}
	if parsed.Tree != nil { // nil where nothing is in it
		v.node(parsed.Root)
	}
	return v.offset, v.err
}

// lineOffset is where a line begins, counted from 1.
func lineOffset(text string, line int) (offset int) {
	for ; line > 1; line-- {
		i := strings.IndexByte(text[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	return offset
}

// vet walks through a template until it finds something to complain of.
type vet struct {
	allowed []string
	offset  int
	err     error
}

func (v *vet) refuse(n parse.Node, format string, args ...any) {
	if v.err == nil {
		v.offset, v.err = int(n.Position()), fmt.Errorf(format, args...)
	}
}

func (v *vet) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, inner := range n.Nodes {
			v.node(inner)
		}
	case *parse.TextNode, *parse.CommentNode, *parse.StringNode:
	case *parse.ActionNode:
		v.node(n.Pipe)
	case *parse.IfNode:
		v.node(n.Pipe)
		v.node(n.List)
		if n.ElseList != nil {
			v.node(n.ElseList)
		}
	case *parse.PipeNode:
		v.pipe(n)
	case *parse.FieldNode:
		if len(n.Ident) != 1 || !slices.Contains(v.allowed, n.Ident[0]) {
			v.refuse(n, "takes {{%s}}, which a message has not; allowed here: .%s", n, strings.Join(v.allowed, ", ."))
		}
	case *parse.IdentifierNode:
		if !slices.Contains(messageFuncs, n.Ident) {
			v.refuse(n, "uses %s; allowed: %s", n.Ident, strings.Join(messageFuncs, ", "))
		}
	default:
		v.refuse(n, "has %s, which is not for messages; it may use fields, texts, if, else and end, and the functions %s", n, strings.Join(messageFuncs, ", "))
	}
}

func (v *vet) pipe(n *parse.PipeNode) {
	if len(n.Decl) > 0 {
		v.refuse(n, "declares a variable, which is not for messages")
	}
	for _, command := range n.Cmds {
		for _, argument := range command.Args {
			v.node(argument)
		}
	}
}
