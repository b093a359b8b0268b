package connector

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Verdicts of Verify. They are reads of the target like those of Reconcile, kept as evidence in the same way.
const (
	Matched Verdict = "matched"  // the target holds what was written
	Differs Verdict = "differs"  // at the version that the write made, or nobody knows which, it holds something else
	MovedOn Verdict = "moved_on" // it is at another version than the write made, and holds something else
)

// Verify reads the target after a write that the provider says was done, and holds it against the proposed change (R7). receipt is
// the version that the provider gave the write, "" where it gave none. Only fields that the operation's read can compare count; a
// number and the text of the same digits are alike, because many systems keep one as the other. Differs and MovedOn may come of a
// replica that lags: one such answer is no proof.
func (k *Connector) Verify(ctx context.Context, op Operation, receipt string) LookupResult {
	started := k.config.Clock()
	result := k.verify(ctx, op, receipt)
	result.StartedAt = started
	result.Duration = k.config.Clock().Sub(started)
	return result
}

func (k *Connector) verify(ctx context.Context, op Operation, receipt string) LookupResult {
	reading, err := k.ReadHeld(ctx, op)
	if err != nil {
		return unclear("%v", err)
	}
	if !reading.Found {
		return LookupResult{Verdict: Differs, Evidence: "the target does not exist", Conclusive: true}
	}
	held, err := canonical.Parse(reading.Held)
	if err != nil {
		return unclear("the operation's read compares nothing")
	}
	compared, differing := k.differing(op, held)
	if compared == 0 && reading.Version != receipt {
		return unclear("version %s; nothing of what was written can be compared", reading.Version)
	}
	result := LookupResult{Verdict: Matched, RecordVersion: reading.Version, Conclusive: true,
		Evidence: detail("version %s; of %d fields all are as written", reading.Version, compared)}
	if len(differing) > 0 {
		result.Verdict = Differs
		result.Evidence = detail("version %s; of %d fields these are not as written: %s", reading.Version, compared,
			strings.Join(differing, " "))
		if receipt != "" && reading.Version != receipt {
			result.Verdict = MovedOn
			result.Evidence = detail("%s; the write made version %s", result.Evidence, receipt)
		}
	}
	return result
}

// differing are the pointers of the proposed change at which the target holds something else.
func (k *Connector) differing(op Operation, held canonical.Value) (compared int, pointers []string) {
	read := k.operations[op.Name].declared.Read
	change, _ := op.Action.Pointer("/proposed_change")
	for pointer, written := range change.Leaves() {
		if _, comparable := read.Held(pointer); !comparable || written.Kind() == canonical.Object { // an empty one writes nothing
			continue
		}
		compared++
		if now, there := held.Get(pointer); !there && written.Kind() != canonical.Null || there && !alike(now, written) {
			pointers = append(pointers, pointer)
		}
	}
	return compared, pointers
}

// alike takes a number and a text that spells the same number for the same.
func alike(a, b canonical.Value) bool {
	return a.Equal(b) || spells(a, b) || spells(b, a)
}

func spells(text, number canonical.Value) bool {
	if text.Kind() != canonical.String || number.Kind() != canonical.Number {
		return false
	}
	spelt, err := canonical.Parse([]byte(text.Text()))
	return err == nil && spelt.Equal(number)
}

// Verify always says that it is unclear: nothing of an executor's target can be read.
func (e *Executor) Verify(_ context.Context, op Operation, _ string) LookupResult {
	return unclear("%v", fmt.Errorf("read the target of %s from executor %q: %w", op.Name, e.declared.ID, ErrNotDeclared))
}
