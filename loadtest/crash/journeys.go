package crash

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// ending is how a journey's event must come to rest.
type ending int

const (
	completed  ending = iota // its run is completed, with one accepted write
	parked                   // there is no run: the message is parked, where an operator sees it
	withheld                 // the effect is held for an operator, with a reason
	turnedDown               // a person has rejected it, and its run has ended
	outOfTime                // nobody has decided in time, and its run has ended
	takenBack                // whoever asked has withdrawn it, and its run has ended
	unrevised                // a person has sent it back, nobody has brought a better proposal, and its run has ended
	unsent                   // somebody has taken it back before it was sent, and its run has ended
	spent                    // workers were given it too often, and its run has ended
)

// journey is a way of an event on which a boundary is reached. run sends the event, has the armed process struck,
// and brings the event as far as it does not go by itself.
type journey struct {
	name   string
	run    func(context.Context, *trial) error
	keyed  bool     // the boundary is told which runs it touches
	worker bool     // the event waits for a worker
	staged bool     // it proposes two changes, one after the other
	action string   // that the event proposes; "": a change of a contact
	asker  string   // who asks for a refund, as the event says it; "": Rita
	sides  []string // nil: all of the boundary's kind
	late   []string // sides after which it takes most of a minute to heal
	ends   ending
}

func (j journey) slow(side string) bool { return slices.Contains(j.late, side) }

// refunds reports whether the event asks for money back, which a person decides.
func (j journey) refunds() bool {
	return slices.Contains([]string{refund, hastyRefund, watchedRefund, brieflyRevised}, j.action)
}

// journeys are the ways to each boundary on which no person is asked.
var journeys = map[string][]journey{
	"intake/claim": {
		{name: "event over HTTP", keyed: true, run: claimOverHTTP},
		{name: "event over NATS", keyed: true, run: claimOverNATS},
		{name: "worker's claim", keyed: true, worker: true, run: claimByWorker},
	},
	"intake/reclaim":          {{name: "lease of a dead worker", keyed: true, worker: true, run: reclaim}},
	"intake/record_conflicts": {{name: "same key, other payload", keyed: true, run: conflict}},
	"intake/own": {
		{name: "submission", keyed: true, worker: true, run: submission},
		{name: "renewal", keyed: true, worker: true, run: renewal},
		{name: "run given back", keyed: true, worker: true, run: givenBack},
	},
	"intake/take":             {{name: "event that waits for a worker", worker: true, run: taken}},
	"intake/exhaust":          {{name: "event whose attempts are used up", keyed: true, worker: true, run: usedUp, ends: spent}},
	"intake/ask_callbacks":    {{name: "event that asks for a call", keyed: true, run: calling}},
	"intake/take_callbacks":   {{name: "start", run: start}},
	"intake/record_callbacks": {{name: "call that was taken", keyed: true, run: calledBack}},
	"intake/park":             {{name: "event that is no JSON", run: parkByIntake, ends: parked}},
	"intake/activate_rules":   {{name: "start", run: start}},
	"intake/ack":              {{name: "event over NATS", run: ackByIntake}},

	"relay/publish": {
		{name: "outbox row", run: waiting("relay")},
		{name: "event that the broker loses", sides: []string{wiped}, run: brokerWiped},
	},
	"relay/clear":       {{name: "outbox row", run: waiting("relay")}},
	"relay/acknowledge": {{name: "outbox row", run: waiting("relay")}},
	"relay/sweep":       {{name: "run that policy never heard of", run: sweep}},
	"relay/observe":     {{name: "event that the broker lost", run: observe}},
	"relay/partitions":  {{name: "start", run: start}},
	"relay/mark":        {{name: "start", run: start}},

	"policy/decide":          {{name: "intent", keyed: true, run: waiting("policy")}},
	"policy/inbox":           {{name: "second event of one intent", run: toldTwice}},
	"policy/ack":             {{name: "intent", run: waiting("policy")}},
	"policy/activate_policy": {{name: "start", run: start}},
	"policy/park":            {{name: "event that is no JSON", run: parkInside(contracts.SubjectIntentSubmitted), ends: parked}},

	"dispatcher/lease": {
		{name: "requested effect", keyed: true, run: waiting("dispatcher")},
		{name: "effect that no event told of", run: leaseByPoll},
	},
	"dispatcher/ack":  {{name: "requested effect", run: waiting("dispatcher")}},
	"dispatcher/park": {{name: "event that is no JSON", run: parkInside(contracts.SubjectEffectRequested), ends: parked}},
	"dispatcher/send": {
		{name: "request", keyed: true, run: waiting("dispatcher")},
		{name: "request that was accepted", sides: []string{accepted}, run: killOnAccept},
		{name: "frozen before its last fence check", sides: []string{stopped}, run: frozenBeforeFence, action: blindUpdate},
		{name: "frozen after its last fence check", sides: []string{stopped}, run: frozenAfterFence, action: blindUpdate,
			keyed: true},
	},
	"dispatcher/answer": {
		{name: "success", keyed: true, run: waiting("dispatcher")},
		{name: "answer that tells nothing", keyed: true, run: answeredWith(errorAfter)},
	},
	"dispatcher/record_outcomes": {
		{name: "success", keyed: true, run: waiting("dispatcher")},
		{name: "no answer", keyed: true, run: answeredWith(acceptThenReset)},
		{name: "refused as too busy", keyed: true, run: answeredWith(tooBusy)},
		{name: "success of the first of two stages", keyed: true, staged: true, run: waiting("dispatcher")},
	},

	"reconciler/postpone": {{name: "unknown effect", run: lookUp(acceptThenReset), late: []string{after, mid}}},
	"reconciler/record_lookups": {
		{name: "found", keyed: true, run: lookUp(acceptThenReset), late: []string{before}},
		{name: "found, the first of two stages", keyed: true, staged: true, run: lookUp(acceptThenReset), late: []string{before}},
		{name: "not there", keyed: true, run: lookUp(resetUnread), late: []string{before}},
		{name: "lease of a dead sender", keyed: true, run: senderGone, late: []string{before}},
	},
	"reconciler/read_outcomes": {
		{name: "late report on a disputed effect", keyed: true, run: lateReport, late: []string{before}, ends: withheld},
	},

	"reconciler/return_draws":  {{name: "start", run: start}},
	"reconciler/take_readings": {{name: "start", run: start}},

	"reconciler/receive_provider_events": {{name: "webhook", run: told(acceptedOnly), action: blindUpdate}},
	"reconciler/take_provider_events":    {{name: "start", run: start}},
	"reconciler/apply_provider_events":   {{name: "webhook that completes", keyed: true, run: told(acceptedOnly), action: blindUpdate}},
	"reconciler/note_provider_events": {
		{name: "webhook that changes nothing", keyed: true, run: told(doneAlready), action: blindUpdate},
	},

	"operator/resolve":         {{name: "effect held as unauthorized", keyed: true, run: resolveHeld}},
	"operator/set_kill_switch": {{name: "effect while the switch is closed", run: closeSwitch}},
	"operator/recall":          {{name: "effect of a recalled draft", run: recallDraft}},
	"operator/restore":         {{name: "effect while a restore stands", run: declareRestore}},
	"operator/activate_policy": {{name: "event under a policy that is rolled back", run: activatePolicy}},
	"operator/settle_parked":   {{name: "parked event, corrected", run: replayParked}},

	"operator/settle_provider_event": {{name: "provider event about nothing that is known", run: dismissEvent}},
}

