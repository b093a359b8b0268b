package crash

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/config/configtest"
)

// Times of the suite. What a killed process leaves behind is found out when its lease is over, so leases are as
// short as a busy machine bears: a sender asks leave with a second of its lease left (D15), and must get that far.
//
//	connector timeout      1 s
//	dispatcher's margin    1 s    so its lease is 2 s
//	worker's lease         1 s    5 s with all renewals
//	index lag            0.2 s
//	broker's ack wait      2 s
const (
	leaseMargin = "1s"
	ackWait     = "2s"
)

// Edit changes one place of the example configuration: what it finds in files of that name becomes what replaces it.
type Edit struct{ File, Find, Replace string }

// The blind action is the example's change of a contact, but for a look at the target before the write. With one, a
// sender that comes late finds the target changed and does not get as far as its last fence check, which is what
// some journeys are about.
const (
	contactUpdate = "crm.contact.update"
	blindUpdate   = "crm.contact.blind_update"
)

// The watched action is the example's change of a contact, of which people look at every case afterwards (P4).
const watchedUpdate = "crm.contact.watched_update"

// The hasty refund is the example's refund, but for the time that people have for it; the watched one is read while they have it, and
// the briefly revised one is awaited for a moment when it was sent back, and may be approved alone.
const (
	refund         = "payment.refund"
	hastyRefund    = "payment.refund.hasty"
	watchedRefund  = "payment.refund.watched"
	brieflyRevised = "payment.refund.brief"
)

var edits = []Edit{
	{"actions.yaml", "\nactions:\n", `
actions:
  - type: crm.contact.blind_update
    schema: crm.contact.update.json
    connector: blind-crm
    operation: update_contact
    owner: crash-suite
    risk: low
    reversible: true
    category: crm_change
    audience: [sales-operations]
    decide_within: 1h
    execute_within: 1h
    evidence: [{source: crm, max_age: 24h}]
    rejection: Nothing is changed.

  - type: crm.contact.watched_update
    schema: crm.contact.update.json
    connector: sandbox-crm
    operation: update_contact
    owner: crash-suite
    risk: low
    reversible: true
    category: crm_change
    audience: [sales-operations]
    decide_within: 1h
    execute_within: 1h
    evidence: [{source: crm, max_age: 24h}]
    rejection: Nothing is changed.

  - type: payment.refund.hasty
    schema: payment.refund.json
    connector: sandbox-payments
    operation: create_refund
    owner: crash-suite
    risk: high
    reversible: false
    category: payment
    audience: [support-lead]
    decide_within: 2s
    execute_within: 1h
    evidence: [{source: payments, max_age: 24h}]
    rejection: Nothing was refunded.

  - type: payment.refund.brief
    schema: payment.refund.json
    connector: sandbox-payments
    operation: create_refund
    owner: crash-suite
    risk: high
    reversible: false
    category: payment
    audience: [support-lead]
    decide_within: 1h
    execute_within: 1h
    revisions: {within: 1s}
    review: {break_glass: {roles: [support-lead], review_within: 1h}}
    evidence: [{source: payments, max_age: 24h}]
    rejection: Nothing was refunded.

  - type: payment.refund.watched
    schema: payment.refund.json
    connector: watched-payments
    operation: create_refund
    owner: crash-suite
    risk: high
    reversible: false
    category: payment
    audience: [support-lead]
    decide_within: 1h
    execute_within: 1h
    evidence: [{source: payments, max_age: 24h}]
    rejection: Nothing was refunded.
`},
	{"policy.yaml", "\nrules:\n", `
rules:
  - id: blind-update
    action: crm.contact.blind_update
    when: "true"
    route: auto
    reason: The suite sends it.

  - id: watched-update
    action: crm.contact.watched_update
    when: "true"
    route: auto
    reason: The suite looks at it.
    exception: {evaluation: crash-suite, threshold: 1, one_in: 1}

  - id: hasty-refund
    action: payment.refund.hasty
    when: "true"
    route: human_review
    reason: The suite lets it expire.

  - id: watched-refund
    action: payment.refund.watched
    when: "true"
    route: human_review
    reason: The suite reads its target.
`},
	{"policy.yaml", "\nevaluations:\n", `
evaluations:
  - {id: crash-suite, action: crm.contact.watched_update, measured_at: 2026-01-01T00:00:00Z, valid_until: 2100-01-01T00:00:00Z,
     cases: 1, passed: 1, by: crash-suite}
`},
	{"connectors.yaml", "\nconnectors:\n", `
connectors:
  - id: blind-crm
    base_url: ${HOLDPOINT_SANDBOX_URL:-http://127.0.0.1:7080}
    concurrency: 64
    timeout: 10s
    webhook:
      signature: {scheme: standard_webhooks, secrets: [{value: ` + hookSecret + `}]}
      operation: /reference
      status: /status
      succeeded: [succeeded]
    operations:
      - name: update_contact
        kind: update
        method: PATCH
        path: /crm/contacts/${target.record_id}
        body: {reference: "${operation_id}", fields: "${proposed_change.fields}"}
        idempotency_header: Idempotency-Key
        conditional: {header: If-Match, value: '"${current_version}"'}
        success: {external_id: /update_id}
        lookup: {path: "/crm/updates?reference=${operation_id}", items: /items, external_id: /id, match: /reference,
          index_lag: 2s, conclusive: true}

  - id: watched-payments
    base_url: ${HOLDPOINT_SANDBOX_URL:-http://127.0.0.1:7080}
    concurrency: 64
    timeout: 10s
    operations:
      - name: create_refund
        kind: create
        method: POST
        path: /payments/refunds
        body: {reference: "${operation_id}", payment_id: "${proposed_change.payment_id}", amount: "${proposed_change.amount}",
          currency: "${proposed_change.currency}"}
        idempotency_header: Idempotency-Key
        success: {external_id: /id}
        lookup: {path: "/payments/refunds?reference=${operation_id}", items: /items, external_id: /id, match: /reference,
          index_lag: 2s, conclusive: true}
        read: {path: "/crm/contacts/${target.record_id}", version: /version, values: /fields}
`},
	{"connectors.yaml", "timeout: 10s", "timeout: 1s\n    backoff: {base: 200ms, cap: 1s}"},
	{"connectors.yaml", "leave_within: 30s", "leave_within: 1s"},
	{"connectors.yaml", "index_lag: 2s", "index_lag: 200ms"},
	{"sources.yaml", "duration: 30s", "duration: 1s"},
	{"sources.yaml", "max_lifetime: 10m", "max_lifetime: 5s"},
}

// WriteSettings makes a configuration directory from the example's, with short times. It fails where the example
// has changed so that a time is not found: a suite with long leases would pass by never getting anywhere.
func WriteSettings(example fs.FS, dir string, edits []Edit) error {
	found := make([]bool, len(edits))
	err := fs.WalkDir(example, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(example, name)
		if err != nil {
			return err
		}
		text := shorten(string(content), filepath.Base(name), edits, found)
		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, []byte(text), 0o644)
	})
	if err != nil {
		return fmt.Errorf("write the suite's configuration: %w", err)
	}
	for i, ok := range found {
		if !ok {
			return fmt.Errorf("the example configuration has no %q in %s any more; change the edits",
				edits[i].Find, edits[i].File)
		}
	}
	return configtest.AttestAll(dir) // the edits make other declarations than those that were proved
}

func shorten(text, file string, edits []Edit, found []bool) string {
	for i, e := range edits {
		if e.File == file && strings.Contains(text, e.Find) {
			found[i] = true
			text = strings.ReplaceAll(text, e.Find, e.Replace)
		}
	}
	return text
}
