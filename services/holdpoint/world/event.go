package world

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Event is a business event as an integrator delivers it: the same key and body however often.
type Event struct {
	Source string
	Key    string
	Body   any               // encoded as JSON
	Header map[string]string // besides the key's
}

// RunID is the id of the event's run.
func (e Event) RunID() uuid.UUID { return ledger.RunID(Tenant, e.Key) }

// OperationID names the one effect of the event's first intent.
func (e Event) OperationID() string { return ledger.OperationID(e.RunID(), 1, 1) }

// Contact is the CRM record that an update changes; no other event of the world touches it.
func (e Event) Contact() string { return "contact-" + e.Key }

// Text is the body as it is sent, byte for byte.
func (e Event) Text() []byte {
	text, err := json.Marshal(e.Body)
	if err != nil {
		panic(err) // bodies are maps of ours
	}
	return text
}

// object is a JSON object.
type object = map[string]any

// key is one that no other event of the world has.
func (w *World) key() string { return "key-" + strconv.FormatInt(w.keys.Add(1), 10) }

// Update is a small change of a contact that the example rules let through.
func (w *World) Update() Event {
	e := Event{Source: "crm-enrichment", Key: w.key()}
	e.Body = object{"event_id": "corr-" + e.Key, "proposal": e.Proposal("crm.contact.update")}
	return e
}

// Refund is one of more than the example's threshold where the amount is above 100.
func (w *World) Refund(amount string) Event {
	e := Event{Source: "support-refunds", Key: w.key()}
	e.Body = object{"ticket_id": "corr-" + e.Key, "requested_by": "rita@example.test", "proposal": object{
		"action_type": "payment.refund", "target": object{"system": "payments", "record_id": "payment-" + e.Key},
		"proposed_change":  object{"payment_id": "payment-" + e.Key, "amount": json.Number(amount), "currency": "EUR"},
		"evidence":         evidence("payments"),
		"workflow_version": "support-refunds@2",
	}}
	return e
}

// Task is work for a worker, who claims it and proposes a change.
func (w *World) Task() Event {
	e := Event{Source: "agent-drafts", Key: w.key()}
	e.Body = object{"task_id": "corr-" + e.Key, "contact_id": e.Contact()}
	return e
}

// Proposing is the update with another action type.
func (e Event) Proposing(actionType string) Event {
	e.Body = object{"event_id": "corr-" + e.Key, "proposal": e.Proposal(actionType)}
	return e
}

// Proposal is a change of the event's contact from version 1, as a model would draft it.
func (e Event) Proposal(kind string) object {
	return object{
		"action_type": kind, "target": object{"system": "crm", "record_id": e.Contact()},
		"proposed_change": object{"fields": object{"city": "Lisbon"}}, "current_version": "1",
		"evidence":         evidence("crm"),
		"model":            object{"provider_class": "openai-compatible", "name": "example-model", "revision": "7"},
		"workflow_version": "crm-enrichment@3",
	}
}

// evidence was read now. A world lives for seconds, so every event of it may carry the time of its making.
func evidence(source string) []object {
	return []object{{"source": source, "version": "1", "observed_at": time.Now().UTC().Format(time.RFC3339),
		"url": fmt.Sprintf("https://%s.example/records/1", source)}}
}

// Plan proposes several actions, one after the other: for each kind a change of a record of its own, which Part names.
func (w *World) Plan(kinds ...string) Event {
	e := Event{Source: "crm-enrichment", Key: w.key()}
	var actions []object
	for i, kind := range kinds {
		part := e.Part(i + 1)
		if kind == "payment.refund" {
			actions = append(actions, object{"action_type": kind, "target": object{"system": "payments", "record_id": part},
				"proposed_change": object{"payment_id": part, "amount": json.Number("150.00"), "currency": "EUR"}})
			continue
		}
		actions = append(actions, object{"action_type": kind, "target": object{"system": "crm", "record_id": part},
			"proposed_change": object{"fields": object{"city": "Lisbon"}}, "current_version": "1"})
	}
	e.Body = object{"event_id": "corr-" + e.Key, "proposal": object{"actions": actions, "workflow_version": "crm-enrichment@3",
		"evidence": append(evidence("crm"), evidence("payments")...)}}
	return e
}

// Part is the record that an action of a plan changes.
func (e Event) Part(ordinal int) string { return fmt.Sprintf("part-%d-%s", ordinal, e.Key) }
