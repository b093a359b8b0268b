package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// policyVersion digests what a decision depends on: actions with the content of their schemas, workflow versions,
// rules in their order and the evaluations that they rely on (P2, P7). Comments, layout and the place of a rule in its file do not count.
func (d *declared) policyVersion() string {
	content := struct {
		Actions          []Action
		Schemas          []canonical.Value
		WorkflowVersions []string
		Rules            []Rule
		Evaluations      []*Evaluation `json:",omitempty"`
	}{WorkflowVersions: d.WorkflowVersions, Evaluations: d.Evaluations}
	for _, a := range d.Actions {
		schema, err := canonical.Parse(a.Schema)
		if err != nil {
			return "" // the schema is reported, and nothing loads
		}
		action := *a
		action.Schema = nil
		content.Actions = append(content.Actions, action)
		content.Schemas = append(content.Schemas, schema)
	}
	for _, r := range d.Rules {
		rule := *r
		rule.Pos = Position{}
		content.Rules = append(content.Rules, rule)
	}
	data, err := json.Marshal(content)
	if err != nil {
		d.loader.add(Position{File: d.folder}, "%v", fmt.Errorf("digesting the policy: %w", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
