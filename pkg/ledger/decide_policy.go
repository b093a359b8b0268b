package ledger

import (
	"errors"

	"github.com/google/uuid"
)

// ErrOutdatedPolicy means that a decision was made under a version of the policy that is not the active one at the moment of its
// commit. It was not stored: read the active version, and decide again (P7).
var ErrOutdatedPolicy = errors.New("the decision was made under a policy that is not active now")

// decidedRun is what became of a decision: its run moved, or it was outdated.
type decidedRun struct {
	RunID    uuid.UUID
	Outdated bool
}

// movedOf tells of the outdated decisions of a batch, and returns the runs of those that were stored.
func movedOf(batch []*decision, found []decidedRun, outdated func(*decision)) []uuid.UUID {
	moved := make([]uuid.UUID, 0, len(found))
	late := map[uuid.UUID]bool{}
	for _, f := range found {
		if f.Outdated {
			late[f.RunID] = true
		} else {
			moved = append(moved, f.RunID)
		}
	}
	if len(late) == 0 {
		return moved
	}
	for _, d := range batch {
		if late[d.Intent.RunID] {
			outdated(d)
		}
	}
	return moved
}
