package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// policyContent is all that a decision depends on: actions with the content of their schemas, workflow versions, rules in
// their order and the evaluations that they rely on (P2, P4, P7). Comments, layout and the place of a rule in its file are no part
// of it. Schemas stand beside the actions, in the same order.
type policyContent[Schema any] struct {
	Actions          []Action
	Schemas          []Schema
	WorkflowVersions []string
	Rules            []Rule
	Evaluations      []*Evaluation `json:",omitempty"`
}

// digestPolicy fills in the content and its version.
func (d *declared) digestPolicy() {
	content := policyContent[canonical.Value]{WorkflowVersions: d.WorkflowVersions, Evaluations: d.Evaluations}
	for _, a := range d.Actions {
		schema, err := canonical.Parse(a.Schema)
		if err != nil {
			return // the schema is reported, and nothing loads
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
	d.PolicyContent, d.PolicyVersion = data, PolicyVersionOf(data)
}

// PolicyVersionOf is the version that a policy's content has: the hex SHA-256 of its bytes (P7).
func PolicyVersionOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
