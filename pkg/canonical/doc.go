// Package canonical reads JSON strictly and writes it in one canonical form, so that a payload, an intent or a request
// has exactly one sequence of bytes and one hash (K5).
//
// The form is RFC 8785 (JSON Canonicalization Scheme) with one difference: numbers keep their exact decimal value.
// Equal decimals give equal bytes (1, 1.0, 10E-1), different ones never do, also beyond 2^53, where RFC 8785 would merge
// neighbouring account numbers. Text is compared by code points without Unicode normalisation, array order is kept, and
// members are ordered by the UTF-16 code units of their names (RFC 8785, section 3.2.3).
//
// # Numbers
//
// A number is d₁…dₖ × 10ⁿ⁻ᵏ with neither leading nor trailing zeros among its k digits, so n is the position of the
// decimal point. It is written by the rules of ECMAScript's Number::toString, over the exact digits:
//
//	value             written                      when
//	0, -0, 0.0e5      0
//	-1200             -1200                        k ≤ n ≤ 21
//	12.50             12.5                         0 < n ≤ 21, n < k
//	0.0000010         0.000001                     -6 < n ≤ 0
//	1e21, 12e-8       1e+21, 1.2e-7                otherwise
//
// With more than 17 digits the ceiling of 21 is lifted: no double prints more than 17, so nothing that RFC 8785 can
// write differs, and a long integer stays the digit string that people know it by. Wherever the RFC's double has the
// exact value of the input, both forms are therefore the same text.
//
// # Refusals
//
// What cannot be kept faithfully is refused, never repaired: repeated member names, invalid UTF-8, lone surrogates,
// U+0000, trailing data, a byte order mark, anything outside RFC 8259's grammar, nesting beyond [MaxDepth], and numbers
// beyond [MaxDigits], [MinExponent] or [MaxExponent]. Reading is one pass; a refused number costs no memory, because
// nothing is expanded before its limits are known.
package canonical

// Limits of what is accepted. The exponents are those of doubles: every finite double fits, and so does every plain
// integer a double can hold (309 digits).
const (
	// MaxDepth is how deep arrays and objects may nest.
	MaxDepth = 128
	// MaxDigits is how many digits a number may be written with, zeros included, its exponent apart.
	MaxDigits = 400
	// MaxExponent is the largest decimal exponent of a number in scientific notation.
	MaxExponent = 308
	// MinExponent is the smallest decimal exponent of a number in scientific notation.
	MinExponent = -324
	// maxExponentDigits bounds how an exponent may be written, leading zeros included.
	maxExponentDigits = 10
	// maxWrittenExponent bounds the exponent as it is written, before the digits shift it.
	maxWrittenExponent = 1000
)
