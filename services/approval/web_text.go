package approval

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestShown is how many characters of one value are shown unless the person asks for all of it.
const longestShown = 4000

// Runs of blanks that could push something out of sight are counted out loud.
const (
	manyBlanks = 24
	manyBreaks = 4
)

// eye looks at every text that comes from elsewhere before it is shown, and counts what a person could not see or could misread
// (APR-13). The hash is over the raw text; only what is shown has the marks.
type eye struct {
	Full   bool // values are shown whole, however long
	Hidden int  // characters that cannot be seen, or that reorder others
	Mixed  int  // words of Latin and look-alike letters
	Cut    int  // values of which only the beginning is shown
}

// Clear reports whether there is nothing to warn of.
func (e *eye) Clear() bool { return e == nil || e.Hidden+e.Mixed+e.Cut == 0 }

// Show is the text, escaped, with a visible mark such as ⟦U+202E⟧ in the place of each character that could deceive.
func (e *eye) Show(text string) template.HTML {
	var out strings.Builder
	rest := ""
	if n := utf8.RuneCountInString(text); n > longestShown && !e.Full {
		e.Cut++
		text = string([]rune(text)[:longestShown])
		rest = fmt.Sprintf("cut: the first %d of %d characters are shown", longestShown, n)
	}
	for text != "" {
		text = text[e.next(&out, text):]
	}
	if rest != "" {
		mark(&out, rest)
	}
	return template.HTML(out.String()) //nolint:gosec // every part was escaped by next and mark
}

// next shows the beginning of a text and returns how many bytes of it that was.
func (e *eye) next(out *strings.Builder, text string) int {
	if n, shown := e.blanks(out, text); shown {
		return n
	}
	if word := wordAt(text); word != "" && e.mixed(word) {
		e.Mixed++
		showMixed(out, word)
		return len(word)
	} else if word != "" {
		out.WriteString(template.HTMLEscapeString(word))
		return len(word)
	}
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && n == 1:
		e.Hidden++
		mark(out, fmt.Sprintf("byte 0x%02X", text[0]))
	case unseen(r):
		e.Hidden++
		mark(out, fmt.Sprintf("U+%04X", r))
	default:
		out.WriteString(template.HTMLEscapeString(text[:n]))
	}
	return n
}

// blanks shows a run of blanks or line breaks: as it is where it is short, counted where it is long.
func (e *eye) blanks(out *strings.Builder, text string) (int, bool) {
	run := len(text) - len(strings.TrimLeft(text, " \t"))
	if breaks := len(text) - len(strings.TrimLeft(text, "\n")); breaks >= manyBreaks {
		e.Hidden++
		mark(out, fmt.Sprintf("%d line breaks", breaks))
		out.WriteByte('\n')
		return breaks, true
	}
	if run >= manyBlanks {
		e.Hidden++
		mark(out, fmt.Sprintf("%d blanks", run))
		return run, true
	}
	out.WriteString(text[:run])
	return run, run > 0
}

func mark(out *strings.Builder, what string) {
	out.WriteString(`<span class="mark">⟦` + template.HTMLEscapeString(what) + `⟧</span>`)
}

// unseen reports whether a character is not seen, or moves others: control and format characters (bidirectional, zero-width, tags),
// variation selectors, blanks but the usual one, fillers, and code points that mean nothing.
func unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == ' ':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Zs,
		unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point):
		return true
	}
	return r == 0x2800 || !unicode.IsGraphic(r) // the empty Braille pattern; unassigned code points
}

// wordAt is the word at the beginning of a text: letters and digits, and what holds domains and addresses together.
func wordAt(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_@", r)
	})
	if end < 0 {
		return strings.ToValidUTF8(text, "")[:validLen(text)]
	}
	return text[:min(end, validLen(text))]
}

// validLen is how many bytes at the beginning are sound and visible.
func validLen(text string) int {
	for i, r := range text {
		if r == utf8.RuneError || unseen(r) {
			return i
		}
	}
	return len(text)
}

// mixed reports whether a word has Latin letters and ones of a script with look-alikes.
func (e *eye) mixed(word string) bool {
	latin := strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	return latin && strings.ContainsFunc(word, lookAlike)
}

func lookAlike(r rune) bool {
	return unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee) && unicode.IsLetter(r)
}

// showMixed names the letters that are not Latin.
func showMixed(out *strings.Builder, word string) {
	for _, r := range word {
		out.WriteString(template.HTMLEscapeString(string(r)))
		if lookAlike(r) {
			mark(out, fmt.Sprintf("U+%04X", r))
		}
	}
}
