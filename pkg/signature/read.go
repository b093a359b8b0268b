package signature

import (
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Headers of the schemes that have their own, as net/http spells them.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	headerStripe    = "Stripe-Signature"
	headerGitHub    = "X-Hub-Signature-256"
)

// said is what a delivery says of its signature, and is not to be believed before it was verified.
type said struct {
	id            string
	before, after string   // what is signed before and after the body
	sums          [][]byte // the signatures; one of them has to match
	stamped       bool     // whether there is a timestamp
	at            time.Time
}

// reader takes out of the headers what a scheme puts there.
type reader func(map[string][]string) (said, *Refusal)

func newReader(f Format) reader {
	switch f.Scheme {
	case StandardWebhooks:
		return readStandard
	case Stripe:
		return readStripe
	case GitHub:
		return readDeclared(Format{Header: headerGitHub, Encoding: Hex, Prefix: "sha256="})
	}
	return readDeclared(f)
}

// one is the value of a header that must be there once. Space around it is no part of it.
func one(headers map[string][]string, name string) (string, *Refusal) {
	values := headers[name]
	if len(values) > 1 {
		return "", refuse(Ambiguous, "The header %s is there %d times; send it once.", name, len(values))
	}
	if len(values) == 0 || strings.Trim(values[0], " \t") == "" {
		return "", refuse(Missing, "The header %s is missing.", name)
	}
	return strings.Trim(values[0], " \t"), nil
}

// longestSeconds is how many digits of a timestamp are read: enough for some thousand years.
const longestSeconds = 12

// seconds reads a timestamp: decimal digits and nothing else.
func seconds(text string) (time.Time, *Refusal) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > longestSeconds {
		return time.Time{}, refuse(Malformed, "The timestamp must be whole seconds since 1970, in digits.")
	}
	return time.Unix(int64(n), 0), nil
}

// readStandard reads the headers of Standard Webhooks. Signatures of versions other than v1 are not looked at.
func readStandard(headers map[string][]string) (said, *Refusal) {
	var values [3]string
	for i, name := range []string{headerID, headerTimestamp, headerSignature} {
		value, refusal := one(headers, name)
		if refusal != nil {
			return said{}, refusal
		}
		values[i] = value
	}
	at, refusal := seconds(values[1])
	if refusal != nil {
		return said{}, refusal
	}
	var sums [][]byte
	for text := range strings.FieldsSeq(values[2]) {
		if encoded, ok := strings.CutPrefix(text, "v1,"); ok {
			sums = appendSum(sums, Base64, encoded)
		}
	}
	if len(sums) == 0 {
		return said{}, refuse(Malformed, "The header %s has no signature of the form v1,BASE64.", headerSignature)
	}
	return said{id: values[0], before: values[0] + "." + values[1] + ".", sums: sums, stamped: true, at: at}, nil
}

// readStripe reads Stripe's header: pairs with commas between, of which t is there once and v1 at least once. Others,
// such as v0 of test events, are not looked at.
func readStripe(headers map[string][]string) (said, *Refusal) {
	value, refusal := one(headers, headerStripe)
	if refusal != nil {
		return said{}, refusal
	}
	var stamps []string
	var sums [][]byte
	for pair := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(pair), "=")
		switch name {
		case "t":
			stamps = append(stamps, text)
		case "v1":
			sums = appendSum(sums, Hex, text)
		}
	}
	if len(stamps) != 1 || len(sums) == 0 {
		return said{}, refuse(Malformed, "The header %s must have t=SECONDS once, and v1=HEX.", headerStripe)
	}
	at, refusal := seconds(stamps[0])
	if refusal != nil {
		return said{}, refusal
	}
	return said{before: stamps[0] + ".", sums: sums, stamped: true, at: at}, nil
}

// readDeclared reads one signature out of a header, and a timestamp out of another where one is declared.
func readDeclared(f Format) reader {
	name, stampName := textproto.CanonicalMIMEHeaderKey(f.Header), textproto.CanonicalMIMEHeaderKey(f.TimestampHeader)
	before, after, _ := strings.Cut(f.payload(), placeBody)
	return func(headers map[string][]string) (said, *Refusal) {
		value, refusal := one(headers, name)
		if refusal != nil {
			return said{}, refusal
		}
		text, prefixed := strings.CutPrefix(value, f.Prefix)
		sums := appendSum(nil, f.Encoding, text)
		if !prefixed || len(sums) == 0 {
			return said{}, refuse(Malformed, "The header %s must be %q and the signature in %s.", name, f.Prefix, f.Encoding)
		}
		s := said{before: before, after: after, sums: sums}
		if stampName == "" {
			return s, nil
		}
		stamp, refusal := one(headers, stampName)
		if refusal != nil {
			return said{}, refusal
		}
		if s.at, refusal = seconds(stamp); refusal != nil {
			return said{}, refusal
		}
		s.stamped = true
		s.before = strings.ReplaceAll(before, placeTimestamp, stamp)
		s.after = strings.ReplaceAll(after, placeTimestamp, stamp)
		return s, nil
	}
}

// appendSum leaves out what cannot be read: another signature may still match.
func appendSum(sums [][]byte, encoding, text string) [][]byte {
	if sum, err := decode(encoding, text); err == nil && len(sum) > 0 {
		return append(sums, sum)
	}
	return sums
}
