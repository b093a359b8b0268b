package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// What a shelf keeps in memory: the newest items within both bounds, and always the newest one. Its journal keeps all.
const (
	shelfItems = 2000
	shelfBytes = 64 << 20
)

// shelf holds what arrived at the sandbox and is no write of the ledger: messages, or webhooks. Each kind has a journal
// of its own, so that a message of a megabyte delays no refund's fsync and the count of writes stays a count of effects.
type shelf[T any] struct {
	journal *journal
	news    *news
	weigh   func(*T) int // bytes of memory that an item takes, about

	mu    sync.Mutex
	items []entry[T] // oldest first
	bytes int
	last  uint64 // id of the newest
}

// entry is one line of the journal.
type entry[T any] struct {
	ID   uint64 `json:"id"` // 1, 2, 3, … in order of arrival
	Item T      `json:"item"`

	commit *commit // nil for items of a former process
}

// openShelf reads the journal at path, which it makes where it is absent.
func openShelf[T any](path string, delay time.Duration, news *news, weigh func(*T) int) (*shelf[T], error) {
	s := &shelf[T]{news: news, weigh: weigh}
	var err error
	s.journal, err = openJournal(path, delay, s.replay)
	return s, err
}

// replay takes one line of a former process.
func (s *shelf[T]) replay(line []byte) error {
	var e entry[T]
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if want := s.last + 1; e.ID != want {
		return fmt.Errorf("holds item %d where %d is due", e.ID, want)
	}
	s.keep(e)
	return nil
}

// put stores the item and returns its id once it is on disk.
func (s *shelf[T]) put(item T) (uint64, error) {
	e, err := s.add(item)
	if err != nil {
		return 0, err
	}
	if err := e.commit.wait(); err != nil {
		return 0, err
	}
	s.news.tell()
	return e.ID, nil
}

func (s *shelf[T]) add(item T) (entry[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry[T]{ID: s.last + 1, Item: item}
	line, err := json.Marshal(e)
	if err == nil {
		e.commit, err = s.journal.append(line)
	}
	if err == nil {
		s.keep(e)
	}
	return e, err
}

// keep adds the entry and drops the oldest ones beyond the bounds. It is called under the lock, or before anybody else
// can see the shelf.
func (s *shelf[T]) keep(e entry[T]) {
	s.last = e.ID
	s.items = append(s.items, e)
	s.bytes += s.weigh(&e.Item)
	for len(s.items) > 1 && (len(s.items) > shelfItems || s.bytes > shelfBytes) {
		s.bytes -= s.weigh(&s.items[0].Item)
		s.items[0] = entry[T]{} // the array lives on until the next growth; what it points to must not
		s.items = s.items[1:]
	}
}

// find returns the held entries with an id above after that the match selects, oldest first, all of them durable.
func (s *shelf[T]) find(after uint64, match func(*T) bool) ([]entry[T], error) {
	var found []entry[T]
	s.mu.Lock()
	for i := range s.items {
		if s.items[i].ID > after && match(&s.items[i].Item) {
			found = append(found, s.items[i])
		}
	}
	s.mu.Unlock()
	if len(found) == 0 {
		return nil, nil
	}
	return found, found[len(found)-1].commit.wait() // a later line is never durable before an earlier one
}

// get returns the entry with this id, or false where there is none or it is no longer held.
func (s *shelf[T]) get(id uint64) (entry[T], bool, error) {
	s.mu.Lock()
	oldest := s.last - uint64(len(s.items)) + 1
	if id < oldest || id > s.last {
		s.mu.Unlock()
		return entry[T]{}, false, nil
	}
	e := s.items[id-oldest]
	s.mu.Unlock()
	return e, true, e.commit.wait()
}

// healthy returns nil while what arrived last is on disk, or will be.
func (s *shelf[T]) healthy() error {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	_, _, err := s.get(last)
	return err
}

// inbox is all that people and programs send to the sandbox's users.
type inbox struct {
	mail  *shelf[letter]
	hooks *shelf[Hook]
}

// openInbox opens mail.log and hooks.log next to the ledger, whose lock guards the directory.
func openInbox(dir string, delay time.Duration, news *news) (*inbox, error) {
	mail, err := openShelf(filepath.Join(dir, "mail.log"), delay, news, (*letter).weight)
	if err != nil {
		return nil, err
	}
	hooks, err := openShelf(filepath.Join(dir, "hooks.log"), delay, news, (*Hook).weight)
	if err != nil {
		return nil, errors.Join(err, mail.journal.close())
	}
	return &inbox{mail: mail, hooks: hooks}, nil
}

func (i *inbox) healthy() error { return errors.Join(i.mail.healthy(), i.hooks.healthy()) }

func (i *inbox) close() error { return errors.Join(i.mail.journal.close(), i.hooks.journal.close()) }
