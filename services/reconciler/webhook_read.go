package reconciler

import (
	"slices"
	"strings"
	"unicode"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// maxHookText bounds what is taken out of a body, in bytes, as provider_events does.
const maxHookText = 512

// read takes out of a body what the connector declares. signed is the id that the signature covers, "" where its scheme has none.
func (h *hook) read(raw []byte, signed string) (e ledger.ProviderEvent, problem *contracts.Problem) {
	body, err := canonical.Parse(raw)
	if err != nil {
		return e, contracts.NewProblem(contracts.CodeMalformed, "The body must be one JSON document: "+err.Error())
	}
	d := h.declared
	e = ledger.ProviderEvent{TenantID: h.tenant, Connector: h.connector, ID: signed, Body: raw,
		OperationID: textAt(body, d.Operation), ExternalID: textAt(body, d.ExternalID), RecordVersion: textAt(body, d.Version),
		Status: textAt(body, d.Status), Verdict: ledger.ProviderPending}
	if d.EventID != "" {
		e.ID = textAt(body, d.EventID)
	}
	if !storableText(e.ID) {
		problem = contracts.NewProblem(contracts.CodeSchemaInvalid, "The event has no id, or none of 1 to 512 printable bytes.")
		problem.Errors = []contracts.FieldError{{Pointer: d.EventID, Detail: "must be the event's id"}}
		return e, problem
	}
	switch {
	case slices.Contains(d.Succeeded, e.Status):
		e.Verdict = ledger.ProviderSucceeded
	case slices.Contains(d.Failed, e.Status):
		e.Verdict = ledger.ProviderFailed
	}
	return e, nil
}

// textAt is the string or number at a pointer, "" where there is none that can be stored.
func textAt(body canonical.Value, pointer string) string {
	if pointer == "" {
		return ""
	}
	found, _ := body.Pointer(pointer)
	if kind := found.Kind(); kind != canonical.String && kind != canonical.Number || !storableText(found.Text()) {
		return ""
	}
	return found.Text()
}

func storableText(text string) bool {
	unprintable := func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }
	return text != "" && len(text) <= maxHookText && strings.IndexFunc(text, unprintable) < 0
}
