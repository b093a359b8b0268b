// Package outbox is the relay's side of the outbox: it takes what the ledger's commands appended, hands it to the broker, and
// clears what the broker acknowledged. The ledger appends in the transaction of the move itself (event_log and pending), so
// the row is the publish: nothing is published that was not committed, and nothing committed is forgotten.
//
// # Order and gaps
//
// Rows are taken by what is there, never by "sequence greater than the last": a transaction that commits late, or a number
// that a rolled-back one used up, changes nothing (RLY-01, RLY-02). The low-water mark only spares Postgres the walk over
// dead rows; every second one scan starts at the beginning again.
//
// # Broker loss
//
// JetStream is transport. Per stream, its creation time and last acknowledged sequence are kept; a stream that was made anew,
// that acknowledges at or below what it had acknowledged before, or whose last sequence stays below that, has lost messages:
// what its consumers have not handled is queued again under a new generation, which is part of the broker's message id.
package outbox
