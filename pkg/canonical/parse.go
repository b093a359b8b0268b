package canonical

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Parse reads one JSON document. Its error is an *Error.
func Parse(data []byte) (Value, error) {
	src := string(data)
	work := scratches.Get().(*scratch)
	defer work.release()
	p := parser{src: src, valid: utf8.ValidString(src), scratch: work}
	v, err := p.document()
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// Canonical is the canonical form of one JSON document. Its error is an *Error.
func Canonical(data []byte) ([]byte, error) {
	v, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return v.AppendCanonical(make([]byte, 0, len(data))), nil
}

// parser holds one pass over a document. Strings and numbers that are written canonically are slices of src.
type parser struct {
	src   string
	pos   int
	valid bool // src is valid UTF-8 throughout
	depth int
	slab  []Member // what is left of the newest chunk for finished containers
	*scratch
}

// scratch is working memory that survives between documents.
type scratch struct {
	open   []Member // entries of containers that are not closed yet
	starts []int    // where each entry of open began
	text   []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release forgets the document, so that pooled memory keeps nothing of it alive, and lets go of unusually large memory.
func (s *scratch) release() {
	const keep = 4096
	if cap(s.open) > keep || cap(s.text) > 64*keep {
		return
	}
	clear(s.open[:cap(s.open)])
	s.open, s.starts, s.text = s.open[:0], s.starts[:0], s.text[:0]
	scratches.Put(s)
}

func (p *parser) fail(reason string) *Error { return p.failAt(p.pos, reason) }

func (p *parser) failAt(offset int, reason string) *Error {
	return &Error{Offset: offset, Reason: reason}
}

func (p *parser) document() (v Value, err *Error) {
	if strings.HasPrefix(p.src, "\ufeff") {
		return v, p.fail("a byte order mark is not allowed")
	}
	if p.skip(); p.pos == len(p.src) {
		return v, p.fail("the document is empty")
	}
	if v, err = p.value(); err != nil {
		return v, err
	}
	if p.skip(); p.pos < len(p.src) {
		return v, p.fail("more data follows the document")
	}
	return v, nil
}

// skip passes over white space.
func (p *parser) skip() {
	for p.pos < len(p.src) {
		if c := p.src[p.pos]; c > ' ' || (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
			return
		}
		p.pos++
	}
}

func (p *parser) value() (v Value, err *Error) {
	if p.pos == len(p.src) {
		return v, p.fail("the document ends where a value is expected")
	}
	switch c := p.src[p.pos]; c {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		v.kind = String
		v.text, err = p.quoted()
		return v, err
	case 't':
		return p.literal(Value{kind: Bool, text: "true"}, "true")
	case 'f':
		return p.literal(Value{kind: Bool, text: "false"}, "false")
	case 'n':
		return p.literal(Value{}, "null")
	default:
		if c != '-' && (c < '0' || c > '9') {
			return v, p.fail("a value is expected")
		}
		v.kind = Number
		v.text, err = p.number()
		return v, err
	}
}

func (p *parser) literal(v Value, word string) (Value, *Error) {
	if !strings.HasPrefix(p.src[p.pos:], word) {
		return Value{}, p.fail("a value is expected")
	}
	p.pos += len(word)
	return v, nil
}

// enter steps over an opening bracket; it reports whether the container is empty, and if so steps over its end too.
func (p *parser) enter(end byte) (empty bool, err *Error) {
	if p.depth == MaxDepth {
		return false, p.fail("nested too deeply, at most " + strconv.Itoa(MaxDepth) + " levels are allowed")
	}
	p.pos++
	p.skip()
	if p.pos < len(p.src) && p.src[p.pos] == end {
		p.pos++
		return true, nil
	}
	p.depth++
	return false, nil
}

// next steps over a comma, or over the end of the container.
func (p *parser) next(end byte, expected string) (done bool, err *Error) {
	p.skip()
	if p.pos == len(p.src) {
		return false, p.fail("the document ends inside an array or object")
	}
	switch p.src[p.pos] {
	case ',':
		p.pos++
		p.skip()
		return false, nil
	case end:
		p.pos++
		p.depth--
		return true, nil
	}
	return false, p.fail(expected)
}

func (p *parser) array() (Value, *Error) {
	if empty, err := p.enter(']'); empty || err != nil {
		return Value{kind: Array}, err
	}
	for base := len(p.open); ; {
		item, err := p.value()
		if err != nil {
			return Value{}, err.under(strconv.Itoa(len(p.open) - base))
		}
		p.open = append(p.open, Member{Value: item})
		p.starts = append(p.starts, 0)
		if done, err := p.next(']', "a comma or ] is expected"); err != nil {
			return Value{}, err
		} else if done {
			return Value{kind: Array, list: p.keep(base)}, nil
		}
	}
}

func (p *parser) object() (Value, *Error) {
	if empty, err := p.enter('}'); empty || err != nil {
		return Value{kind: Object}, err
	}
	for base := len(p.open); ; {
		start := p.pos
		name, value, err := p.member()
		if err != nil {
			return Value{}, err
		}
		p.open = append(p.open, Member{Name: name, Value: value})
		p.starts = append(p.starts, start)
		if done, err := p.next('}', "a comma or } is expected"); err != nil {
			return Value{}, err
		} else if done {
			return p.closeObject(base)
		}
	}
}

// closeObject takes the members above base as an object.
func (p *parser) closeObject(base int) (Value, *Error) {
	asWritten, starts := p.open[base:], p.starts[base:]
	list := p.keep(base)
	if repeated, found := order(list); found {
		return Value{}, p.repeated(asWritten, starts, repeated)
	}
	return Value{kind: Object, list: list}, nil
}

func (p *parser) member() (name string, value Value, err *Error) {
	if p.pos == len(p.src) || p.src[p.pos] != '"' {
		return "", value, p.fail("a member name in quotation marks is expected")
	}
	if name, err = p.quoted(); err != nil {
		return "", value, err
	}
	if p.skip(); p.pos == len(p.src) || p.src[p.pos] != ':' {
		return "", value, p.fail("a colon is expected").under(name)
	}
	p.pos++
	p.skip()
	if value, err = p.value(); err != nil {
		return "", value, err.under(name)
	}
	return name, value, nil
}

// keep moves the entries above base out of the working stack into memory of the result.
func (p *parser) keep(base int) []Member {
	n := len(p.open) - base
	if n > len(p.slab) {
		p.slab = make([]Member, max(n, p.chunk()))
	}
	list := p.slab[:n:n]
	p.slab = p.slab[n:]
	copy(list, p.open[base:])
	p.open, p.starts = p.open[:base], p.starts[:base]
	return list
}

// chunk estimates how many entries the next chunk should hold. Looking at no more than a stretch of the input bounds
// what a misleading document can make us allocate.
func (p *parser) chunk() int {
	head := p.src[:min(len(p.src), 4096)]
	entries := strings.Count(head, ",") + strings.Count(head, "{") + strings.Count(head, "[")
	return min(entries, 512)
}

// order sorts members canonically and finds a name that occurs twice.
func order(list []Member) (repeated string, found bool) {
	ordered := true
	for i := 1; i < len(list) && ordered; i++ {
		ordered = compareNames(list[i-1].Name, list[i].Name) < 0
	}
	if ordered {
		return "", false
	}
	slices.SortFunc(list, func(a, b Member) int { return compareNames(a.Name, b.Name) })
	for i := 1; i < len(list); i++ {
		if list[i-1].Name == list[i].Name {
			return list[i].Name, true
		}
	}
	return "", false
}

// repeated points at the second occurrence of a member name.
func (p *parser) repeated(members []Member, starts []int, name string) *Error {
	seen := false
	for i := range members {
		if members[i].Name != name {
			continue
		}
		if seen {
			return p.failAt(starts[i], "a member name is repeated").under(name)
		}
		seen = true
	}
	panic("canonical: a repeated name was found and then not found")
}
