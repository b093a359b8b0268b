package intent

import (
	"bytes"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// proposed are the members of a snapshot that the proposer alone fills in.
var proposed = []string{"actions", "evidence", "assumptions", "uncertainty"}

// SameProposal reports whether two snapshots propose the very same on the same evidence, whatever their revisions. A proposal that was
// sent back is not taken again as it was.
func SameProposal(a, b []byte) bool {
	one, err := canonical.Parse(a)
	other, bad := canonical.Parse(b)
	if err != nil || bad != nil {
		return false
	}
	for _, name := range proposed {
		x, _ := one.Get(name)
		y, _ := other.Get(name)
		if !bytes.Equal(x.AppendCanonical(nil), y.AppendCanonical(nil)) {
			return false
		}
	}
	return true
}
