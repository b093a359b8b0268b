package policy

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
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
		decimalFunction(),
	}
	options = append(options, ordering()...)
	options = append(options, arithmetic()...)
	return cel.NewCustomEnv(options...)
}

// variables shows one input to the rules of one action. It is read while a rule runs, and not shared.
type variables struct {
	in     *Input
	action *action
	size   int // of the input

	evidence ref.Val // made when first asked for
}

// ResolveName is how CEL reads a variable.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "action.type":
		return types.String(v.action.Type), true
	case "action.risk":
		return types.String(v.action.Risk), true
	case "action.reversible":
		return types.Bool(v.action.Reversible), true
	case "action.category":
		return types.String(v.action.Category), true
	case "proposed_change":
		return valueOf(v.in.ProposedChange), true
	case "target.system":
		return types.String(v.in.Target.System), true
	case "target.record_id":
		return types.String(v.in.Target.RecordID), true
	case "evidence":
		return v.evidenceList(), true
	case "thresholds":
		return v.action.thresholds, true
	case "current_version":
		return types.String(v.in.CurrentVersion), true
	case "workflow_version":
		return types.String(v.in.WorkflowVersion), true
	case "uncertainty":
		return types.String(v.in.Uncertainty), true
	}
	return nil, false
}

// Parent is none.
func (v *variables) Parent() cel.Activation { return nil }

func (v *variables) evidenceList() ref.Val {
	if v.evidence != nil {
		return v.evidence
	}
	items := make([]ref.Val, len(v.in.Evidence))
	for i, e := range v.in.Evidence {
		items[i] = types.NewStringInterfaceMap(types.DefaultTypeAdapter, map[string]any{
			"source": e.Source, "version": e.Version, "url": e.URL, "observed_at": e.ObservedAt,
		})
	}
	v.evidence = types.NewRefValList(types.DefaultTypeAdapter, items)
	return v.evidence
}
