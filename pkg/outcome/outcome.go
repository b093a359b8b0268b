// Package outcome is the failure matrix: what a connector's call can have come to, and what follows for its effect (D6,
// D8, R5). Services ask it and classify nothing themselves.
//
// The class is decided per attempt, the consequence per effect. Once any attempt of an effect was maybe sent, a later
// refusal, conflict or failure may be the echo of our own write: the effect then stays unknown until it succeeds, is
// accepted, or a conclusive lookup says otherwise.
package outcome

// Class is what one attempt came to.
type Class string

// The classes.
const (
	NotSent         Class = "not_sent"                // DNS, refused, TLS, breaker, rate limit, ended before the first byte
	RejectedBusy    Class = "rejected_busy"           // the provider says "not processed, come back"
	InProgress      Class = "in_progress_at_provider" // the same key is in flight
	Ambiguous       Class = "ambiguous"               // nobody can tell from here
	Accepted        Class = "accepted"                // finished later
	Succeeded       Class = "succeeded"               // the connector's success rule is met
	Refused         Class = "refused"                 // final: the intent cannot be executed
	VersionConflict Class = "version_conflict"        // the target changed since the intent was made
	Unauthorized    Class = "unauthorized"            // the credential was not accepted
	KeyReused       Class = "key_reused"              // the idempotency key was used with other parameters
)

// Move is where an attempt's outcome takes its effect.
type Move string

// The moves.
const (
	Pending      Move = "pending"       // try again after the backoff
	Unknown      Move = "unknown"       // find out by reading; a same-key retry only by D13
	AwaitWebhook Move = "await_webhook" // until the deadline, then find out by reading (R5)
	Completed    Move = "completed"
	Failed       Move = "failed" // the intent ends; corrected data is a new run (D8)
	Review       Move = "review" // back to people, with both versions (D5)
	Held         Move = "held"   // an operator must act first
)

// Hold is why an effect is held.
type Hold string

// The reasons.
const (
	HoldUnauthorized Hold = "unauthorized" // one refresh of the credential is allowed before it
	HoldKeyReused    Hold = "key_reused"   // an incident
	HoldExhausted    Hold = "exhausted"    // the backoff's attempts or time are used up
)

// Consequence is what follows for the effect.
type Consequence struct {
	Move Move
	Hold Hold // set where Move is Held
	// Alert asks for an operator's alert. It survives when the move is replaced by unknown, because a rejected credential
	// or a reused key needs a person either way.
	Alert bool
	// MaybeSent is the effect's new mark. It never goes from true to false here.
	MaybeSent bool
}

// row is one line of the matrix.
type row struct {
	class Class
	// sent says that the request reached the provider, or may have, and may have taken effect. A request that the
	// provider answered with "I did nothing" is not sent in this sense.
	sent  bool
	first Consequence // for an effect that was never maybe sent before
}

// matrix is the whole decision.
var matrix = []row{
	{NotSent, false, Consequence{Move: Pending}},
	{RejectedBusy, false, Consequence{Move: Pending}},
	{InProgress, true, Consequence{Move: Unknown}},
	{Ambiguous, true, Consequence{Move: Unknown}},
	{Accepted, true, Consequence{Move: AwaitWebhook}},
	{Succeeded, true, Consequence{Move: Completed}},
	{Refused, false, Consequence{Move: Failed}},
	{VersionConflict, false, Consequence{Move: Review}},
	{Unauthorized, false, Consequence{Move: Held, Hold: HoldUnauthorized, Alert: true}},
	{KeyReused, false, Consequence{Move: Held, Hold: HoldKeyReused, Alert: true}},
}

// Classes are all classes, in the order of the matrix.
func Classes() []Class {
	classes := make([]Class, len(matrix))
	for i, r := range matrix {
		classes[i] = r.class
	}
	return classes
}

// MaybeSent reports whether an attempt of this class marks its effect as maybe sent. A class that is not in the matrix,
// such as one written by a newer release, does.
func (c Class) MaybeSent() bool { return c.row().sent }

// Valid reports whether the class is in the matrix.
func (c Class) Valid() bool {
	for _, r := range matrix {
		if r.class == c {
			return true
		}
	}
	return false
}

// Consequence is what an attempt of this class means for an effect. maybeSentBefore says whether any earlier attempt of
// the effect was, or may have been, sent. The precedence is:
//
//  1. succeeded and accepted stand, whatever came before;
//  2. an effect that was maybe sent before stays unknown;
//  3. otherwise the matrix decides; a class that it does not know is unknown, with an alert.
func (c Class) Consequence(maybeSentBefore bool) Consequence {
	r := c.row()
	result := r.first
	result.MaybeSent = r.sent || maybeSentBefore
	if maybeSentBefore && c != Succeeded && c != Accepted {
		result.Move, result.Hold = Unknown, ""
	}
	return result
}

func (c Class) row() row {
	for _, r := range matrix {
		if r.class == c {
			return r
		}
	}
	return row{c, true, Consequence{Move: Unknown, Alert: true}}
}
