package main

// flow is one journey that events can be sent on.
type flow struct {
	source string
	// event is the body of one delivery. Each run of digitsHole takes the key's digits, runHole the name of this run of
	// the driver, timeHole the time at which it started.
	event string
	// reviewers is the group whose people decide each run; "" where policy decides alone.
	reviewers string
}

// reviewed reports whether people decide.
func (f flow) reviewed() bool { return f.reviewers != "" }

var flows = map[string]flow{
	"auto":   {source: "crm-enrichment", event: contactUpdate},
	"review": {source: "support-refunds", event: refund, reviewers: "support-leads"},
}

// contactUpdate proposes a change to a contact of its own for every key, so that no run waits for another's target.
const contactUpdate = `{"event_id":"evt-` + runHole + `-` + digitsHole + `","proposal":{` +
	`"action_type":"crm.contact.update",` +
	`"target":{"system":"crm","record_id":"c-` + runHole + `-` + digitsHole + `"},` +
	`"proposed_change":{"fields":{"city":"Lisbon"}},` +
	`"current_version":"1",` +
	`"evidence":[{"source":"crm","version":"1","observed_at":"` + timeHole + `",` +
	`"url":"https://crm.example/contacts/c-` + runHole + `-` + digitsHole + `"}],` +
	`"assumptions":[],"uncertainty":"low",` +
	`"model":{"provider_class":"openai-compatible","name":"example-model","revision":"1"},` +
	`"workflow_version":"crm-enrichment@3"}}`

// paymentPrefix begins the id of every payment that this run of the driver asks to refund; the key's digits follow.
const paymentPrefix = "p-" + runHole + "-"

// refund asks for money back on a payment of its own for every key: more than goes without a lead, less than is
// refused. It names who asked, and that is no reviewer: nobody could approve their own request (A5).
const refund = `{"ticket_id":"t-` + runHole + `-` + digitsHole + `","requested_by":"rita","proposal":{` +
	`"action_type":"payment.refund",` +
	`"target":{"system":"payments","record_id":"` + paymentPrefix + digitsHole + `"},` +
	`"proposed_change":{"payment_id":"` + paymentPrefix + digitsHole + `",` +
	`"amount":250.00,"currency":"EUR"},` +
	`"evidence":[{"source":"payments","version":"1","observed_at":"` + timeHole + `",` +
	`"url":"https://payments.example/` + paymentPrefix + digitsHole + `"}],` +
	`"assumptions":[],"uncertainty":"low",` +
	`"model":{"provider_class":"openai-compatible","name":"example-model","revision":"1"},` +
	`"workflow_version":"support-refunds@2"}}`
