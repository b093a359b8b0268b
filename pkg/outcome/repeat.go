package outcome

import (
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// AcceptedDeadline is how long a provider may take to finish what it has accepted, before it is asked (R5).
const AcceptedDeadline = 5 * time.Minute

// TakesTwo reports whether it takes two people to say that an effect was not done and have it sent again: it may have been sent, its
// provider does not answer the key with the first result, or not any more, and the action asks for a second person (R6). A nil action
// or operation is one that the configuration does not have; what is not known is taken for the worse.
func TakesTwo(a *config.Action, op *config.Operation, maybeSent bool, firstSent, now time.Time) bool {
	replayed := op != nil && SameKeyAllowed(op, firstSent, now)
	return maybeSent && !replayed && (a == nil || a.Resolve.SecondPerson)
}

// SameKeyAllowed reports whether a call that was maybe sent may be repeated under its idempotency key: the provider
// answers a repeated key with the first result, and still remembers the key, with a margin. firstSent and now are times
// of the database's clock; a zero firstSent means that nobody knows (D13, R3).
func SameKeyAllowed(op *config.Operation, firstSent, now time.Time) bool {
	return op.IdempotentCreate() && !firstSent.IsZero() && now.Before(firstSent.Add(op.KeyWindow-op.KeyMargin))
}
