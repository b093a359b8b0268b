package approval

import (
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// How a field of the proposed change stands to what the target holds.
const (
	fieldChanged = "changed"
	fieldSame    = "unchanged"
	fieldNew     = "new" // the target holds nothing there
)

// compared is one leaf of the proposed change beside what the target holds now (A10).
type compared struct {
	Name          string // its JSON pointer without the first stroke
	Now, Proposed string
	NowCode, Code bool   // it is no plain text
	Change        string // one of the field… constants; "" where nothing can be compared
}

// heldView is what is known of the target.
type heldView struct {
	Told     bool // the page says what is known of it
	Declared bool // the connector can read it
	Compares bool // and says where the values are
	Answered bool
	At       time.Time
	Gone     bool
	Version  string
	Moved    bool   // the version is not the one that the proposal was made from
	Error    string // of the last try, "" where it gave an answer
	FailedAt time.Time
	Changed  int // how many of the fields differ
}

// heldOf says what is known of the target of an intent.
func (t *tenant) heldOf(s *intent.Snapshot, r *ledger.Reading) heldView {
	var read *config.Read
	if op := t.Operation(s.Connector, s.Operation); op != nil {
		read = op.Read
	}
	h := heldView{Told: true, Declared: read != nil, Compares: read.Compares(), Answered: r.Answered()}
	if r != nil {
		h.Error, h.FailedAt = r.Error, r.FailedAt
	}
	if h.Answered {
		h.At, h.Gone, h.Version = r.ReadAt, !r.Found, r.Version
		h.Moved = r.Found && s.CurrentVersion != "" && r.Version != s.CurrentVersion
	}
	return h
}

// beside puts an action beside what its target holds.
func (t *tenant) beside(s *intent.Snapshot, r *ledger.Reading) ([]compared, heldView) {
	fields, held := compare(s.Change, r), t.heldOf(s, r)
	held.Changed = changedOf(fields)
	return fields, held
}

// compare puts what would be done beside what the target holds, leaf by leaf in canonical order; arrays are compared whole. Numbers
// are the exact decimals that were hashed.
func compare(change canonical.Value, r *ledger.Reading) []compared {
	held, comparable := heldValues(r)
	var fields []compared
	for pointer, proposed := range change.Leaves() {
		c := compared{Name: nameOf(pointer), Proposed: textOf(proposed), Code: nested(proposed)}
		if now, there := held.Get(pointer); comparable && there {
			c.Now, c.NowCode, c.Change = textOf(now), nested(now), fieldChanged
			if now.Equal(proposed) {
				c.Change = fieldSame
			} else if c.Now == c.Proposed { // such as the number 1 and the text "1"
				c.Now, c.NowCode, c.Proposed, c.Code = now.String(), true, proposed.String(), true
			}
		} else if comparable {
			c.Change = fieldNew
		}
		fields = append(fields, c)
	}
	return fields
}

// heldValues are the target's values by their pointers into the change; false where there are none to compare with.
func heldValues(r *ledger.Reading) (canonical.Value, bool) {
	if !r.Answered() || !r.Found || r.Held == nil {
		return canonical.Value{}, false
	}
	held, err := canonical.Parse(r.Held)
	return held, err == nil
}

func nested(v canonical.Value) bool {
	return v.Kind() == canonical.Object || v.Kind() == canonical.Array
}

func nameOf(pointer string) string {
	if pointer == "" {
		return "(the whole change)"
	}
	return strings.TrimPrefix(pointer, "/")
}

func changedOf(fields []compared) int {
	n := 0
	for _, f := range fields {
		if f.Change == fieldChanged || f.Change == fieldNew {
			n++
		}
	}
	return n
}
