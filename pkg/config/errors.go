package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Error is one thing that is wrong in one place: what it is, and what is allowed instead.
type Error struct {
	Pos Position
	Msg string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// String is file:line:column, as editors and terminals link it.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// problems collects everything that is wrong, so that an operator mends a directory in one go.
type problems struct{ list []*Error }

func (p *problems) add(at Position, format string, args ...any) {
	p.list = append(p.list, &Error{Pos: at, Msg: fmt.Sprintf(format, args...)})
}

// join is nil where nothing is wrong; else every *Error, in the order of the files.
func (p *problems) join() error {
	slices.SortStableFunc(p.list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	p.list = slices.CompactFunc(p.list, func(a, b *Error) bool { return *a == *b }) // one file can be named twice
	errs := make([]error, len(p.list))
	for i, e := range p.list {
		errs[i] = e
	}
	return errors.Join(errs...)
}
