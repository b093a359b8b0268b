// Command loadtest fires business events at a running Holdpoint and measures what comes back: each of K keys is
// delivered M times, over HTTP, over NATS or over both, flat out or at a fixed rate. Afterwards it asks the sandbox
// provider's own ledger whether every accepted run was written exactly once.
//
//	go run ./loadtest --ready-file .data/ready.json --keys 20000 --duplicates 3 --door both
//	go run ./loadtest --ready-file .data/ready.json --flow review --keys 2000 --reject-share 0.1
//
// The parts, in the order an event meets them: plan.go says which copy of which key is due when; body.go renders it;
// http.go and nats.go deliver it and read the answer; board.go remembers what is known of each key; watch.go sees runs
// wait and end on the tenant's event stream; verify.go asks the sandbox; report.go adds it all up and judges.
//
// With --flow review, people decide each run: reviewer.go signs them in at the running system's provider, desk.go
// seats the deciders, decide.go makes their calls with the person's own token, and review.go reports what they came to.
// End to end is then the whole way to run.completed or run.ended, decision included.
//
// At a fixed rate the load is open-loop: every latency counts from the moment a delivery was due, not from when a free
// connection got round to it, so that a stalled system cannot hide behind a stalled driver (coordinated omission).
//
// The driver shares two cores with the system it measures, so it renders by patching digits into ready bytes, keeps a
// fixed set of connections with one goroutine each, and counts in shards that nobody contends for.
package main
