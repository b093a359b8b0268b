package approval

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// sinceView is what has changed since somebody decided an earlier request of the run (A17).
type sinceView struct {
	Eye      *eye
	By       string
	Mine     bool
	At       time.Time
	Decision string
	Why      []reason // why it came back
	Groups   []sinceGroup
}

// sinceGroup is one part of the card with its differences; there is none without any.
type sinceGroup struct {
	Title string
	Rows  []difference
}

// difference is one thing then and now, "" where it was not there.
type difference struct {
	What, Then, Now string
	Code            bool
}

// sinceOf compares the card with the page on which an earlier request of the run was decided: the viewer's own latest one, or else the
// latest of all. It is nil where there was none.
func (t *tenant) sinceOf(v *cardView, who *identity) (*sinceView, error) {
	if len(v.Looks) == 0 {
		return nil, nil
	}
	mine := slices.IndexFunc(v.Looks, func(l ledger.Look) bool { return l.Issuer == who.Issuer && l.Subject == who.Subject })
	look := &v.Looks[max(mine, 0)]
	then, err := intent.ReadActions(look.Canonical, look.IntentHash)
	if err != nil {
		return nil, fmt.Errorf("read the intent that %s decided before: %w", look.ReviewerID, err)
	}
	s := &sinceView{Eye: v.Eye, By: look.ReviewerID, Mine: mine >= 0, At: look.At, Decision: look.Decision,
		Why: newReasons(reasonsOf(look.Reasons), v.Why)}
	s.group("What would be done", actionDifferences(then, v.actions))
	s.group("What the target holds", targetDifferences(max(len(then), len(v.actions)), look.Seen, v.Readings))
	s.group("Evidence", evidenceDifferences(then[0].Evidence, v.actions[0].Evidence, look.At, v.Now))
	s.group("Policy", differ("Policy version", look.PolicyVersion, v.PolicyVersion, nil))
	return s, nil
}

func (s *sinceView) group(title string, rows []difference) {
	if len(rows) > 0 {
		s.Groups = append(s.Groups, sinceGroup{title, rows})
	}
}

func differ(what, then, now string, rows []difference) []difference {
	if then == now {
		return rows
	}
	return append(rows, difference{What: what, Then: then, Now: now})
}

// newReasons are those that were not given before; where all were, they are the reasons again.
func newReasons(then, now []reason) []reason {
	fresh := slices.DeleteFunc(slices.Clone(now), func(r reason) bool { return slices.Contains(then, r) })
	if len(fresh) == 0 {
		return now
	}
	return fresh
}

// actionDifferences are those between two revisions, action by action; of one and the same intent there are none.
func actionDifferences(then, now []*intent.Snapshot) []difference {
	var rows []difference
	for i := range max(len(then), len(now)) {
		var none intent.Snapshot
		was, is := &none, &none
		if i < len(then) {
			was = then[i]
		}
		if i < len(now) {
			is = now[i]
		}
		for _, row := range changeDifferences(was, is) {
			if len(then)+len(now) > 2 {
				row.What = ofAction(i+1, row.What)
			}
			rows = append(rows, row)
		}
	}
	return append(rows, intentDifferences(then[0], now[0])...)
}

func changeDifferences(then, now *intent.Snapshot) []difference {
	rows := leafDifferences(then.Change, now.Change)
	rows = differ("Action type", then.ActionType, now.ActionType, rows)
	rows = differ("Target", then.TargetSystem+" · "+then.TargetRecord, now.TargetSystem+" · "+now.TargetRecord, rows)
	rows = differ("Expected version", then.CurrentVersion, now.CurrentVersion, rows)
	return differ("Sent to", then.Destination, now.Destination, rows)
}

// intentDifferences are those of what all actions share.
func intentDifferences(then, now *intent.Snapshot) []difference {
	var rows []difference
	rows = differ("Stated uncertainty", then.Uncertainty, now.Uncertainty, rows)
	rows = differ("Workflow version", then.WorkflowVersion, now.WorkflowVersion, rows)
	for _, part := range [][2]string{{"Assumptions", "/assumptions"}, {"Model", "/model"}} {
		a, _ := then.Tree.Pointer(part[1])
		b, _ := now.Tree.Pointer(part[1])
		if !a.Equal(b) {
			rows = append(rows, difference{part[0], textOf(a), textOf(b), true})
		}
	}
	return rows
}

