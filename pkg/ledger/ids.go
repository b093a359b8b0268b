package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// idVersion goes into every derived id, so that a change of the derivation can never produce an id of another rule.
const idVersion = "holdpoint-run-1"

// RunID is the id of the run that a key names within a tenant: the first 128 bits of SHA-256 over version, tenant and key. The
// same delivery therefore finds the same row wherever it arrives, with no read before the write (K2). The key itself is stored
// and compared as well.
func RunID(tenant, key string) uuid.UUID {
	h := sha256.New()
	for _, part := range []string{idVersion, tenant, key} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return uuid.UUID(h.Sum(nil)[:16])
}

// OperationID names one external write: run (itself a digest of version, tenant and key), revision of the intent, ordinal of
// the action. It never changes, whoever retries (D2).
func OperationID(run uuid.UUID, revision, ordinal int) string {
	return "op1-" + run.String() + "-" + strconv.Itoa(revision) + "-" + strconv.Itoa(ordinal)
}

// ParseOperationID is the run, revision and ordinal that an operation id names.
func ParseOperationID(id string) (run uuid.UUID, revision, ordinal int, err error) {
	rest, ok := strings.CutPrefix(id, "op1-")
	if !ok || len(rest) < 40 || rest[36] != '-' {
		return run, 0, 0, fmt.Errorf("%q is not an operation id: want op1-<run id>-<revision>-<ordinal>", id)
	}
	if run, err = uuid.Parse(rest[:36]); err != nil {
		return run, 0, 0, fmt.Errorf("%q is not an operation id: %w", id, err)
	}
	if _, err := fmt.Sscanf(rest[37:], "%d-%d", &revision, &ordinal); err != nil {
		return run, 0, 0, fmt.Errorf("%q is not an operation id: want op1-<run id>-<revision>-<ordinal>", id)
	}
	if OperationID(run, revision, ordinal) != id {
		return run, 0, 0, fmt.Errorf("%q is not an operation id in its one spelling", id)
	}
	return run, revision, ordinal, nil
}

// runKey names a run.
type runKey struct {
	tenant string
	run    uuid.UUID
}

func (k runKey) compare(o runKey) int {
	return cmp.Or(strings.Compare(k.tenant, o.tenant), bytes.Compare(k.run[:], o.run[:]))
}

// inOrder sorts items by their runs, the order in which every command locks, so that two batches cannot wait for each other.
func inOrder[T any](items []T, key func(T) runKey) []T {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int { return key(a).compare(key(b)) })
	return sorted
}

// firstOfEach takes the first item of each key out of a list; no statement carries two items of one run.
func firstOfEach[T any, K comparable](items []T, key func(T) K) (firsts, rest []T) {
	seen := make(map[K]bool, len(items))
	for _, item := range items {
		if k := key(item); seen[k] {
			rest = append(rest, item)
		} else {
			seen[k] = true
			firsts = append(firsts, item)
		}
	}
	return firsts, rest
}

// newEventID mints a UUIDv7: the id carries its time, which is what the event log and the inbox are partitioned by.
func newEventID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
