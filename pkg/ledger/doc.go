// Package ledger owns the shared tables and every move among them. Postgres is the authority: whatever the bus delivers,
// repeats or loses, a record moves only from a state that its move names, in one transaction with the event that tells of it
// and the audit row that proves it.
//
// # Moves
//
// Moves is the one table of what can happen. The Go checks, the guards in the SQL, the tests against the CHECK constraints
// and the diagram that Diagram draws are all read from it.
//
// # Commands
//
// Every command takes a batch and is one short transaction of as few statements as it takes, over arrays. Rows are sorted by
// key, so that two batches cannot wait for each other; the second and later items of one run in a batch go into a statement of
// their own. Locks are always taken in the order run, approval, token, target or budget row. A batch whose data one item
// spoils (SQLSTATE classes 22 and 23) is split until that item stands alone; connection and server faults retry the whole
// batch, so that an outage condemns nobody. Each command can be repeated after a COMMIT whose answer was lost: ids chosen by
// the caller (a claim's command id, a decision's id, an attempt's number and owner) make the repeat find its own work.
//
// # Time
//
// Leases and deadlines use the database's clock alone, read by clock_timestamp() after the lock.
package ledger
