package canonical

import (
	"fmt"
	"strconv"
)

const reasonNumber = "malformed number"

var (
	reasonDigits   = fmt.Sprintf("a number has more than %d digits", MaxDigits)
	reasonExponent = fmt.Sprintf("a number's exponent is outside %d to %d", MinExponent, MaxExponent)
)

// number reads the number at the current position and gives its canonical text.
func (p *parser) number() (string, *Error) {
	n, reason := scanNumber(p.src[p.pos:])
	if reason != "" {
		return "", p.fail(reason)
	}
	text, reason := n.canonical(p.src[p.pos : p.pos+n.size])
	if reason != "" {
		return "", p.fail(reason)
	}
	p.pos += n.size
	return text, nil
}

// literal is what one look at a number's text finds.
type literal struct {
	size     int // bytes of text
	negative bool
	whole    int  // digits before the point
	fraction int  // digits after it
	written  bool // an exponent is written
	exponent int  // the exponent as written
}

// scanNumber reads a number of RFC 8259's grammar at the start of s, no further than the limits allow.
func scanNumber(s string) (n literal, reason string) {
	if s != "" && s[0] == '-' {
		n.negative = true
		n.size++
	}
	first := n.size
	n.whole = n.digits(s)
	if n.whole == 0 || (n.whole > 1 && s[first] == '0') {
		return n, reasonNumber
	}
	if n.size < len(s) && s[n.size] == '.' {
		n.size++
		if n.fraction = n.digits(s); n.fraction == 0 {
			return n, reasonNumber
		}
	}
	if n.whole+n.fraction > MaxDigits {
		return n, reasonDigits
	}
	if n.size < len(s) && s[n.size]|0x20 == 'e' {
		return n, n.readExponent(s)
	}
	return n, ""
}

// digits counts digits from the current size on, and stops soon after there are too many.
func (n *literal) digits(s string) int {
	from := n.size
	for n.size < len(s) && n.size-from <= MaxDigits && s[n.size] >= '0' && s[n.size] <= '9' {
		n.size++
	}
	return n.size - from
}

func (n *literal) readExponent(s string) (reason string) {
	n.written = true
	n.size++
	sign := 1
	if n.size < len(s) && (s[n.size] == '+' || s[n.size] == '-') {
		if s[n.size] == '-' {
			sign = -1
		}
		n.size++
	}
	from := n.size
	for ; n.size < len(s) && s[n.size] >= '0' && s[n.size] <= '9'; n.size++ {
		n.exponent = n.exponent*10 + int(s[n.size]-'0')
		if n.size-from >= maxExponentDigits || n.exponent > maxWrittenExponent {
			return reasonExponent
		}
	}
	if n.size == from {
		return reasonNumber
	}
	n.exponent *= sign
	return ""
}

// canonical gives the canonical form of the text that was scanned. Text that is canonical as it stands is not copied.
func (n literal) canonical(text string) (form, reason string) {
	if n.asWritten(text) {
		return text, ""
	}
	d := n.decimal(text)
	if d.count > 0 && (d.point-1 > MaxExponent || d.point-1 < MinExponent) {
		return "", reasonExponent
	}
	var room [MaxDigits + 16]byte
	return string(d.append(room[:0])), ""
}

// asWritten recognises the common plain forms that are canonical already; it may say no to others.
func (n literal) asWritten(text string) bool {
	if n.written || n.whole > maxPlain {
		return false
	}
	if n.negative {
		text = text[1:]
	}
	if n.fraction == 0 {
		return text[0] != '0' || !n.negative
	}
	// Without trailing zeros, so few digits after "0." cannot all be zeros, nor too many of them leading ones.
	return text[len(text)-1] != '0' && (text[0] != '0' || n.fraction <= maxPlainZeros+1)
}

// decimal is ±0.d₁…dₖ × 10^point, with neither leading nor trailing zeros; no digits at all is zero.
type decimal struct {
	negative bool
	digits   [MaxDigits]byte
	count    int
	point    int
}

func (n literal) decimal(text string) (d decimal) {
	d.negative = n.negative
	d.point = n.whole + n.exponent
	seen := 0
	for i := 0; seen < n.whole+n.fraction; i++ {
		c := text[i]
		if c < '0' || c > '9' {
			continue
		}
		seen++
		if c == '0' && d.count == 0 {
			d.point--
			continue
		}
		d.digits[d.count] = c
		d.count++
	}
	for d.count > 0 && d.digits[d.count-1] == '0' {
		d.count--
	}
	return d
}

const (
	maxPlain      = 21 // ECMAScript's Number::toString writes no exponent up to this many digits before the point
	maxPlainZeros = 5  // nor with up to this many zeros after it
	maxDouble     = 17 // digits that the shortest form of a double can have
)

// append writes the number by the table in the package's documentation.
func (d *decimal) append(dst []byte) []byte {
	if d.count == 0 {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	digits := d.digits[:d.count]
	ceiling := maxPlain
	if d.count > maxDouble {
		ceiling = MaxDigits
	}
	switch {
	case d.point > ceiling || d.point < -maxPlainZeros:
		return appendScientific(dst, digits, d.point-1)
	case d.point <= 0:
		dst = append(dst, '0', '.')
		return append(appendZeros(dst, -d.point), digits...)
	case d.point >= d.count:
		return appendZeros(append(dst, digits...), d.point-d.count)
	default:
		dst = append(append(dst, digits[:d.point]...), '.')
		return append(dst, digits[d.point:]...)
	}
}

func appendScientific(dst, digits []byte, exponent int) []byte {
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	dst = append(dst, 'e')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(exponent), 10)
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
