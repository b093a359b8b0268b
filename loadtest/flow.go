package main

import "errors"

// flow is one journey that events can be sent on.
type flow struct {
	source string
	// event is the body of one delivery. Each run of digitsHole takes the key's digits, runHole the name of this run of
	// the driver, timeHole the time at which it started.
	event string
	// unavailable says why this build cannot drive the flow.
	unavailable error
}

var flows = map[string]flow{
	"auto": {source: "crm-enrichment", event: contactUpdate},
	"review": {unavailable: errors.New(
		"--flow review is decided by people, and this build signs nobody in: it drives --flow auto only")},
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
