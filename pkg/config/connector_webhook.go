package config

import (
	"slices"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

// ProviderWebhook is how a provider tells what became of writes (R4). What is signed is believed; all pointers lead into the body.
type ProviderWebhook struct {
	Signature signature.Config
	// EventID is a JSON pointer to the event's id, by which repeats are known; "" is the id that the signature's scheme signs.
	EventID    string
	Operation  string // JSON pointer to our operation id, "" where the provider does not echo it
	ExternalID string // JSON pointer to the provider's id of what it made, "" where events have none
	Status     string // JSON pointer to what became of it
	// Succeeded and Failed are the values of Status that are final. All others move nothing.
	Succeeded, Failed []string
	Version           string // JSON pointer to the record's new version, "" where events have none
}

// readProviderWebhook is nil where the connector has no such block.
func readProviderWebhook(o *object) *ProviderWebhook {
	part := o.object("webhook")
	if part == nil {
		return nil
	}
	w := &ProviderWebhook{
		EventID: part.pointer("event_id"), Operation: part.pointer("operation"), ExternalID: part.pointer("external_id"),
		Status: part.needPointer("status"), Succeeded: part.texts("succeeded", nil), Failed: part.texts("failed", nil),
		Version: part.pointer("version"),
	}
	if s := readSignature(part, nil); s != nil {
		w.Signature = *s
	} else if part.take("signature") == nil {
		part.fail("signature", "is missing; what is not signed could come from anybody")
	}
	if part.take("event_id") == nil && w.Signature.Scheme != "" && w.Signature.IDHeader() == "" {
		part.fail("event_id", "is missing; only the scheme %s signs an id of its own", signature.StandardWebhooks)
	}
	if part.take("operation") == nil && part.take("external_id") == nil {
		part.problems.add(part.pos, "webhook must have operation or external_id, or both: what an event is about")
	}
	if len(w.Succeeded) == 0 && len(part.items("succeeded")) == 0 {
		part.fail("succeeded", "is missing; it must list the values of status that mean that the write took place")
	}
	for _, value := range w.Failed {
		if slices.Contains(w.Succeeded, value) {
			part.fail("failed", "has %s, which succeeded has too", quote(value))
		}
	}
	part.close()
	return w
}