// leafDifferences compares two values leaf by leaf.
func leafDifferences(then, now canonical.Value) []difference {
	return differences(then.Leaves(), now.Leaves(), then.Pointer, now.Pointer)
}

// differences are those of the parts that now yields and that then had otherwise or not, and those that only then yields.
func differences(then, now iter.Seq2[string, canonical.Value], was, is func(string) (canonical.Value, bool)) []difference {
	var rows []difference
	for name, value := range now {
		before, there := was(name)
		if there && before.Equal(value) {
			continue
		}
		row := difference{What: nameOf(name), Now: textOf(value), Code: nested(value) || nested(before)}
		if there {
			row.Then = textOf(before)
		}
		rows = append(rows, row)
	}
	for name, value := range then {
		if _, there := is(name); !there {
			rows = append(rows, difference{What: nameOf(name), Then: textOf(value), Code: nested(value)})
		}
	}
	return rows
}

// targetDifferences are those of the targets of so many actions.
func targetDifferences(actions int, then, now ledger.Readings) []difference {
	var rows []difference
	for ordinal := 1; ordinal <= actions; ordinal++ {
		for _, row := range heldDifferences(then.Of(ordinal), now.Of(ordinal)) {
			if actions > 1 {
				row.What = ofAction(ordinal, row.What)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// ofAction says which action something is of.
func ofAction(ordinal int, what string) string { return fmt.Sprintf("Action %d: %s", ordinal, what) }

// heldDifferences are those of what the target held when somebody decided and what it holds now.
func heldDifferences(then, now *ledger.Reading) []difference {
	if then.Same(now) {
		return nil
	}
	rows := differ("Version", heldVersion(then), heldVersion(now), nil)
	before, _ := heldValues(then)
	after, comparable := heldValues(now)
	if !comparable || !then.Answered() {
		return rows
	}
	return append(rows, differences(before.Members(), after.Members(), before.Get, after.Get)...)
}

func heldVersion(r *ledger.Reading) string {
	switch {
	case !r.Answered():
		return "was not read"
	case !r.Found:
		return "the target was not there"
	}
	return r.Version
}

// evidenceDifferences compares what was cited by source; the same evidence is older now.
func evidenceDifferences(then, now []intent.Evidence, at, clock time.Time) []difference {
	told := func(e intent.Evidence, when time.Time) string {
		return "version " + e.Version + ", " + since(when, e.ObservedAt)
	}
	before := map[string]string{}
	for _, e := range then {
		before[e.Source] = told(e, at)
	}
	var rows []difference
	for _, e := range now {
		rows = differ(e.Source, before[e.Source], told(e, clock), rows)
		delete(before, e.Source)
	}
	for _, e := range then {
		if was, gone := before[e.Source]; gone {
			rows = append(rows, difference{What: e.Source, Then: was})
		}
	}
	return rows
}

// targetsShown names what a page showed of the targets, one after the other: other readings with the same values are no other page.
func targetsShown(all ledger.Readings) string {
	names := make([]string, len(all))
	for i, r := range all {
		if r.Answered() {
			said, _ := json.Marshal([]any{r.Found, r.Version, string(r.Held)}) // texts always marshal
			names[i] = canonical.Digest(sha256.Sum256(said)).String()
		}
	}
	return strings.TrimRight(strings.Join(names, targetSeparator), targetSeparator)
}

// targetSeparator is in no name of what was shown.
const targetSeparator = ","

// movedTargets says which targets hold something else than a page showed of the card.
func movedTargets(shown string, now *ledger.Card) string {
	if actions, err := intent.ReadActions(now.Canonical, now.IntentHash); err != nil || len(actions) == 1 {
		return "the target"
	}
	var moved []string
	then, is := shown, targetsShown(now.Readings)
	for ordinal := 1; then != "" || is != ""; ordinal++ {
		var was, held string
		was, then, _ = strings.Cut(then, targetSeparator)
		held, is, _ = strings.Cut(is, targetSeparator)
		if was != held {
			moved = append(moved, targetOf(ordinal))
		}
	}
	return strings.Join(moved, " holds and what ")
}

// targetOf names the target of one action of several.
func targetOf(ordinal int) string { return fmt.Sprintf("the target of action %d", ordinal) }
