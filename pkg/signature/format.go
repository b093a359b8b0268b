package signature

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"
)

// Schemes of a signature.
const (
	StandardWebhooks = "standard_webhooks"
	Stripe           = "stripe"
	GitHub           = "github"
	HMAC             = "hmac"
)

// Encodings of an HMAC.
const (
	Hex       = "hex"
	Base64    = "base64"
	Base64URL = "base64url" // with or without padding
)

// Algorithms of an HMAC.
const (
	SHA256 = "sha256"
	SHA512 = "sha512"
)

// The closed lists of a Format.
var (
	Schemes    = []string{StandardWebhooks, Stripe, GitHub, HMAC}
	Encodings  = []string{Hex, Base64, Base64URL}
	Algorithms = []string{SHA256, SHA512}
)

// DefaultTolerance is how far a timestamp may be off, as Standard Webhooks and Stripe have it.
const DefaultTolerance = 5 * time.Minute

// Format is how a sender signs.
type Format struct {
	Scheme    string
	Tolerance time.Duration // how far a timestamp may be off, in either direction; 0 is DefaultTolerance

	// The rest is for the scheme HMAC alone.

	Header          string // holds the signature
	Encoding        string // of the signature
	Prefix          string // what stands before the signature in its header, such as "sha256="; "" is nothing
	Algorithm       string // "" is SHA256
	TimestampHeader string // holds the timestamp, where there is one
	// Payload is the text that is signed: literal text around one {body}, and {timestamp} where TimestampHeader is set.
	// "" is {body}.
	Payload string
}

// IDHeader is the header whose id is signed with the body, so that nobody can change it on the way; "" where the scheme
// has none. No other header is a safe idempotency key of a signed source.
func (f *Format) IDHeader() string {
	if f.Scheme == StandardWebhooks {
		return headerID
	}
	return ""
}

// Stamped reports whether the scheme signs a timestamp, to which the tolerance applies.
func (f *Format) Stamped() bool {
	return f.Scheme == StandardWebhooks || f.Scheme == Stripe || f.Scheme == HMAC && f.TimestampHeader != ""
}

// check joins all that is wrong.
func (f *Format) check() error {
	var errs []error
	oneOf := func(name, value string, allowed []string) {
		if !slices.Contains(allowed, value) {
			errs = append(errs, fmt.Errorf("%s is %q, allowed: %s", name, value, strings.Join(allowed, ", ")))
		}
	}
	oneOf("scheme", f.Scheme, Schemes)
	if f.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("tolerance is %s, which must not be negative", f.Tolerance))
	}
	if f.Scheme == HMAC {
		oneOf("encoding", f.Encoding, Encodings)
		oneOf("algorithm", f.Algorithm, append([]string{""}, Algorithms...))
		if f.Header == "" {
			errs = append(errs, errors.New("header is missing; it names the header that holds the signature"))
		}
		if err := f.CheckPayload(); err != nil {
			errs = append(errs, fmt.Errorf("payload %w", err))
		}
	}
	return errors.Join(errs...)
}

// Places of what differs from delivery to delivery in a Format's Payload.
const (
	placeBody      = "{body}"
	placeTimestamp = "{timestamp}"
)

// CheckPayload says what is wrong with the text that is signed. A timestamp that is not signed proves nothing, so it is
// in both the text and a header, or in neither.
func (f *Format) CheckPayload() error {
	text := f.payload()
	literal := strings.NewReplacer(placeBody, "", placeTimestamp, "").Replace(text)
	stamped := strings.Contains(text, placeTimestamp)
	switch {
	case strings.Count(text, placeBody) != 1:
		return fmt.Errorf("is %q, which must have %s in it once", text, placeBody)
	case strings.ContainsAny(literal, "{}"):
		return fmt.Errorf("is %q, in which only %s and %s may stand in braces", text, placeBody, placeTimestamp)
	case f.TimestampHeader != "" && !stamped:
		return fmt.Errorf("is %q, which must have %s in it: a timestamp that is not signed proves nothing", text,
			placeTimestamp)
	case f.TimestampHeader == "" && stamped:
		return fmt.Errorf("is %q, but there is no timestamp_header to take %s from", text, placeTimestamp)
	}
	return nil
}

func (f *Format) payload() string {
	if f.Payload == "" {
		return placeBody
	}
	return f.Payload
}

// hash is the algorithm's.
func (f *Format) hash() func() hash.Hash {
	if f.Scheme == HMAC && f.Algorithm == SHA512 {
		return sha512.New
	}
	return sha256.New
}

// decode reads a signature that is written in an encoding.
func decode(encoding, text string) ([]byte, error) {
	switch encoding {
	case Hex:
		return hex.DecodeString(text)
	case Base64URL:
		return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}
