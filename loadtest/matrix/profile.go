package matrix

import (
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/loadtest/crash"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// profile is what a provider promises of one operation. What it does not promise is not declared, and so the sandbox is
// sent no key, or is never searched.
type profile struct {
	name        string
	operation   string // sandbox.Create or sandbox.Update
	replays     bool   // a repeated key is answered with the first result
	lookup      bool   // the write is found by its operation id, and its absence is proof
	conditional bool   // it is made at one version of its target alone, which is read before and afterwards
}

var profiles = []profile{
	{name: "create_replay_lookup", operation: sandbox.Create, replays: true, lookup: true},
	{name: "create_replay", operation: sandbox.Create, replays: true},
	{name: "create_lookup", operation: sandbox.Create, lookup: true},
	{name: "create_bare", operation: sandbox.Create},
	{name: "update_match_lookup", operation: sandbox.Update, lookup: true, conditional: true},
}

// sendsKey reports whether the provider is sent an idempotency key at all.
func (p profile) sendsKey() bool { return p.replays || p.conditional }

// action is the type of action that the profile's connector carries out. It is reversible and moves no money: those that
// are not may not act by themselves without a lookup or a replay (P6).
func (p profile) action() string { return "crm.matrix." + p.name }

func (p profile) connector() string { return "matrix-" + strings.ReplaceAll(p.name, "_", "-") }

// Times of the connectors. A write may be invisible to searches for indexLag, and the provider may take it up so long
// after its caller has given up.
const (
	timeout  = "1s"
	indexLag = "500ms"
)

// declaration is the connector's entry in the configuration.
func (p profile) declaration() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("  - id: %s", p.connector())
	line("    base_url: ${HOLDPOINT_SANDBOX_URL:-http://127.0.0.1:7080}")
	line("    concurrency: 64")
	line("    timeout: %s", timeout)
	line("    backoff: {base: 200ms, cap: 1s}")
	line("    operations:")
	line("      - name: write")
	line("        kind: %s", p.operation)
	if p.operation == sandbox.Create {
		line("        method: POST")
		line("        path: /crm/contacts")
	} else {
		line("        method: PATCH")
		line("        path: /crm/contacts/${target.record_id}")
	}
	line(`        body: {reference: "${operation_id}", fields: "${proposed_change.fields}"}`)
	line("        success: {external_id: /update_id}")
	line("        refused: [400, 404, 410, 422, 428]")
	line("        error_code: /error/code")
	if p.sendsKey() {
		line("        idempotency_header: Idempotency-Key")
		line("        in_progress_code: idempotency_key_in_progress")
		line("        key_reused_code: idempotency_key_reused")
	}
	if p.replays {
		line("        key_window: 24h")
		line("        key_margin: 1h")
		line("        replays: true")
	}
	if p.lookup {
		line(`        lookup: {path: "/crm/updates?reference=${operation_id}", items: /items, external_id: /id,`)
		line("          match: /reference, version: /version, index_lag: %s, conclusive: true}", indexLag)
	}
	if p.conditional {
		line(`        conditional: {header: If-Match, value: '"${current_version}"'}`)
		line(`        read: {path: "/crm/contacts/${target.record_id}", version: /version, values: ""}`)
	}
	return b.String()
}

// edits declare the profiles in the crash suite's configuration.
func edits() []crash.Edit {
	actions, rules, connectors := "\nactions:\n", "\nrules:\n", "\nconnectors:\n"
	for _, p := range profiles {
		actions += fmt.Sprintf(`
  - type: %s
    schema: crm.contact.update.json
    connector: %s
    operation: write
    owner: fault-matrix
    risk: low
    reversible: true
    category: crm_change
    audience: [sales-operations]
    decide_within: 1h
    execute_within: 1h
    evidence: [{source: crm, max_age: 24h}]
    rejection: Nothing is changed.
`, p.action(), p.connector())
		rules += fmt.Sprintf(`
  - id: matrix-%s
    action: %s
    when: "true"
    route: auto
    reason: The fault matrix sends it.
`, strings.ReplaceAll(p.name, "_", "-"), p.action())
		connectors += "\n" + p.declaration()
	}
	return []crash.Edit{
		{File: "actions.yaml", Find: "\nactions:\n", Replace: actions},
		{File: "policy.yaml", Find: "\nrules:\n", Replace: rules},
		{File: "connectors.yaml", Find: "\nconnectors:\n", Replace: connectors},
	}
}
