package config

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// place is a line and a column, both from 1 and the column in code points, as editors count.
type place struct{ line, column int32 }

// placesOf finds where in the file every code point of a text stands, and the end of it, whichever of YAML's styles it
// is written in: plain, quoted, literal or folded. It is nil where text and file cannot be brought together; then only
// the place of the whole is known.
func (o *object) placesOf(name, text string, file []byte) []place {
	node := o.take(name)
	if node == nil || text == "" || file == nil {
		return nil
	}
	start := o.at(name)
	s := scalarReader{rest: []rune(string(file)), at: place{1, 1}}
	for s.at.line < int32(start.Line) || s.at.line == int32(start.Line) && s.at.column < int32(start.Column) {
		if !s.skip() {
			return nil
		}
	}
	if _, block := node.(*ast.LiteralNode); block {
		for len(s.rest) > 0 && s.rest[0] != '\n' { // the text begins below | or >
			s.skip()
		}
	} else if len(s.rest) > 0 && (s.rest[0] == '"' || s.rest[0] == '\'') {
		s.quote = s.rest[0]
		s.skip()
	}
	places := make([]place, 0, utf8.RuneCountInString(text)+1)
	for _, wanted := range text {
		at, ok := s.find(wanted)
		if !ok {
			return nil
		}
		places = append(places, at)
	}
	return append(places, s.at)
}

// scalarReader walks through the source of a text that is known already, so that it needs to know little of YAML: what
// is folded, indented or escaped is space or begins with a backslash, and anything unexpected ends the walk.
type scalarReader struct {
	rest  []rune
	at    place
	quote rune // " or ', 0 outside of quotes
}

func (s *scalarReader) skip() bool {
	if len(s.rest) == 0 {
		return false
	}
	if s.rest[0] == '\n' {
		s.at = place{s.at.line + 1, 1}
	} else {
		s.at.column++
	}
	s.rest = s.rest[1:]
	return true
}

// find gives the place of the next code point of the text.
func (s *scalarReader) find(wanted rune) (place, bool) {
	if !unicode.IsSpace(wanted) || len(s.rest) > 0 && s.rest[0] == '\n' {
		at := s.at
		for s.blank() {
			s.skip()
		}
		if unicode.IsSpace(wanted) {
			return at, true // a line that was folded, with the indentation of the next
		}
	}
	at := s.at
	if len(s.rest) == 0 {
		return at, false
	}
	switch {
	case s.quote == '"' && s.rest[0] == '\\':
		return at, s.escaped(wanted)
	case s.quote == '\'' && wanted == '\'' && s.rest[0] == '\'':
		s.skip()
	case unicode.IsSpace(wanted) && !unicode.IsSpace(s.rest[0]):
		return at, true // of an indentation that was skipped with its line
	}
	found := len(s.rest) > 0 && (s.rest[0] == wanted || unicode.IsSpace(wanted))
	s.skip()
	return at, found
}

// blank reports whether what comes next is layout: space, or in double quotes a line that goes on below.
func (s *scalarReader) blank() bool {
	if len(s.rest) == 0 {
		return false
	}
	if s.quote == '"' && len(s.rest) > 1 && s.rest[0] == '\\' && s.rest[1] == '\n' {
		return true
	}
	return unicode.IsSpace(s.rest[0])
}

// escapes are those of YAML 1.2.2, section 5.7, that stand for one code point and are no code.
var escapes = map[rune]rune{'0': 0, 'a': 7, 'b': 8, 't': 9, 'n': 10, 'v': 11, 'f': 12, 'r': 13, 'e': 27, ' ': ' ',
	'"': '"', '/': '/', '\\': '\\', 'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029, '\t': '\t'}

func (s *scalarReader) escaped(wanted rune) bool {
	s.skip()
	if len(s.rest) == 0 {
		return false
	}
	kind := s.rest[0]
	s.skip()
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[kind]
	if digits == 0 {
		stands, known := escapes[kind]
		return known && stands == wanted
	}
	value := rune(0)
	for range digits {
		if len(s.rest) == 0 {
			return false
		}
		digit := strings.IndexRune("0123456789abcdef", unicode.ToLower(s.rest[0]))
		if digit < 0 {
			return false
		}
		value = value<<4 + rune(digit)
		s.skip()
	}
	return value == wanted
}

// At is where a place of the condition stands in its file: the line of the condition from 1, and the column from 0 in
// code points, as CEL counts them. It is Pos where that is not known.
func (r *Rule) At(line, column int) Position {
	offset, rest := 0, r.When
	for ; line > 1; line-- {
		before, after, more := strings.Cut(rest, "\n")
		if !more {
			return r.Pos
		}
		offset += utf8.RuneCountInString(before) + 1
		rest = after
	}
	if offset += column; offset < 0 || offset >= len(r.places) {
		return r.Pos
	}
	at := r.places[offset]
	return Position{r.Pos.File, int(at.line), int(at.column)}
}
