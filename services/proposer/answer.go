package proposer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// envelope is the shape of a model's answer around the change. It has no place for a confidence, a priority or a wish to
// go unreviewed (M6): a model can state uncertainty, which makes a route stricter or leaves it as it is.
const envelope = `{
  "type": "object", "additionalProperties": false, "required": ["proposal", "assumptions", "uncertainty"],
  "properties": {
    "proposal": {
      "type": "object", "additionalProperties": false, "required": ["action_type", "proposed_change"],
      "properties": {"action_type": {"type": "string"}, "proposed_change": {"type": "object"}}
    },
    "assumptions": {"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1, "maxLength": 500}},
    "uncertainty": {"enum": ["low", "medium", "high"]}
  }
}`

var envelopeShape = config.MustValidator("answer", []byte(envelope))

// changeAt is where the change stands in an answer.
const changeAt = "/proposal/proposed_change"

// answers checks what a model says against what a source allows it to say.
type answers struct {
	kinds  map[string]*config.Validator // of the changes, by action type
	schema canonical.Value              // as the endpoint is given it
}

// newAnswers compiles the schemas of the action types that may be proposed.
func newAnswers(t *config.Tenant, p *config.Draft) (*answers, error) {
	a := &answers{kinds: map[string]*config.Validator{}}
	var actions []*config.Action
	for _, kind := range p.ActionTypes {
		action := t.Action(kind)
		if action == nil {
			return nil, fmt.Errorf("action type %s is not registered", kind)
		}
		checks, err := config.NewValidator(kind, action.Schema)
		if err != nil {
			return nil, err
		}
		a.kinds[kind] = checks
		actions = append(actions, action)
	}
	var err error
	a.schema, err = answerSchema(actions, p.Fixed)
	return a, err
}

// draftOf is what a model filled in.
type draftOf struct {
	actionType  string
	change      canonical.Value // with the members that the event fixes
	assumptions []string
	uncertainty string
}

// read holds an answer's text to its shape and its change to the action's schema (M2). Text after the document, repeated
// members, numbers and characters that cannot be kept faithfully make it invalid; nothing is mended here.
func (a *answers) read(text string, fixed []canonical.Member) (*draftOf, []contracts.FieldError) {
	whole, err := canonical.Parse([]byte(text))
	var malformed *canonical.Error
	if errors.As(err, &malformed) {
		return nil, mistake(malformed.Path, "the answer must be one JSON object and nothing else; at byte %d: %s",
			malformed.Offset, malformed.Reason)
	}
	if errs := envelopeShape.Check(whole); len(errs) > 0 {
		return nil, errs
	}
	kind := textAt(whole, "/proposal/action_type")
	checks := a.kinds[kind]
	if checks == nil {
		return nil, mistake("/proposal/action_type", "must be one of the schema's action types")
	}
	proposed, _ := whole.Pointer(changeAt)
	change, errs := withFixed(proposed, fixed)
	if len(errs) == 0 {
		errs = checks.Check(change)
	}
	for i := range errs {
		errs[i].Pointer = changeAt + errs[i].Pointer
	}
	if len(errs) > 0 {
		return nil, errs
	}
	d := &draftOf{actionType: kind, change: change, uncertainty: textAt(whole, "/uncertainty")}
	list, _ := whole.Get("assumptions")
	for item := range list.Items() {
		d.assumptions = append(d.assumptions, item.Text())
	}
	return d, nil
}

func mistake(pointer, format string, args ...any) []contracts.FieldError {
	return []contracts.FieldError{{Pointer: pointer, Detail: fmt.Sprintf(format, args...)}}
}

// withFixed adds the members that the event fixes. A model that fills one in itself was not asked to.
func withFixed(change canonical.Value, fixed []canonical.Member) (canonical.Value, []contracts.FieldError) {
	var errs []contracts.FieldError
	for _, f := range fixed {
		if _, given := change.Get(f.Name); given {
			errs = append(errs, mistake("/"+f.Name, "is not yours to fill in; leave it out")...)
		}
	}
	if len(errs) > 0 {
		return change, errs
	}
	members := fixed[:len(fixed):len(fixed)]
	for name, value := range change.Members() {
		members = append(members, canonical.Member{Name: name, Value: value})
	}
	whole, err := canonical.NewObject(members...)
	if err != nil { // names are different and sound: both sides were parsed
		return change, mistake("", "cannot be put together: %v", err)
	}
	return whole, nil
}

// complete puts the draft into the proposal that the event began.
func (d *draftOf) complete(p contracts.Proposal) contracts.Proposal {
	p.ActionType = d.actionType
	p.ProposedChange = json.RawMessage(d.change.AppendCanonical(nil))
	p.Assumptions = d.assumptions
	p.Uncertainty = d.uncertainty
	return p
}

// list is what is wrong, for a model to mend or an operator to read.
func list(errs []contracts.FieldError) string {
	var b strings.Builder
	for i, e := range errs {
		if i > 0 {
			b.WriteByte('\n')
		}
		if e.Pointer != "" {
			b.WriteString(e.Pointer + " ")
		}
		b.WriteString(e.Detail)
	}
	return b.String()
}

// clip cuts a text to so many bytes, between characters.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
