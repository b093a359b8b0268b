package canonical

import (
	"fmt"
	"strconv"
	"strings"
)

// Selection picks the business fields of a document that its hash covers (K5). It is safe for concurrent use.
//
// Include names the parts to take, by JSON pointer; none at all is the whole document, so that fields nobody thought of
// are covered. Exclude then removes parts. A pointer that leads nowhere selects nothing, which is told apart from a null
// that is there. Included parts keep their place: the objects around them hold nothing else, and array items before them
// that were not asked for are null. Two documents therefore select the same value only when each included part is
// equal in both, or missing from both. An excluded array item is taken out, by its index in the original.
type Selection struct {
	include, exclude *branch
}

// branch is a tree of reference tokens.
type branch struct {
	whole bool
	next  map[string]*branch
}

// NewSelection checks the pointers. Excluding the whole document is refused, since then all documents would be alike.
func NewSelection(include, exclude []string) (*Selection, error) {
	in, err := newBranch(include)
	if err != nil {
		return nil, fmt.Errorf("included fields: %w", err)
	}
	out, err := newBranch(exclude)
	if err != nil {
		return nil, fmt.Errorf("excluded fields: %w", err)
	}
	if out != nil && out.whole {
		return nil, fmt.Errorf(`excluded fields: "" would exclude the whole document`)
	}
	return &Selection{include: in, exclude: out}, nil
}

// Select is NewSelection and Apply in one.
func Select(v Value, include, exclude []string) (Value, error) {
	s, err := NewSelection(include, exclude)
	if err != nil {
		return Value{}, err
	}
	return s.Apply(v), nil
}

// Apply selects from a document. Where nothing that is included exists, the result is an empty container of the
// document's kind.
func (s *Selection) Apply(v Value) Value {
	if s.include != nil {
		picked, found := s.include.pick(v)
		if !found {
			picked = Value{}
			if v.kind == Object || v.kind == Array {
				picked.kind = v.kind
			}
		}
		v = picked
	}
	if s.exclude != nil {
		v = s.exclude.remove(v)
	}
	return v
}

func newBranch(pointers []string) (*branch, error) {
	if len(pointers) == 0 {
		return nil, nil
	}
	root := new(branch)
	for _, pointer := range pointers {
		tokens, err := SplitPointer(pointer)
		if err != nil {
			return nil, err
		}
		root.grow(tokens)
	}
	return root, nil
}

// SplitPointer is the unescaped reference tokens of a JSON pointer (RFC 6901), or what is wrong with it.
func SplitPointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("the JSON pointer %q must begin with /", pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		rest := strings.ReplaceAll(strings.ReplaceAll(token, "~0", ""), "~1", "")
		if strings.Contains(rest, "~") {
			return nil, fmt.Errorf("the JSON pointer %q has a ~ that is neither ~0 nor ~1", pointer)
		}
		tokens[i] = unescapeToken(token)
	}
	return tokens, nil
}

func (b *branch) grow(tokens []string) {
	for _, token := range tokens {
		if b.next == nil {
			b.next = make(map[string]*branch)
		}
		if b.next[token] == nil {
			b.next[token] = new(branch)
		}
		b = b.next[token]
	}
	b.whole = true
}

func (b *branch) pick(v Value) (Value, bool) {
	switch {
	case b.whole:
		return v, true
	case v.kind == Object:
		return b.pickMembers(v)
	case v.kind == Array:
		return b.pickItems(v)
	}
	return Value{}, false
}

func (b *branch) pickMembers(v Value) (Value, bool) {
	list := make([]Member, 0, min(len(b.next), len(v.list)))
	for _, m := range v.list {
		if next, wanted := b.next[m.Name]; wanted {
			if picked, found := next.pick(m.Value); found {
				list = append(list, Member{Name: m.Name, Value: picked})
			}
		}
	}
	return Value{kind: Object, list: list}, len(list) > 0
}

func (b *branch) pickItems(v Value) (Value, bool) {
	var list []Member
	for i := range v.list {
		if next, wanted := b.next[strconv.Itoa(i)]; wanted {
			if picked, found := next.pick(v.list[i].Value); found {
				list = append(list, make([]Member, i-len(list))...)
				list = append(list, Member{Value: picked})
			}
		}
	}
	return Value{kind: Array, list: list}, len(list) > 0
}

func (b *branch) remove(v Value) Value {
	if v.kind != Object && v.kind != Array {
		return v
	}
	list := make([]Member, 0, len(v.list))
	for i, m := range v.list {
		token := m.Name
		if v.kind == Array {
			token = strconv.Itoa(i)
		}
		next, named := b.next[token]
		if named && next.whole {
			continue
		}
		if named {
			m.Value = next.remove(m.Value)
		}
		list = append(list, m)
	}
	return Value{kind: v.kind, list: list}
}
