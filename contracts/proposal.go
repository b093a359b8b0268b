package contracts

import (
	"encoding/json"
	"time"
)

// Proposal is what a model or workflow wants done: one action (schemas/proposal.v1.json), or several in Actions with the first four
// fields left out (schemas/plan.v1.json).
type Proposal struct {
	ActionType string `json:"action_type,omitempty"`
	Target     Target `json:"target,omitzero"`
	// ProposedChange is an object of the shape that the action type's own schema says (M2).
	ProposedChange json.RawMessage  `json:"proposed_change,omitempty"`
	CurrentVersion string           `json:"current_version,omitempty"` // of the target, as the proposer read it
	Actions        []ProposedAction `json:"actions,omitempty"`
	Evidence       []Evidence       `json:"evidence,omitempty"`
	Assumptions    []string         `json:"assumptions,omitempty"`
	// Uncertainty is low, medium or high; it can only make the route stricter (M6).
	Uncertainty     string `json:"uncertainty,omitempty"`
	Model           *Model `json:"model,omitempty"`
	WorkflowVersion string `json:"workflow_version"` // such as "crm-enrichment@3"
}

// ProposedAction is one of several actions of a proposal (D10).
type ProposedAction struct {
	ActionType     string          `json:"action_type"`
	Target         Target          `json:"target"`
	ProposedChange json.RawMessage `json:"proposed_change"`
	CurrentVersion string          `json:"current_version,omitempty"`
	// Stage is when it goes out: after all actions of smaller stages are done, beside those of its own. 0 is one after the action
	// before it, so that actions without stages go out one by one.
	Stage int `json:"stage,omitempty"`
}

// Levels of Proposal.Uncertainty.
const (
	UncertaintyLow    = "low"
	UncertaintyMedium = "medium"
	UncertaintyHigh   = "high"
)

// Target is the record that would change.
type Target struct {
	System   string `json:"system"`
	RecordID string `json:"record_id"`
}

// Evidence is one thing that the proposer read, at the version it read.
type Evidence struct {
	Source     string    `json:"source"`
	Version    string    `json:"version"` // the record's version, or a hash of the fields used
	ObservedAt time.Time `json:"observed_at"`
	URL        string    `json:"url,omitempty"`
}

// Model says which model drafted the proposal (M5).
type Model struct {
	ProviderClass string `json:"provider_class"`
	Name          string `json:"name"`
	Revision      string `json:"revision,omitempty"`
	PromptVersion string `json:"prompt_version,omitempty"` // name and hash of the prompt's template
	SchemaVersion string `json:"schema_version,omitempty"` // of the schema that the answer had to fit
	Attempts      int    `json:"attempts,omitempty"`       // calls of the model for this proposal, from 1
	Validation    string `json:"validation,omitempty"`     // ValidationValid or ValidationRepaired
}

// How a model's answer came to fit its schema.
const (
	ValidationValid    = "valid"    // at once
	ValidationRepaired = "repaired" // after it was told what was wrong
)
