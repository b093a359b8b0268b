package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/contracts"
)

// Names of the tools.
const (
	toolSources = "list_sources"
	toolPropose = "propose_action"
	toolStatus  = "get_status"
	toolWait    = "wait_for_decision"
)

// How long calls take. MCP clients give up on a tool after a minute as a rule, and nobody learns what was answered
// then.
const (
	defaultWait = 30 * time.Second
	longestWait = 50 * time.Second
	callWithin  = 30 * time.Second
	turn        = 5 * time.Second // between two notifications of progress
)

// keyMeaning is said wherever a key is asked for (INT-07).
const keyMeaning = "The business event's own id, such as the ticket's or order's id with what happened to it: never a " +
	"new id per attempt, never a random one, no timestamp of the call. The same event has the same key for ever, and is " +
	"carried out at most once."

func (s *Server) addTools() {
	s.add(&sdk.Tool{Name: toolSources, Title: "What may be proposed",
		Description: "Lists the sources of events that you may hand in, with the schema of their events and where their " +
			"keys come from, and the types of actions that a proposal may name, with the schema of the change.",
		InputSchema: schemaOf(object{}),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}, (*toolCall).sources)
	s.add(&sdk.Tool{Name: toolPropose, Title: "Propose an action",
		Description: "Hands in one business event with the action that you propose for it. The answer means stored and " +
			"queued, not done. Whether and when it is done is not up to you: use " + toolWait + " or " + toolStatus +
			" to learn of it. If no answer comes, or it says that the outcome is unknown, call again with the same key and " +
			"the same event, unchanged.",
		InputSchema: proposeSchema(),
		Annotations: &sdk.ToolAnnotations{IdempotentHint: true},
	}, (*toolCall).propose)
	s.add(&sdk.Tool{Name: toolStatus, Title: "Where a run stands",
		Description: "Tells where the run of an event stands, and what happens next. Name it by its key or by its run id.",
		InputSchema: schemaOf(runProperties()),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}, (*toolCall).status)
	properties := runProperties()
	properties["wait_seconds"] = object{"type": "integer", "minimum": 0, "maximum": int(longestWait / time.Second),
		"description": fmt.Sprintf("How long to wait at most; %d where it is left out. People may take hours: ask again "+
			"later, rather than all the time.", int(defaultWait/time.Second))}
	s.add(&sdk.Tool{Name: toolWait, Title: "Wait for the end of a run",
		Description: "Waits for a bounded time until a run has ended, and tells where it stands then and what happens " +
			"next. That the time is over says nothing about the run: it goes on.",
		InputSchema: schemaOf(properties),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}, (*toolCall).wait)
}

// object is a JSON object of a schema.
type object map[string]any

// schemaOf is the schema of an object with these members and no others.
func schemaOf(properties object, required ...string) object {
	s := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// Bounds of texts, in characters; the API has the last word.
const (
	longestKey    = 255
	longestSource = 128
)

func text(longest int, description string) object {
	return object{"type": "string", "minLength": 1, "maxLength": longest, "description": description}
}

func runProperties() object {
	return object{
		"key":    text(longestKey, "The key that the event was proposed under."),
		"run_id": text(36, "The run's id, where the key is not known."),
	}
}

// proposeSchema is written here, and not made from a Go type, because the event goes through byte for byte: a decoded
// and encoded number may be another one.
func proposeSchema() object {
	var proposal object
	if err := json.Unmarshal(contracts.ProposalSchema(), &proposal); err != nil {
		panic(err) // embedded, and tested
	}
	delete(proposal, "$schema")
	delete(proposal, "$id")
	return schemaOf(object{
		"source": text(longestSource, "The source of events that this one belongs to, as "+toolSources+" names it, "+
			"such as crm-enrichment."),
		"key": text(longestKey, keyMeaning),
		"event": object{"type": "object",
			"description": "The whole body of the event, of the shape that the source wants: its own members, such as " +
				"event_id or ticket_id, and the proposal. Repeat it unchanged with the same key.",
			"properties": object{"proposal": proposal}},
	}, "source", "key", "event")
}

// toolCall is one call of a tool.
type toolCall struct {
	server *Server
	*sdk.CallToolRequest
}

// answer is what a tool tells where nothing went wrong.
type answer interface{ result() *sdk.CallToolResult }

// add registers a tool whose errors the model can read: a protocol error would never reach it.
func (s *Server) add(tool *sdk.Tool, do func(*toolCall, context.Context) (answer, error)) {
	s.sdk.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		told, err := do(&toolCall{s, r}, ctx)
		if err != nil {
			return refused(refusalOf(err, r.Params.Name)), nil
		}
		return told.result(), nil
	})
}

// arguments takes the arguments of a call, and no others than it knows.
func (c *toolCall) arguments(into any) error {
	decoder := json.NewDecoder(bytes.NewReader(c.Params.Arguments))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil && err != io.EOF {
		return &argumentError{err.Error()}
	}
	return nil
}

// argumentError says what is wrong with the arguments of a call.
type argumentError struct{ text string }

// Error says it.
func (e *argumentError) Error() string { return e.text }
