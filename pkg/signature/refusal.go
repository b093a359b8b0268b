package signature

import "fmt"

// Reason says why a delivery was refused: a closed list.
type Reason string

// Reasons. None tells which secret was tried, or how close a signature came.
const (
	Missing    Reason = "signature_missing"   // a header that the scheme needs is not there
	Ambiguous  Reason = "signature_ambiguous" // it is there more than once
	Malformed  Reason = "signature_malformed" // it is not written as the scheme has it
	Mismatch   Reason = "signature_mismatch"  // no secret made this signature over these bytes
	TooOld     Reason = "timestamp_too_old"   // genuine, but signed longer ago than the tolerance
	FromFuture Reason = "timestamp_in_future" // genuine, but signed further ahead than the tolerance
)

// Refusal is why a delivery does not count as signed.
type Refusal struct {
	Reason Reason
	Detail string // for people, with what to do
}

// Stale reports whether the signature is genuine, but not of now.
func (r *Refusal) Stale() bool { return r.Reason == TooOld || r.Reason == FromFuture }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}
