package connectorcheck

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// tryRead reads the target after the write.
func (r *run) tryRead() error {
	if r.op.Read == nil {
		return nil
	}
	version, err := r.version("1")
	found := func(proved bool, evidence string, args ...any) {
		r.report.found(config.CapabilityRead, proved, evidence, args...)
	}
	switch {
	case err != nil:
		found(false, "the target cannot be read: %v", err)
	case r.op.Kind == config.OperationDelete:
		found(version == "", "version %s, before the write %s", cmp.Or(version, "none"), r.before)
	case r.op.Kind != config.OperationUpdate:
		found(version != "", "version %s", cmp.Or(version, "none"))
	case version == r.before:
		found(false, "version %s before the write and after it", version)
	case !r.op.Read.Compares():
		found(true, "version %s, before the write %s", version, r.before)
	default:
		seen := r.conn.Verify(r.ctx, r.first.operation, r.first.result.RecordVersion)
		found(seen.Verdict == connector.Matched, "%s; before the write version %s", seen.Evidence, r.before)
	}
	return r.ctx.Err()
}

// witness is what the target's version tells of whether something was written meanwhile.
type witness struct{ before, after, problem string }

// watched sends a write, and reads the target's version around it.
func (r *run) watched(c *call) (w witness, err error) {
	var unread error
	w.before, unread = r.version("1")
	if err := r.send(c); err != nil {
		return w, err
	}
	after, failed := r.version("1")
	if w.after = after; cmp.Or(unread, failed) != nil {
		w.problem = fmt.Sprintf("the target cannot be read: %v", cmp.Or(unread, failed))
	}
	return w, r.ctx.Err()
}

// untouched says what shows that a write changed nothing; ok is false where it did, or where nothing can show it. look is what the
// lookup of its operation id came to, and is held to be what is wanted.
func (r *run) untouched(w witness, look connector.LookupResult, wanted connector.Verdict) (evidence string, ok bool) {
	switch {
	case w.problem != "":
		return w.problem, false
	case w.after != w.before:
		return fmt.Sprintf("the target went from version %s to %s", w.before, w.after), false
	case r.op.Lookup == nil && r.op.Read == nil:
		return "nothing that is declared could show that nothing was written; declare lookup or read", false
	case r.op.Lookup != nil && !r.looksAs(look, wanted):
		return fmt.Sprintf("its lookup says %s, and not %s: %s", look.Verdict, wanted, look.Evidence), false
	}
	if r.op.Lookup != nil {
		evidence = map[connector.Verdict]string{connector.Found: "exactly one is found", connector.Absent: "it is not found"}[wanted]
	}
	if r.op.Read != nil {
		evidence += map[bool]string{true: ", and "}[evidence != ""] + "the target is still at version " + w.after
	}
	return evidence, true
}

// looksAs takes a lookup that is unclear about what was not written for as good as absence, where the target was read besides: it may be
// one of a record that another operation has written.
func (r *run) looksAs(look connector.LookupResult, wanted connector.Verdict) bool {
	if wanted == connector.Absent && look.Verdict == connector.Unclear {
		return r.op.Read != nil
	}
	id := r.first.result.ExternalID
	return look.Verdict == wanted && (wanted != connector.Found || id == "" || look.ExternalID == id)
}

// tryReplay sends the very same request again.
func (r *run) tryReplay() error {
	if !r.op.Replays {
		return nil
	}
	again := r.first
	w, err := r.watched(&again)
	if err != nil {
		return err
	}
	r.judges = append(r.judges, func() {
		first, second := r.first.result, again.result
		if !alike(first, second) {
			r.report.found(config.CapabilityReplay, false, "the key again was answered %s, and at first %s", said(second), said(first))
			return
		}
		shown, ok := r.untouched(w, r.again, connector.Found)
		if !ok && first.ExternalID != "" && r.op.Lookup == nil && r.op.Read == nil {
			shown, ok = "nothing that is declared reads it", true // the provider's own id is all there is to compare
		}
		r.report.found(config.CapabilityReplay, ok, "the key again gives the same %s; %s", cmp.Or(first.ExternalID, "answer"), shown)
	})
	return nil
}