// waiting has the event wait for its service, which is away, and die when it comes to it.
func waiting(service string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := t.quiet(ctx, service); err != nil {
			return err
		}
		t.down(service)
		if err := t.deliver(ctx); err != nil {
			return err
		}
		if err := t.arm(); err != nil {
			return err
		}
		return t.strike(ctx)
	}
}

// quiet waits until what earlier cases left to a service is done, where the boundary cannot tell one run from
// another: so it is the case's own event that it dies of.
func (t *trial) quiet(ctx context.Context, service string) error {
	if t.keyed {
		return nil
	}
	return poll(ctx, service+" to have nothing to do", func() (bool, error) {
		idle, err := t.outboxEmpty(ctx)
		if err == nil && idle && service == ledger.Approval {
			return t.everybodyTold(ctx)
		}
		if err != nil || !idle {
			return false, err
		}
		stream, durable := consumerOf(service)
		if stream == "" {
			return true, nil
		}
		return t.consumed(ctx, stream, durable)
	})
}

func (w *world) outboxEmpty(ctx context.Context) (empty bool, err error) {
	if err = w.db.QueryRow(ctx, "select not exists (select from pending)").Scan(&empty); err != nil {
		err = fmt.Errorf("ask whether the outbox is empty: %w", err)
	}
	return empty, err
}

// everybodyTold reports whether the approval service has nobody to tell anything.
func (w *world) everybodyTold(ctx context.Context) (all bool, err error) {
	if err = w.db.QueryRow(ctx, `select not exists (select from approvals where not announced)
  and not exists (select from notifications where state = 'waiting')`).Scan(&all); err != nil {
		err = fmt.Errorf("ask whether everybody is told: %w", err)
	}
	return all, err
}
