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
// have: see allow.go. A credential travels over plain HTTP to the loopback interface only (D12).
//
// # Credentials
//
// A connector has one at most (credential.go). Secrets are read at each use and exist nowhere else. Access tokens of OAuth 2.0
// (oauth.go) are kept in memory, and got before the gate of a write is asked, from a token server that is held to the same rules; a
// refresh token that the server replaces is written back to its file (rotation.go). A token that a system refuses is dropped: a read
// is repeated once with another, a write is reported as unauthorized and it is the caller's to try again.
//
// # Mail
//
// A connector of kind smtp (smtp*.go) hands each message to a mail server over a connection of its own. Its bytes follow from the
// intent, the operation id and the time of the first attempt. The gate is asked when the server waits for the message, and "sent" begins
// with the dot that ends it. All recipients are taken or nothing is sent. What a server took cannot be read, so a lost answer to the dot
// leaves the effect unknown for an operator, who finds the message by its Message-ID, which holds the operation id.
package connector