// tryMismatch sends the key of the first write with another payload, at the version that the target has now: so that nothing but
// the key keeps it from being written.
func (r *run) tryMismatch() error {
	if r.op.KeyReusedCode == "" {
		return nil
	}
	now, err := r.version("1")
	if err != nil {
		return err
	}
	other, ok, err := r.otherPayload(cmp.Or(now, r.first.result.RecordVersion, r.before))
	if err != nil {
		return err
	}
	if !ok {
		r.report.found(config.CapabilityMismatch, false, "not exercised: give a second sample, with another change")
		return nil
	}
	w, err := r.watched(&other)
	if err != nil {
		return err
	}
	r.judges = append(r.judges, func() {
		if other.result.Class != outcome.KeyReused {
			r.report.found(config.CapabilityMismatch, false, "another payload under the key was answered %s, and not with code %q",
				said(other.result), r.op.KeyReusedCode)
			return
		}
		shown, ok := r.untouched(w, r.again, connector.Found)
		if r.op.Lookup == nil && r.op.Read == nil {
			shown, ok = "nothing that is declared reads it", true // an error code says that nothing was done
		}
		r.report.found(config.CapabilityMismatch, ok, "refused with %s; %s", said(other.result), shown)
	})
	return nil
}

// otherPayload is a request under the first one's key with another path or body; false where no sample makes one.
func (r *run) otherPayload(version string) (call, bool, error) {
	for i := range r.samples {
		other := r.samples[len(r.samples)-1-i]
		op, err := r.operation("2", other, version)
		if err != nil {
			return call{}, false, err
		}
		op.OperationID, op.IdempotencyKey = r.first.operation.OperationID, r.first.operation.IdempotencyKey
		request, err := r.conn.Prepare(r.ctx, op)
		if err != nil {
			return call{}, false, err
		}
		if !bytes.Equal(request.Body, r.first.request.Body) || request.URL != r.first.request.URL {
			return call{operation: op, request: request}, true, nil
		}
	}
	return call{}, false, nil
}

// tryConditional sends a new write that expects the version which the first one has replaced.
func (r *run) tryConditional() error {
	if r.op.Conditional == nil {
		return nil
	}
	now, err := r.version("1")
	if err != nil {
		return err
	}
	if now = cmp.Or(now, r.first.result.RecordVersion); now == r.before {
		r.report.found(config.CapabilityConditional, false, "the write left the target at version %s, so no version is out of date", now)
		return nil
	}
	stale, err := r.prepare("3", r.samples[len(r.samples)-1], r.before)
	if err != nil {
		return err
	}
	w, err := r.watched(&stale)
	if err != nil {
		return err
	}
	r.judges = append(r.judges, func() {
		if stale.result.Class != outcome.VersionConflict {
			r.report.found(config.CapabilityConditional, false, "a write at version %s, which is out of date, was answered %s", r.before,
				said(stale.result))
			return
		}
		shown, ok := r.untouched(w, r.lookFor(stale.operation), connector.Absent)
		r.report.found(config.CapabilityConditional, ok, "version %s, which is out of date, is refused with %s; %s", r.before,
			said(stale.result), shown)
	})
	return nil
}

// lookFor looks once, where the operation has a lookup.
func (r *run) lookFor(op connector.Operation) connector.LookupResult {
	if r.op.Lookup == nil {
		return connector.LookupResult{}
	}
	return r.conn.Reconcile(r.ctx, op)
}

// alike reports whether a key was answered with its first result. What was only accepted at first may be done by now.
func alike(first, second connector.Result) bool {
	done := second.Class == first.Class || first.Class == outcome.Accepted && second.Class == outcome.Succeeded
	version := second.RecordVersion == first.RecordVersion || first.RecordVersion == ""
	return done && version && second.ExternalID == first.ExternalID
}

// said is an answer in a few words.
func said(r connector.Result) string {
	text := cmp.Or(r.Detail, fmt.Sprintf("HTTP %d", r.HTTPStatus))
	if r.ExternalID != "" {
		text += " as " + r.ExternalID
	}
	return text
}
