package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is one thing that happened to a run (O1). What is a move of the audit's, or one of the Step… constants for what other rows of
// the record say.
type Step struct {
	At       time.Time
	Actor    string // a service, a person's id, a model or a channel
	What     string
	From, To string          // states; "" where the step moves nothing
	Facts    json.RawMessage // an object, or null
}

// Steps that are no moves.
const (
	StepPropose = "step_propose" // a draft was handed in; by the model, where one is named
	StepTell    = "step_tell"    // somebody was told; by the channel
	StepSend    = "step_send"    // an attempt began
	StepAnswer  = "step_answer"  // what came of it
	StepLook    = "step_look"    // the provider was asked what became of it
	StepHear    = "step_hear"    // the provider told by itself; by the connector
)

// runRecord is what the timeline reads of an explained run.
type runRecord struct {
	Intents []struct {
		Revision int             `json:"revision"`
		Action   string          `json:"action_type"`
		Model    json.RawMessage `json:"model"`
		Hash     string          `json:"intent_hash"`
		At       time.Time       `json:"at"`
	} `json:"intents"`
	Approvals []struct {
		Notifications []struct {
			Channel string     `json:"channel"`
			Kind    string     `json:"kind"`
			SentAt  *time.Time `json:"sent_at"`
		} `json:"notifications"`
	} `json:"approvals"`
	Effects []struct {
		Operation string           `json:"operation_id"`
		Connector string           `json:"connector"`
		Attempts  []attemptRecord  `json:"attempts"`
		Lookups   []map[string]any `json:"lookups"`
	} `json:"effects"`
	ProviderEvents []struct {
		ID        string    `json:"event_id"`
		Connector string    `json:"connector"`
		At        time.Time `json:"received_at"`
		External  string    `json:"external_id"`
		Status    string    `json:"status"`
		State     string    `json:"state"`
		Detail    string    `json:"detail"`
	} `json:"provider_events"`
	History []struct {
		At    time.Time       `json:"at"`
		Actor string          `json:"actor"`
		Move  string          `json:"move"`
		From  string          `json:"from"`
		To    string          `json:"to"`
		Facts json.RawMessage `json:"detail"`
	} `json:"history"`
}

type attemptRecord struct {
	Attempt    int        `json:"attempt"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Class      string     `json:"class"`
	Sent       bool       `json:"sent"`
	HTTPStatus int        `json:"http_status"`
	Receipt    string     `json:"external_id"`
	Request    string     `json:"provider_request_id"`
	Detail     string     `json:"detail"`
}

// Timeline puts what Explain tells of a run into one order, the oldest first: nothing is asked of the database for it. Who was told is
// named by the channel alone, since a recipient is an address.
func Timeline(explained json.RawMessage) ([]Step, error) {
	var r runRecord
	if err := json.Unmarshal(explained, &r); err != nil {
		return nil, fmt.Errorf("read the record of a run: %w", err)
	}
	var steps []Step
	for _, h := range r.History {
		// Attempts and lookups are rows of their own, which say more.
		if h.Move != "lease" && h.Move != "look" && h.Move != "verify_again" {
			steps = append(steps, Step{At: h.At, Actor: h.Actor, What: h.Move, From: h.From, To: h.To, Facts: h.Facts})
		}
	}
	moves := slices.Clone(steps)
	for _, s := range r.steps() {
		s.At = together(s, moves)
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Or(a.At.Compare(b.At), a.rank()-b.rank()) })
	return steps, nil
}

// sameStatement is how far the times can lie apart that one statement gives to its rows.
const sameStatement = 100 * time.Millisecond

// together is when a step was, next to the moves: what was found out comes with the move that it led to, and nothing was before the
// claim.
func together(s Step, moves []Step) time.Time {
	at := s.At
	for _, m := range moves { // in their order: the last one that fits is the nearest
		after := s.At.Sub(m.At)
		if m.What == "claim" && after < 0 || s.What == StepLook && m.Actor == s.Actor && after >= 0 && after < sameStatement {
			at = m.At
		}
	}
	return at
}

// rank orders what was at one time: the claim, then what was said or found out, then what followed from it.
func (s Step) rank() int {
	switch {
	case s.What == "claim":
		return 0
	case strings.HasPrefix(s.What, "step_"):
		return 1
	}
	return 2
}

// steps are those that the audit does not have.
func (r *runRecord) steps() []Step {
	var steps []Step
	add := func(at time.Time, actor, what string, facts any) {
		text, _ := json.Marshal(facts) // texts, numbers and JSON that was parsed before always marshal
		steps = append(steps, Step{At: at, Actor: actor, What: what, Facts: text})
	}
	for _, n := range r.Intents {
		add(n.At, modelName(n.Model), StepPropose, map[string]any{"revision": n.Revision, "action_type": n.Action, "intent_hash": n.Hash,
			"model": n.Model})
	}
	for _, a := range r.Approvals {
		for _, n := range a.Notifications {
			if n.SentAt != nil {
				add(*n.SentAt, n.Channel, StepTell, map[string]any{"kind": n.Kind, "channel": n.Channel})
			}
		}
	}
	for _, e := range r.Effects {
		for _, t := range e.Attempts {
			add(t.StartedAt, Dispatcher, StepSend, map[string]any{"operation_id": e.Operation, "connector": e.Connector,
				"attempt": t.Attempt})
			if t.FinishedAt != nil {
				add(*t.FinishedAt, e.Connector, StepAnswer, t)
			}
		}
		for _, look := range e.Lookups {
			at, _ := time.Parse(time.RFC3339Nano, fmt.Sprint(look["looked_at"]))
			add(at, Reconciler, StepLook, map[string]any{"operation_id": e.Operation, "verdict": look["verdict"],
				"external_id": look["external_id"], "evidence": look["evidence"]})
		}
	}
	for _, p := range r.ProviderEvents {
		add(p.At, p.Connector, StepHear, map[string]any{"provider_event": p.ID, "status": p.Status, "external_id": p.External,
			"state": p.State, "detail": p.Detail})
	}
	return steps
}

// modelName is the model that drafted, "" where none is named.
func modelName(model json.RawMessage) string {
	var m struct{ Name string }
	_ = json.Unmarshal(model, &m) // of another shape it names none
	return m.Name
}
