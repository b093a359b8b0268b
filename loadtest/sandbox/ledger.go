package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ledger is the sandbox's memory: the durable list of accepted writes, and what follows from it.
type ledger struct {
	journal *journal
	news    *news

	mu          sync.Mutex
	writes      []*Write
	byReference map[string][]*Write
	refunds     map[string]*Write
	contacts    map[string]*contact
	externals   map[string]*Write // by external id, the write that created the contact
	records     records
	channels    map[string][]*Write
	keys        map[keyID]*keyEntry
	summary     Summary
}

// Summary counts accepted writes.
type Summary struct {
	Writes             int `json:"writes"`
	DistinctReferences int `json:"distinct_references"`
	// DuplicateWrites are accepted writes beyond the first for one reference. Every one is a broken promise of whoever
	// wrote.
	DuplicateWrites int                      `json:"duplicate_writes"`
	Unreferenced    int                      `json:"unreferenced"` // writes without any reference
	BySystem        map[string]SystemSummary `json:"by_system"`
}

// SystemSummary counts accepted writes of one system.
type SystemSummary struct {
	Writes          int `json:"writes"`
	DuplicateWrites int `json:"duplicate_writes"`
}

// openLedger reads the ledger in dir and makes the directory where it is absent.
func openLedger(dir string, delay time.Duration) (*ledger, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	l := &ledger{
		news:        newNews(),
		byReference: map[string][]*Write{},
		refunds:     map[string]*Write{},
		contacts:    map[string]*contact{},
		externals:   map[string]*Write{},
		records:     newRecords(),
		channels:    map[string][]*Write{},
		keys:        map[keyID]*keyEntry{},
		summary:     Summary{BySystem: map[string]SystemSummary{Payments: {}, CRM: {}}},
	}
	var err error
	l.journal, err = openJournal(filepath.Join(dir, "writes.log"), delay, l.replay)
	return l, err
}

// replay takes one line of a former process.
func (l *ledger) replay(line []byte) error {
	w := &Write{}
	if err := json.Unmarshal(line, w); err != nil {
		return err
	}
	if want := uint64(len(l.writes)) + 1; w.Seq != want {
		return fmt.Errorf("holds write %d where %d is due", w.Seq, want)
	}
	if w.System == Payments && w.Refund == nil {
		return fmt.Errorf("write %d is a refund without its amount", w.Seq)
	}
	l.apply(w)
	l.remember(w)
	return nil
}

// draft checks a write against the objects as they stand and fills what only they can tell. It runs under the ledger's
// lock and changes nothing.
type draft func(l *ledger, w *Write) *problem

// accept numbers the write, applies it and appends it. The caller waits for w.durable before telling anybody.
func (l *ledger) accept(w *Write, check draft) *problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Seq = uint64(len(l.writes)) + 1
	if refused := check(l, w); refused != nil {
		return refused
	}
	if w.stands != nil {
		w.commit = w.stands.commit
		return nil
	}
	line, err := json.Marshal(w)
	if err == nil {
		w.commit, err = l.journal.append(line)
	}
	if err != nil {
		return unavailable(err)
	}
	l.apply(w)
	return nil
}

// apply makes the write part of the memory. It is called under the lock, or before anybody else can see the ledger.
func (l *ledger) apply(w *Write) {
	l.writes = append(l.writes, w)
	l.count(w)
	if w.Reference != "" {
		l.byReference[w.Reference] = append(l.byReference[w.Reference], w)
	}
	switch w.System {
	case Payments:
		l.refunds[w.ObjectID] = w
	case CRM:
		l.contact(w.ObjectID).changed(w)
		if w.Operation == Create && w.ExternalID != "" {
			l.externals[w.ExternalID] = w
		}
	case HubSpot:
		l.records.changed(w)
	case Slack:
		l.channels[w.Place] = append(l.channels[w.Place], w)
	}
}

func (l *ledger) count(w *Write) {
	system := l.summary.BySystem[w.System]
	system.Writes++
	l.summary.Writes++
	switch {
	case w.Reference == "":
		l.summary.Unreferenced++
	case len(l.byReference[w.Reference]) == 0:
		l.summary.DistinctReferences++
	default:
		l.summary.DuplicateWrites++
		system.DuplicateWrites++
	}
	l.summary.BySystem[w.System] = system
}

// read runs f under the lock and returns once everything f could have seen is durable.
func (l *ledger) read(f func()) error {
	l.mu.Lock()
	f()
	var last *Write
	if n := len(l.writes); n > 0 {
		last = l.writes[n-1]
	}
	l.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.durable()
}

// referenced returns the writes of one reference in order, all of them durable.
func (l *ledger) referenced(reference string) ([]*Write, error) {
	l.mu.Lock()
	found := l.byReference[reference]
	found = found[:len(found):len(found)]
	l.mu.Unlock()
	var errs []error
	for _, w := range found {
		errs = append(errs, w.durable())
	}
	return found, errors.Join(errs...)
}

// find returns durable writes that the filter admits, oldest first.
func (l *ledger) find(filter Filter) ([]*Write, error) {
	var all []*Write
	if filter.Reference != "" {
		found, err := l.referenced(filter.Reference)
		if err != nil {
			return nil, err
		}
		all = found
	} else if err := l.read(func() { all = l.writes[:len(l.writes):len(l.writes)] }); err != nil {
		return nil, err
	}
	if filter.System == "" {
		return all, nil
	}
	var found []*Write
	for _, w := range all {
		if w.System == filter.System {
			found = append(found, w)
		}
	}
	return found, nil
}

// summarize returns the counts over durable writes.
func (l *ledger) summarize() (Summary, error) {
	var summary Summary
	err := l.read(func() {
		summary = l.summary
		summary.BySystem = map[string]SystemSummary{}
		for system, counts := range l.summary.BySystem {
			summary.BySystem[system] = counts
		}
	})
	return summary, err
}

// check compares the ledger with the references a caller expects to find.
func (l *ledger) check(references []string) (Check, error) {
	check := Check{References: len(references), Duplicates: map[string]int{}}
	err := l.read(func() {
		for _, reference := range references {
			switch n := len(l.byReference[reference]); {
			case n == 0:
				check.Missing++
				check.MissingReferences = append(check.MissingReferences, reference)
			case n > 1:
				check.Duplicates[reference] = n
			}
		}
	})
	return check, err
}
