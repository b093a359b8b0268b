package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// HashVersion names the rules of this package under which a hash was made. It is stored beside every hash; a change of
// the canonical form is a new version (K5, K15).
const HashVersion = 1

// Digest is a SHA-256 digest.
type Digest [sha256.Size]byte

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Hash is the SHA-256 of the value's canonical form.
func Hash(v Value) Digest {
	buf := buffers.Get().(*[]byte)
	*buf = v.AppendCanonical((*buf)[:0])
	digest := sha256.Sum256(*buf)
	if cap(*buf) <= 1<<20 {
		buffers.Put(buf)
	}
	return digest
}

// String is the digest in lower-case hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes lower-case hex.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads hex of 64 characters.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a SHA-256 digest has %d hex characters, not %d", hex.EncodedLen(len(d)), len(text))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("read a SHA-256 digest: %w", err)
	}
	return nil
}

// ParseDigest reads hex of 64 characters.
func ParseDigest(text string) (d Digest, err error) {
	err = d.UnmarshalText([]byte(text))
	return d, err
}
