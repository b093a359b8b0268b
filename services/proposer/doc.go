// Package proposer drafts the proposals of sources that declare a proposer or an agent (M1).
//
// It is a worker like any other: it takes waiting runs through the public worker protocol with a tenant's API key, works
// under their leases, and hands the proposals in by the same door as everybody. It has no database and no connection to
// the broker, because it is the one service whose work is steered by what strangers write into events and by what models
// answer: whatever may come of that, it can reach no more than any API key with the scope work can.
//
// A run is one bounded conversation (draft.go). The declared records of the event go out (material.go), to a model
// endpoint (model.go) or an agent runtime (agent.go). One JSON object of a fixed shape comes back (answer.go). What a
// drafter may not choose is taken from the event: the target, the evidence, the versions, fixed members of the change.
// matrix.go says for every kind of failure whether the drafter is asked again, how often, and what becomes of the run.
//
// It drafts by the action types of its files, not of the active policy, which it cannot read (P7). What the active policy's
// schema refuses is refused where it is handed in.
//
// A model is offered no tools, so asking it again repeats nothing that a tool did. An agent calls tools, so it is never
// asked again once it may have begun (M4).
package proposer
