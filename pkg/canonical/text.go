package canonical

import (
	"cmp"
	"unicode/utf16"
	"unicode/utf8"
)

// compareNames orders member names by UTF-16 code units (RFC 8785, section 3.2.3). Over UTF-8 this is the order of bytes
// except that U+E000 to U+FFFF (lead bytes EE and EF) come after the surrogate pairs of all later planes (F0 to F4).
func compareNames(a, b string) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}

// plain says which bytes stand for themselves inside a JSON string.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

// appendText writes a string as RFC 8785, section 3.2.2.2 says: the short escapes, \u00xx for other controls, and all
// else as it is.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		if plain[s[i]] {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, s[i])
		from = i + 1
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// checkText reports what makes a string built in memory unacceptable, or "".
func checkText(s string) string {
	for i := range len(s) {
		if s[i] == 0 {
			return reasonNUL
		}
	}
	if !utf8.ValidString(s) {
		return reasonUTF8
	}
	return ""
}

const (
	reasonNUL       = "the character U+0000 is not allowed"
	reasonUTF8      = "invalid UTF-8"
	reasonSurrogate = "a lone surrogate is not allowed"
	reasonControl   = "control characters must be escaped"
	reasonEscape    = "unknown or incomplete escape sequence"
	reasonUnclosed  = "a string is not closed"
)

// quoted reads the string at the current position, which is a quotation mark.
func (p *parser) quoted() (string, *Error) {
	p.pos++
	from := p.pos
	for p.pos < len(p.src) && plain[p.src[p.pos]] {
		p.pos++
	}
	if p.pos == len(p.src) {
		return "", p.fail(reasonUnclosed)
	}
	if p.src[p.pos] == '"' {
		s := p.src[from:p.pos]
		p.pos++
		return s, p.checkUTF8(from, s)
	}
	return p.quotedSlow(from)
}

// quotedSlow goes on at the first byte that does not stand for itself.
func (p *parser) quotedSlow(from int) (string, *Error) {
	start := from
	buf := p.text[:0]
	for {
		buf = append(buf, p.src[from:p.pos]...)
		if p.pos == len(p.src) {
			return "", p.fail(reasonUnclosed)
		}
		switch c := p.src[p.pos]; {
		case c == '"':
			raw := p.src[start:p.pos]
			p.pos++
			p.text = buf
			return string(buf), p.checkUTF8(start, raw)
		case c == '\\':
			var err *Error
			if buf, err = p.escape(buf); err != nil {
				return "", err
			}
		default:
			return "", p.fail(reasonControl)
		}
		from = p.pos
		for p.pos < len(p.src) && plain[p.src[p.pos]] {
			p.pos++
		}
	}
}

// checkUTF8 names the string that holds invalid UTF-8. The whole input was checked once, so this costs nothing where the
// input is valid.
func (p *parser) checkUTF8(from int, raw string) *Error {
	if p.valid {
		return nil
	}
	for i, r := range raw {
		if _, size := utf8.DecodeRuneInString(raw[i:]); r == utf8.RuneError && size == 1 {
			return p.failAt(from+i, reasonUTF8)
		}
	}
	return nil
}

// escape decodes one escape sequence at the current position.
func (p *parser) escape(dst []byte) ([]byte, *Error) {
	if p.pos+1 >= len(p.src) {
		return dst, p.fail(reasonEscape)
	}
	c := p.src[p.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 't':
		c = '\t'
	case 'n':
		c = '\n'
	case 'f':
		c = '\f'
	case 'r':
		c = '\r'
	case 'u':
		return p.unicodeEscape(dst)
	default:
		return dst, p.fail(reasonEscape)
	}
	p.pos += 2
	return append(dst, c), nil
}

func (p *parser) unicodeEscape(dst []byte) ([]byte, *Error) {
	r := p.hex4(p.pos)
	switch {
	case r < 0:
		return dst, p.fail(reasonEscape)
	case r == 0:
		return dst, p.fail(reasonNUL)
	case !utf16.IsSurrogate(r):
		p.pos += 6
		return utf8.AppendRune(dst, r), nil
	}
	pair := utf16.DecodeRune(r, p.hex4(p.pos+6))
	if pair == utf8.RuneError {
		return dst, p.fail(reasonSurrogate)
	}
	p.pos += 12
	return utf8.AppendRune(dst, pair), nil
}

// hex4 reads \uXXXX at a position; -1 where there is none.
func (p *parser) hex4(at int) rune {
	if at+6 > len(p.src) || p.src[at] != '\\' || p.src[at+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range []byte(p.src[at+2 : at+6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
