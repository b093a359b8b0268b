package contracts

import "encoding/json"

// SourceList tells a tenant's programs what they may hand in: its sources, and the action types that a proposal may name
// (schemas/source_list.v1.json).
type SourceList struct {
	Sources     []SourceInfo `json:"sources"`      // by id
	ActionTypes []ActionInfo `json:"action_types"` // by name
}

// SourceInfo is one source of events, as its configuration declares it.
type SourceInfo struct {
	Source   string          `json:"source"`
	Mode     string          `json:"mode"`               // inline: events carry their proposal; worker: a worker submits it
	Key      SourceKey       `json:"key"`                // where the idempotency key comes from
	Proposal *string         `json:"proposal,omitempty"` // mode inline: JSON pointer to the proposal; "" is the whole body
	Corrects string          `json:"corrects,omitempty"` // JSON pointer to what a correction says of the event it corrects (K10)
	Signed   bool            `json:"signed,omitempty"`   // every delivery must be signed by the source's sender
	MaxBytes int64           `json:"max_bytes"`          // of the largest body
	Schema   json.RawMessage `json:"schema,omitempty"`   // JSON Schema of the body; any object where there is none
}

// SourceKey says where an event's idempotency key comes from (K1): one member is set.
type SourceKey struct {
	Header     string   `json:"header,omitempty"`     // an HTTP or NATS header
	CloudEvent bool     `json:"cloudevent,omitempty"` // CloudEvents source and id
	Pointers   []string `json:"pointers,omitempty"`   // JSON pointers into the body, whose values are joined
	Expression string   `json:"expression,omitempty"` // CEL over body and headers
}

// ActionInfo is one action type that proposals may name.
type ActionInfo struct {
	ActionType string          `json:"action_type"`
	Risk       string          `json:"risk"` // low, medium or high
	Reversible bool            `json:"reversible"`
	Schema     json.RawMessage `json:"schema"` // JSON Schema of proposed_change
}
