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
// Leases and deadlines use the database's clock alone, read by clock_timestamp() after the lock. Only "whose time has come" is
// asked by statement_timestamp(), which an index can answer.
//
// # Plans
//
// A statement is planned once for each connection and kept, maybe while its tables are empty, and the planner takes every array
// for ten items. So that no plan grows with the tables:
//   - a row that is looked up by its key stands in a LATERAL subquery of its own, which only an index answers well;
//   - membership in what an earlier part of the statement returned is written "(x in (select …)) is true", which becomes a hashed
//     list, where a join would become a loop over both;
//   - an UPDATE takes its values from a subquery of the columns that it needs, behind OFFSET 0, because it carries them whole.
package ledger
