// Package connector calls external systems as config.Connector declares them. The work is split in three, and no function
// does two of them:
//
//   - prepare reads and checks: Prepare builds the exact bytes of the write, ReadTarget reads the target's version (D4);
//   - execute is one write: Execute sends a prepared request once and says what is known about it (D6);
//   - reconcile only reads: Reconcile looks for the effect of an earlier write (R1).
//
// # What "sent" means
//
// Every connection is wrapped (conn.go). The wrapper runs the caller's gate immediately before the first byte of a write,
// lets one write through per Execute and counts the bytes that the kernel took. So "not sent" is something that is known,
// not guessed from an error's text, and neither net/http's own retry of requests that carry an Idempotency-Key nor any
// other replay can put a second copy on the wire. HTTP/1.1 only: on a shared HTTP/2 connection bytes cannot be told apart
// by request, and its transport replays by itself.
//
// # Where it may connect
//
// No proxies, no redirects. A connection is opened only to a declared host, and only to an address that the host may
// have: see allow.go. Credentials are read at each call and exist nowhere else; a bearer token travels over plain HTTP to
// the loopback interface only (D12).
package connector
