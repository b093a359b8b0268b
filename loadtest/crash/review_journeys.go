package crash

import (
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// reviewJourneys are the ways to each boundary on which a refund waits for people. What they do not lead to is either
// reached by every event alike or has nothing to do with decisions.
var reviewJourneys = refunding(map[string][]journey{
	"approval/announce":      {{name: "request that nobody was told of", run: untold}},
	"approval/remind":        {{name: "request that waits for long", run: waitsLong}},
	"approval/escalate":      {{name: "request that waits for long", run: waitsLong}},
	"approval/take_notices":  {{name: "message that failed before", run: toldAgain}},
	"approval/mint_token":    {{name: "message with a link", keyed: true, run: untold}},
	"approval/record_notice": {{name: "message that was sent", run: untold}},
	"approval/vote": {
		{name: "approval", keyed: true, run: voted(ledger.Approve, ledger.VoteApproved)},
		{name: "rejection", keyed: true, run: voted(ledger.Reject, ledger.VoteRejected), ends: turnedDown},
		{name: "sending back", keyed: true, action: brieflyRevised, run: voted(ledger.SendBack, ledger.VoteSentBack), ends: unrevised},
		{name: "first approval of two", keyed: true, asker: stranger, run: firstOfTwo},
		{name: "last approval of two", keyed: true, asker: stranger, run: lastOfTwo},
		{name: "approval that is given alone", keyed: true, action: brieflyRevised, run: voted(ledger.BreakGlass, ledger.VoteApproved)},
		{name: "approval by a link", keyed: true, run: byLink},
	},
	"approval/record_refusal": {
		{name: "approval of one's own request", keyed: true, asker: nora, run: turnedAway(nora)},
		{name: "approval without the role", keyed: true, run: turnedAway(rita)},
	},
	"approval/withdraw": {{name: "request taken back", keyed: true, run: withdrawn, ends: takenBack}},
	"approval/take_back": {
		{name: "case that was not sent yet", keyed: true, action: watchedUpdate, run: recalledInTime, ends: unsent},
	},
	"approval/lapse": {
		{name: "proposal that nobody revises", keyed: true, action: brieflyRevised, run: unrevisedInTime, ends: unrevised},
	},
	"approval/judge_sample": {{name: "sample that was right", keyed: true, action: watchedUpdate, run: judged}},
	"approval/judge_glass":  {{name: "approval that was given alone", keyed: true, action: brieflyRevised, run: lookedAt}},
	"approval/expire_approvals": {
		{name: "request that nobody decides", keyed: true, action: hastyRefund, run: outwaited, ends: outOfTime},
	},

	"intake/claim": {
		{name: "refund over HTTP", keyed: true, run: thenApproved(claimOverHTTP)},
		{name: "refund over NATS", keyed: true, run: thenApproved(claimOverNATS)},
	},

	"policy/decide": {{name: "intent for a person", keyed: true, run: thenApproved(waiting(ledger.Policy))}},
	"policy/inbox":  {{name: "second event of one intent", run: thenApproved(toldTwice)}},
	"policy/ack":    {{name: "intent for a person", run: thenApproved(waiting(ledger.Policy))}},

	"relay/publish":     {{name: "decision of a person", run: decidedWithout(ledger.Relay)}},
	"relay/clear":       {{name: "decision of a person", run: decidedWithout(ledger.Relay)}},
	"relay/acknowledge": {{name: "decision of a person", run: decidedWithout(ledger.Relay)}},

	"dispatcher/lease": {{name: "approved refund", keyed: true, run: decidedWithout(ledger.Dispatcher)}},
	"dispatcher/ack":   {{name: "approved refund", run: decidedWithout(ledger.Dispatcher)}},
	"dispatcher/send": {
		{name: "approved refund", keyed: true, run: decidedWithout(ledger.Dispatcher)},
		{name: "refund that was accepted", sides: []string{accepted}, run: killOnAccept},
	},
	"dispatcher/answer": {
		{name: "refund", keyed: true, run: decidedWithout(ledger.Dispatcher)},
		{name: "answer that tells nothing", keyed: true, run: paidWith(errorAfter)},
	},
	"dispatcher/record_outcomes": {
		{name: "refund", keyed: true, run: decidedWithout(ledger.Dispatcher)},
		{name: "no answer", keyed: true, run: paidWith(acceptThenReset)},
	},

	"reconciler/record_lookups": {
		{name: "refund that was found", keyed: true, run: lookUp(acceptThenReset), late: []string{before}},
	},
	"reconciler/record_readings": {
		{name: "request whose target is read", keyed: true, action: watchedRefund, run: watched},
		{name: "request whose two targets are read", keyed: true, staged: true, action: watchedRefund, run: watched},
	},
})

// stranger is a name for whoever asked that the configuration does not know.
const stranger = "somebody@elsewhere.test"

// refunding has the journeys' events propose refunds, where they do not say what else.
func refunding(all map[string][]journey) map[string][]journey {
	for _, some := range all {
		for i := range some {
			if some[i].action == "" {
				some[i].action = refund
			}
		}
	}
	return all
}
