// Package connectorcheck finds out whether an external system keeps what its connector declares (D13). It exercises one operation
// against the system that the connector points to, and says of every declared capability whether it was proved, with the evidence:
//
//	replay       the very same request again is answered with the same result, and one write is found
//	mismatch     the key with another payload is refused with the declared code, and changes nothing
//	lookup       what was written is found under its id, and an operation id that was never sent is not
//	conclusive   the latter is told as absence, and what was written is seen within the declared index lag
//	conditional  a write that expects an earlier version is refused with 409 or 412, and changes nothing
//	read         the target's version is read, and after an update its values are those that were written
//
// Besides, the time until the lookup sees a write is measured against the declared index lag.
//
// # What it writes
//
// One write that is meant to succeed, the same again, and one each that is meant to be refused. Operation ids are chk1-UUID-N, of the
// length and the characters of a run's, which begin with op1-: so neither can be taken for the other (ledger.ParseOperationID), and no
// provider's webhook about one moves a run. Writes go out through package connector, as a run's do: to allowed hosts alone, with no
// redirects and no retries, after asking for leave right before the first byte.
package connectorcheck
