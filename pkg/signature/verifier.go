package signature

import (
	"cmp"
	"crypto/hmac"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

// Config is what New needs.
type Config struct {
	Format
	Secrets []Secret // any may match; one is enough
}

// Verifier verifies the deliveries of one source. It may be used by many callers at once.
type Verifier struct {
	read      reader
	hash      func() hash.Hash
	keys      [][]byte
	tolerance time.Duration
}

// New reads the secrets, once. Its error joins all that is wrong with the format and the secrets, and names a secret by
// its place alone.
func New(config Config) (*Verifier, error) {
	errs := []error{config.check()}
	if len(config.Secrets) == 0 {
		errs = append(errs, errors.New("there is no secret to verify with"))
	}
	v := &Verifier{read: newReader(config.Format), hash: config.hash(),
		tolerance: cmp.Or(config.Tolerance, DefaultTolerance)}
	for _, secret := range config.Secrets {
		text, err := secret.read()
		if err == nil {
			var k []byte
			k, err = key(config.Scheme, text)
			v.keys = append(v.keys, k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the signing secret in %s: %w", secret, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return v, nil
}

// Verify holds the headers against the body, byte by byte as it was received. Names of headers are spelt as net/http
// does (Webhook-Id). It gives the id that the scheme signs with the body, "" where the scheme has none; or why the
// delivery does not count as signed.
func (v *Verifier) Verify(headers map[string][]string, body []byte, now time.Time) (id string, refusal *Refusal) {
	s, refusal := v.read(headers)
	switch {
	case refusal != nil:
		return "", refusal
	case !v.genuine(&s, body):
		return "", refuse(Mismatch, "The signature is not that of the body as it was received. "+
			"Check the secret, and that nothing on the way rewrites the body.")
	case s.stamped:
		if refusal = v.fresh(s.at, now); refusal != nil {
			return "", refusal
		}
	}
	return s.id, nil
}

// genuine tries every signature with every secret, and does not stop at the one that matches.
func (v *Verifier) genuine(s *said, body []byte) bool {
	matches := 0
	for _, k := range v.keys {
		mac := hmac.New(v.hash, k)
		_, _ = io.WriteString(mac, s.before) // a hash takes everything
		_, _ = mac.Write(body)
		_, _ = io.WriteString(mac, s.after)
		sum := mac.Sum(nil)
		for _, sent := range s.sums {
			matches |= subtle.ConstantTimeCompare(sum, sent)
		}
	}
	return matches == 1
}

// fresh looks at the time of a signature, which the sender rounded down to the second, and so does this. What is
// exactly as far off as the tolerance is still good.
func (v *Verifier) fresh(at, now time.Time) *Refusal {
	age := time.Unix(now.Unix(), 0).Sub(at)
	if age.Abs() <= v.tolerance {
		return nil
	}
	reason, direction := TooOld, "ago"
	if age < 0 {
		reason, direction = FromFuture, "ahead"
	}
	return refuse(reason, "It was signed %s %s; at most %s is allowed. Sign every attempt anew, and set the clocks.",
		age.Abs(), direction, v.tolerance)
}
