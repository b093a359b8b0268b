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

// Runs of blanks that could push something out of sight, and piles of accents that could cover it, are counted out
// loud.
const (
	manyBlanks  = 24
	manyBreaks  = 4
	manyAccents = 4
)

// eye looks at every text that comes from elsewhere before it is shown, and counts what a person could not see or could
// misread (APR-13). The hash is over the raw text; only what is shown has the marks.
type eye struct {
	Full   bool // values are shown whole, however long
	Hidden int  // characters that cannot be seen, or that move or cover others
	Mixed  int  // words of Latin and look-alike letters
	Cut    int  // values of which only the beginning is shown

	plain bool // for mail and chat: no markup
}

// Clear reports whether there is nothing to warn of.
func (e *eye) Clear() bool { return e == nil || e.Hidden+e.Mixed+e.Cut == 0 }

// Show is the text, escaped, with a visible mark such as ⟦U+202E⟧ in the place of each character that could deceive.
// Its direction does not reach beyond it.
func (e *eye) Show(text string) template.HTML {
	return template.HTML("<bdi>" + e.marked(text) + "</bdi>") //nolint:gosec // marked has escaped every part
}

// plainly is the text with the same marks for a message, on one line.
func plainly(text string) string {
	return (&eye{plain: true}).marked(text)
}

func (e *eye) marked(text string) string {
	var out strings.Builder
	note := ""
	if n := utf8.RuneCountInString(text); n > longestShown && !e.Full {
		e.Cut++
		text = string([]rune(text)[:longestShown])
		note = fmt.Sprintf("cut: the first %d of %d characters are shown", longestShown, n)
	}
	for text != "" {
		text = text[e.next(&out, text):]
	}
	if note != "" {
		e.mark(&out, note)
	}
	return out.String()
}

// next shows the beginning of a text and returns how many bytes of it that was, at least one.
func (e *eye) next(out *strings.Builder, text string) int {
	if n := e.run(out, text); n > 0 {
		return n
	}
	if word := wordAt(text); word != "" {
		e.word(out, word)
		return len(word)
	}
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && n == 1:
		e.Hidden++
		e.mark(out, fmt.Sprintf("byte 0x%02X", text[0]))
	case unseen(r), r == '\n' && e.plain:
		e.Hidden++
		e.mark(out, fmt.Sprintf("U+%04X", r))
	default:
		out.WriteString(e.escaped(text[:n]))
	}
	return n
}

// run shows a long run of blanks, line breaks or accents as how many they are, and returns its bytes; 0 where there is
// none.
func (e *eye) run(out *strings.Builder, text string) int {
	for _, kind := range []struct {
		many int
		name string
		is   func(rune) bool
	}{
		{manyBlanks, "blanks", func(r rune) bool { return r == ' ' || r == '\t' }},
		{manyBreaks, "line breaks", func(r rune) bool { return r == '\n' }},
		{manyAccents, "combining characters", func(r rune) bool {
			return unicode.In(r, unicode.Mn,
				unicode.Me) && !unseen(r)
		}},
	} {
		rest := strings.TrimLeftFunc(text, kind.is)
		run := text[:len(text)-len(rest)]
		if n := utf8.RuneCountInString(run); n >= kind.many {
			e.Hidden++
			e.mark(out, fmt.Sprintf("%d %s", n, kind.name))
			return len(run)
		}
	}
	return 0
}

func (e *eye) mark(out *strings.Builder, what string) {
	if e.plain {
		out.WriteString("⟦" + what + "⟧")
		return
	}
	out.WriteString(`<span class="mark">⟦` + what + `⟧</span>`) // what is ours: a number and our words
}

func (e *eye) escaped(text string) string {
	if e.plain {
		return text
	}
	return template.HTMLEscapeString(text)
}

// unseen reports whether a character is not seen, or moves others: control and format characters (bidirectional,
// zero-width, tags), variation selectors, blanks but the usual one, fillers, and code points that mean nothing.
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
	for i, r := range text {
		inside := unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".-_@", r)
		if !inside || unseen(r) {
			return text[:i]
		}
	}
	return text
}

// word shows a word. One of Latin letters and of a script with look-alikes, as in a false domain, has its other letters
// named.
func (e *eye) word(out *strings.Builder, word string) {
	latin := strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	if !latin || !strings.ContainsFunc(word, lookAlike) {
		out.WriteString(e.escaped(word))
		return
	}
	e.Mixed++
	for _, r := range word {
		out.WriteString(e.escaped(string(r)))
		if lookAlike(r) {
			e.mark(out, fmt.Sprintf("U+%04X", r))
		}
	}
}

func lookAlike(r rune) bool {
	return unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee)
}
