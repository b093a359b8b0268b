package world

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Proof is what a story must come to outside: at the provider, by its own record of what it was asked.
type Proof struct {
	Calls   int // that asked the provider to write
	Objects int // that it has now, for all of them together
}

// Proves holds one operation of an event, that of its intent's revision, to four promises, none of which is read from what we
// say of ourselves where the provider can be asked:
//
//  1. the provider was asked to write as often as the proof says, each time under one and the same key;
//  2. what was authorized did not change: one intent hash from the intent to the effect, and every request with the same bytes;
//  3. what the provider made is the only one, and is the one that we know (the effect's external id);
//  4. nothing was written again before the provider had been asked whether it was there already.
func (w *World) Proves(e Event, revision int, want Proof) {
	w.t.Helper()
	operation := ledger.OperationID(e.RunID(), revision, 1)
	asked, err := w.Sandbox.Requests(context.Background(), sandbox.Filter{Reference: operation})
	require.NoError(w.t, err)
	writes, err := w.Sandbox.Writes(context.Background(), sandbox.Filter{Reference: operation})
	require.NoError(w.t, err)
	w.provesCalls(operation, asked, want.Calls)
	w.provesHash(e, revision)
	w.provesObject(operation, writes, want.Objects)
	w.provesLooks(operation, asked)
}

// provesCalls is promises 1 and, of the bytes that left, 2.
func (w *World) provesCalls(operation string, asked []sandbox.Request, want int) {
	w.t.Helper()
	var bodies, keys []string
	calls := 0
	for _, r := range asked {
		if r.Writes() {
			calls++
			bodies, keys = append(bodies, r.BodySHA256), append(keys, r.IdempotencyKey)
		}
	}
	require.Equal(w.t, want, calls, "%s: requests to write: %+v", operation, asked)
	require.LessOrEqual(w.t, len(distinct(bodies)), 1, "%s was sent with other bytes again", operation)
	require.LessOrEqual(w.t, len(distinct(keys)), 1, "%s was sent under another key again", operation)
}

// provesHash is promise 2. What was never authorized has no effect, and then there is nothing that could have changed.
func (w *World) provesHash(e Event, revision int) {
	w.t.Helper()
	hashes := w.Count(`select count(distinct h) from (
  select intent_hash as h from intents where run_id = $1 and revision = $2
  union all select intent_hash from effects where run_id = $1 and revision = $2
  union all select a.intent_hash from authorizations a join effects e using (tenant_id, run_id, authorization_id)
    where e.run_id = $1 and e.revision = $2) t`, e.RunID(), revision)
	require.EqualValues(w.t, 1, hashes, "%s: what was authorized has changed", e.Key)
	digests := w.Count(`select count(distinct request_digest) from effect_attempts where run_id = $1 and revision = $2`, e.RunID(), revision)
	require.LessOrEqual(w.t, digests, int64(1), "%s: the attempts did not ask for the same", e.Key)
}

// provesObject is promise 3.
func (w *World) provesObject(operation string, writes []sandbox.Write, want int) {
	w.t.Helper()
	var objects []string
	for _, made := range writes {
		name := made.ObjectID
		if made.Operation == sandbox.Update {
			name = made.UpdateID
		}
		objects = append(objects, name)
	}
	require.Len(w.t, distinct(objects), want, "%s: what the provider made: %+v", operation, writes)
	require.Len(w.t, objects, want, "%s: each was made once: %+v", operation, writes)
	known := Value[[]string](w, `select coalesce(array_agg(external_id), '{}') from effects
where operation_id = $1 and external_id is not null`, operation)
	require.Subset(w.t, objects, known, "%s: we know an object that the provider does not have", operation)
}

// provesLooks is promise 4.
func (w *World) provesLooks(operation string, asked []sandbox.Request) {
	w.t.Helper()
	looked := true
	for _, r := range asked {
		switch {
		case r.Writes():
			require.True(w.t, looked, "%s was sent again before anybody looked: %+v", operation, asked)
			looked = false
		case r.Operation == sandbox.Lookup:
			looked = true
		}
	}
}

func distinct(texts []string) []string {
	sorted := slices.Sorted(slices.Values(texts))
	return slices.Compact(sorted)
}
