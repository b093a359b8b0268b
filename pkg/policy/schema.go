package policy

import (
	"cmp"
	"strings"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// ValidationError says why a proposed change cannot be taken. It is the proposer's fault, not ours (M2, M3).
type ValidationError struct {
	Unregistered bool                   // there is no such action type
	Errors       []contracts.FieldError // pointers are into the change
}

func (e *ValidationError) Error() string {
	if e.Unregistered {
		return "the action type is not registered"
	}
	parts := make([]string, len(e.Errors))
	for i, f := range e.Errors {
		parts[i] = cmp.Or(f.Pointer, "the change") + " " + f.Detail
	}
	return strings.Join(parts, "; ")
}

// ValidateProposal checks a proposed change against the schema of its action type, as Decide does. Its error is a
// *ValidationError.
func (e *Engine) ValidateProposal(actionType string, change canonical.Value) error {
	a, registered := e.actions[actionType]
	if !registered {
		return &ValidationError{Unregistered: true}
	}
	if found := a.schema.Check(change); len(found) > 0 {
		return &ValidationError{Errors: found}
	}
	return nil
}
