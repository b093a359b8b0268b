package policy

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// newEnv declares what a rule can see. Names with a dot are variables of their own, so that a misspelt one is found
// when the policy is loaded.
func newEnv() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(excluded())),
		cel.Variable("action.type", cel.StringType),
		cel.Variable("action.risk", cel.StringType),
		cel.Variable("action.reversible", cel.BoolType),
		cel.Variable("action.category", cel.StringType),
		cel.Variable("proposed_change", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("target.system", cel.StringType),
		cel.Variable("target.record_id", cel.StringType),
		cel.Variable("evidence", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		cel.Variable("thresholds", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("current_version", cel.StringType),
		cel.Variable("workflow_version", cel.StringType),
		cel.Variable("uncertainty", cel.StringType),
	}
	options = append(options, functions()...)
	options = append(options, ordering()...)
	options = append(options, arithmetic()...)
	return cel.NewCustomEnv(options...)
}

// variables shows one input to the rules of one action. It is read while a rule runs, and not shared. What a proposal
// leaves out is an error to read, and no member of its evidence, so that two things that are left out are not equal
// (POL-01); uncertainty alone is "" where nothing is stated, since it can only make a route stricter.
type variables struct {
	in     *Input
	action *action
	size   int // of the input

	change, evidence ref.Val    // made when first asked for
	texts            [4]ref.Val // likewise
	slots            []ref.Val  // what rules have read, by slot
}

func newVariables(a *action, in *Input, size int) *variables {
	return &variables{in: in, action: a, size: size, slots: make([]ref.Val, a.slots)}
}

// ResolveName is how CEL reads a variable.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "proposed_change":
		if v.change == nil {
			v.change = valueOf(v.in.ProposedChange)
		}
		return v.change, true
	case "evidence":
		if v.evidence == nil {
			v.evidence = evidenceList(v.in.Evidence)
		}
		return v.evidence, true
	case "target.system":
		return v.given(0, name, v.in.Target.System), true
	case "target.record_id":
		return v.given(1, name, v.in.Target.RecordID), true
	case "current_version":
		return v.given(2, name, v.in.CurrentVersion), true
	case "workflow_version":
		return v.given(3, name, v.in.WorkflowVersion), true
	case "uncertainty":
		return types.String(v.in.Uncertainty), true
	}
	value, found := v.action.registered[name]
	return value, found
}

// Parent is none.
func (v *variables) Parent() cel.Activation { return nil }

// registered are the variables that an action type's declaration fills.
func registered(a *config.Action, thresholds ref.Val) map[string]ref.Val {
	return map[string]ref.Val{
		"action.type":       types.String(a.Type),
		"action.risk":       types.String(a.Risk),
		"action.reversible": types.Bool(a.Reversible),
		"action.category":   types.String(a.Category),
		"thresholds":        thresholds,
	}
}

func (v *variables) given(i int, name, text string) ref.Val {
	if v.texts[i] == nil {
		v.texts[i] = types.String(text)
		if text == "" {
			v.texts[i] = types.NewErr("%s is missing", name)
		}
	}
	return v.texts[i]
}

func evidenceList(evidence []Evidence) ref.Val {
	items := make([]ref.Val, len(evidence))
	objects := make([]object, len(evidence))
	room := make([]member, 0, 4*len(evidence)) // of all the items
	for i, e := range evidence {
		from := len(room)
		said := func(name, text string) {
			if text != "" {
				room = append(room, member{name, types.String(text)})
			}
		}
		if !e.ObservedAt.IsZero() {
			room = append(room, member{"observed_at", types.Timestamp{Time: e.ObservedAt}})
		}
		said("source", e.Source)
		said("url", e.URL)
		said("version", e.Version)
		objects[i] = object{seen: room[from:], made: true}
		items[i] = &objects[i]
	}
	return types.NewRefValList(types.DefaultTypeAdapter, items)
}
