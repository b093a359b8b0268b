package config

import (
	"strconv"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Document is a value with what schemas are checked against, converted once for all the schemas that look at it or at a
// part of it.
type Document struct {
	canonical.Value

	tree any
}

// NewDocument converts a value.
func NewDocument(v canonical.Value) Document { return Document{v, v.Any()} }

// At is the part that a JSON pointer (RFC 6901) leads to; "" is the document itself. It is false where nothing is there
// or the pointer is malformed.
func (d Document) At(pointer string) (Document, bool) {
	value, found := d.Pointer(pointer)
	tokens, err := canonical.SplitPointer(pointer)
	if !found || err != nil {
		return Document{}, false
	}
	tree := d.tree
	for _, token := range tokens { // the path exists, so every step does
		switch around := tree.(type) {
		case map[string]any:
			tree = around[token]
		case []any:
			i, _ := strconv.Atoi(token)
			tree = around[i]
		}
	}
	return Document{value, tree}, true
}
