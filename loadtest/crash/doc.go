// Package crash kills every service at every crash boundary and asks afterwards whether anything was done twice,
// lost, or done without leave (O6, D3, B1 to B4, K2, R1 to R3, A1, A2, A5, A7 to A9).
//
//	go run ./loadtest crash --flow auto --json crash.json
//	go run ./loadtest crash --flow review --json crash.json
//
// # The flows
//
// In auto, the policy routes each event by itself. In review, people decide: a refund waits at the approval service,
// which tells the leads and the help desk; one of the demo people signs in, looks at the card and decides through the
// API. flow.go says which services run and which boundaries each flow has to reach; between them they reach all.
//
// # The machinery
//
// The services, built with the tag holdpoint_crash, run as processes of their own, each under its own Postgres role
// and behind its own proxy to Postgres (proxy.go). Postgres, the broker, the sandbox provider and the identity provider
// are never killed by a boundary and live through the whole suite. Leases take seconds, so that what a killed process
// left behind is found out at once.
//
// # A death
//
// The build lists the boundaries that it knows; journeys.go and review_journeys.go say for each which journeys reach
// it: an event sent so that it is this service's turn, with a fault of the provider where the boundary needs one. A
// case is one journey with one side of one boundary:
//
//	before, after   the process SIGKILLs itself on that side
//	mid             the proxy swallows the answer to the COMMIT and cuts the connection; the process lives on (STO-04)
//	accepted        the provider has the write and has not answered yet: the harness kills from outside (DSP-08)
//	stopped         the process is frozen, outlives its lease, and is thawed (DSP-07)
//
// Each case has a key, a run and a target of its own. The killed service is started again, duplicates of the event
// are sent over both doors, and the next case begins; what each case left behind settles meanwhile.
//
// # The verdict
//
// When all runs have come to rest, facts.go and approval_facts.go read the sandbox's ledger, its mail and Postgres, and
// check.go and approval_check.go compare them: they alone decide, and their tests plant what they have to find. The
// suite also fails where a boundary is listed and never reached.
package crash
