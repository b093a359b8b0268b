package main

import (
	"bytes"
	"strings"
	"time"
)

// Holes of a template.
const (
	digitsHole = "########"
	runHole    = "@run@"
	timeHole   = "@time@"
)

// maxKeys is how many keys fit into digitsHole.
const maxKeys = 100_000_000

// template is text in which only the digits of a key differ, so that rendering is one copy and a few patches, the
// length never changes, and all copies of a key are byte-identical.
type template struct {
	text  []byte
	holes []int // offsets of digitsHole
}

func newTemplate(text, run string, started time.Time) *template {
	text = strings.NewReplacer(runHole, run, timeHole, started.UTC().Format(time.RFC3339Nano)).Replace(text)
	t := &template{text: []byte(text)}
	for at := 0; ; at += len(digitsHole) {
		next := bytes.Index(t.text[at:], []byte(digitsHole))
		if next < 0 {
			return t
		}
		at += next
		t.holes = append(t.holes, at)
	}
}

// render overwrites dst with the text for one key and returns it, reusing its memory.
func (t *template) render(dst []byte, key int) []byte {
	dst = append(dst[:0], t.text...)
	var digits [len(digitsHole)]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + key%10)
		key /= 10
	}
	for _, at := range t.holes {
		copy(dst[at:], digits[:])
	}
	return dst
}
