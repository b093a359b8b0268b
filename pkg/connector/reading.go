package connector

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Reading is what a target holds of what a proposal would change (A10).
type Reading struct {
	Found   bool   // false where the target does not exist
	Version string // "" where it does not exist
	// Held is a canonical JSON object of JSON pointers into proposed_change, each with what the target holds there; a pointer that is
	// missing leads to nothing in the target. Nil where the operation declares no values, or the target does not exist.
	Held []byte
}

// MaxHeld bounds Held, in bytes: it is stored, and shown on a page.
const MaxHeld = 64 << 10

// ReadHeld reads the target once, by a GET, and takes out of the answer what stands beside each leaf of the proposed change. The
// error is ErrNotDeclared where the operation has no read; its text is one line and holds nothing of the answer.
func (k *Connector) ReadHeld(ctx context.Context, op Operation) (Reading, error) {
	body, version, found, err := k.readTarget(ctx, op)
	if err != nil || !found {
		return Reading{}, err
	}
	r := Reading{Found: true, Version: version}
	declared := k.operations[op.Name].declared.Read
	if !declared.Compares() {
		return r, nil
	}
	change, _ := op.Action.Pointer("/proposed_change")
	var members []canonical.Member
	for pointer := range change.Leaves() {
		at, ok := declared.Held(pointer)
		if !ok {
			continue
		}
		if value, there := body.Pointer(at); there {
			members = append(members, canonical.Member{Name: pointer, Value: value})
		}
	}
	held, err := canonical.NewObject(members...)
	if err != nil {
		return Reading{}, fmt.Errorf("compare the target of %s with what is proposed: %w", op.Name, err)
	}
	if r.Held = held.AppendCanonical(nil); len(r.Held) > MaxHeld {
		return Reading{}, fmt.Errorf("compare the target of %s with what is proposed: it holds %d bytes in those fields, and at most %d "+
			"are kept", op.Name, len(r.Held), MaxHeld)
	}
	return r, nil
}

// ReadHeld always errs with ErrNotDeclared.
func (e *Executor) ReadHeld(_ context.Context, op Operation) (Reading, error) {
	return Reading{}, fmt.Errorf("read the target of %s from executor %q: %w", op.Name, e.declared.ID, ErrNotDeclared)
}
