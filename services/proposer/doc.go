// Package proposer asks a model for the proposals of sources that declare a proposer (M1).
//
// It is a worker like any other: it takes waiting runs through the public worker protocol with a tenant's API key, works
// under their leases, and hands the proposals in by the same door as everybody. It has no database and no connection to
// the broker, because it is the one service whose work is steered by what strangers write into events and by what a model
// answers: whatever may come of that, it can reach no more than any API key with the scope work can.
//
// A run is one bounded conversation (draft.go): the declared records of the event go out (material.go), one JSON object
// of a fixed shape comes back (answer.go), and what a model may not choose is taken from the event: the target, the
// evidence, the versions. No tools are offered, so no retry can repeat what a tool did (M4). matrix.go says for every
// kind of failure whether the model is asked again, how often, and what becomes of the run.
package proposer
