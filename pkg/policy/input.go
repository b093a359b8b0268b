package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Input is everything that a decision depends on besides the configuration.
type Input struct {
	ActionType      string
	Target          Target
	ProposedChange  canonical.Value
	CurrentVersion  string // of the target, as the proposer read it; "" where the type has no versions
	Evidence        []Evidence
	WorkflowVersion string
	Uncertainty     string    // "", low, medium or high; anything else counts as high
	Now             time.Time // the database's clock; counted in microseconds, as Postgres keeps it
}

// Target is the record that would change.
type Target struct{ System, RecordID string }

// Evidence is one thing that the proposer read.
type Evidence struct {
	Source, Version, URL string
	ObservedAt           time.Time
}

// inputsVersion names the layout that hash digests.
const inputsVersion = 1

// hash digests every field, each with its length before it, so that no two inputs run together. The size is that of all
// that a rule can look at: at least one for each item and each character.
func (in *Input) hash() (sum canonical.Digest, size int) {
	room, _ := rooms.Get().(*[1024]byte)
	defer rooms.Put(room)
	d := digester{buf: room[:0]}
	d.number(inputsVersion)
	d.text(in.ActionType)
	d.text(in.Target.System)
	d.text(in.Target.RecordID)
	d.value(in.ProposedChange)
	d.text(in.CurrentVersion)
	d.number(int64(len(in.Evidence)))
	for _, e := range in.Evidence {
		d.text(e.Source)
		d.text(e.Version)
		d.text(e.URL)
		d.number(e.ObservedAt.UnixNano())
	}
	d.text(in.WorkflowVersion)
	d.text(in.Uncertainty)
	d.number(in.Now.UnixMicro())
	return sha256.Sum256(d.buf), d.size
}

// rooms are used again by one decision after the other; what does not fit grows out of them.
var rooms = sync.Pool{New: func() any { return new([1024]byte) }}

// digester collects what is digested, in one pass over all of it.
type digester struct {
	buf  []byte
	size int
}

func (d *digester) number(n int64) { d.buf = binary.BigEndian.AppendUint64(d.buf, uint64(n)) }

func (d *digester) text(s string) {
	d.number(int64(len(s)))
	d.size += len(s) + 1
	d.buf = append(d.buf, s...)
}

// value stands there as its own digest, which has one length.
func (d *digester) value(v canonical.Value) {
	start := len(d.buf)
	d.buf = v.AppendCanonical(d.buf)
	d.size += len(d.buf) - start
	sum := sha256.Sum256(d.buf[start:])
	d.buf = append(d.buf[:start], sum[:]...)
}
