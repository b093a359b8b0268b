package dispatcher

import (
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// slots counts the calls in flight of each connector of each tenant, so that no more is leased than can be sent at once
// (a leased effect does not wait, D15), and so that a slow one takes nobody else's (D11).
type slots struct {
	mu     sync.Mutex
	taken  map[string]int
	hungry map[string]bool // the last lease found no slot free or used them all: more may be waiting
}

// slotOf names the counter of an effect.
func slotOf(e *ledger.Leased) string { return e.TenantID + "/" + e.Connector }

// take reserves every free slot of every connector, as far as its tap allows now, until giveBack says which were used.
func (s *slots) take(targets map[string]*target, now time.Time) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken, s.hungry = map[string]int{}, map[string]bool{}
	}
	free := map[string]int{}
	for name, t := range targets {
		n := max(t.declared.Concurrency, 1) - s.taken[name]
		if n <= 0 {
			s.hungry[name] = true
		} else if n = t.tap.allow(now, n); n > 0 {
			free[name] = n
			s.taken[name] += n
		}
	}
	return free
}

// giveBack frees what was reserved and not used.
func (s *slots) giveBack(reserved, used map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range reserved {
		s.taken[name] -= n - used[name]
		s.hungry[name] = used[name] == n
	}
}

// release frees one slot and reports whether something may be waiting for it.
func (s *slots) release(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[name]--
	return s.hungry[name]
}
