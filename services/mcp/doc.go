// Package mcp lets agents propose actions over the Model Context Protocol, and ask what became of them. It is a client
// of the HTTP API like any other: it has no way to the database or the bus.
//
// Nothing here decides. There is no tool that touches a request for approval, and the API key that it calls with has
// the scopes publish and read: give it no other. Only people decide, signed in as themselves (A13, A15).
//
// # Keys
//
// A model mints a new id for every tool call and may write other arguments the second time, so neither can tell a retry
// from a new event (INT-07). The tool therefore wants the business event's own id as its key, and passes it on as it
// is: a repeated call is a duplicate, and changed arguments under the same key are refused.
//
// # Transports
//
// Over stdio the process holds one API key. Over HTTP it holds none: every caller sends its own as a bearer token,
// which is passed through. It listens on the loopback interface alone, refuses Host headers of other names (DNS
// rebinding) and requests that a browser makes for another site.
package mcp
