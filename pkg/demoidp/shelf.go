package demoidp

import (
	"sync"
	"time"
)

// shelf keeps values for a lifetime, and at most so many of them: the oldest makes room. All values live equally long,
// so the queue of their arrival is also the queue of their expiry, and putting one costs no search.
type shelf[V any] struct {
	lifetime time.Duration
	most     int
	now      func() time.Time

	mu     sync.Mutex
	values map[string]V
	queue  []arrival
}

type arrival struct {
	id string
	at time.Time
}

func newShelf[V any](lifetime time.Duration, most int, now func() time.Time) *shelf[V] {
	return &shelf[V]{lifetime: lifetime, most: most, now: now, values: map[string]V{}}
}

// put keeps v under an id that was never used before.
func (s *shelf[V]) put(id string, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if len(s.queue) >= s.most {
		s.drop()
	}
	s.values[id] = v
	s.queue = append(s.queue, arrival{id, s.now()})
}

func (s *shelf[V]) get(id string) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	v, ok := s.values[id]
	return v, ok
}

// take is get and remove in one: of two takers one gets it.
func (s *shelf[V]) take(id string) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	v, ok := s.values[id]
	delete(s.values, id)
	return v, ok
}

// update changes a value that is still there.
func (s *shelf[V]) update(id string, change func(*V)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	v, ok := s.values[id]
	if ok {
		change(&v)
		s.values[id] = v
	}
	return ok
}

func (s *shelf[V]) removeIf(match func(V) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.values {
		if match(v) {
			delete(s.values, id)
		}
	}
}

func (s *shelf[V]) expire() {
	for len(s.queue) > 0 && s.now().Sub(s.queue[0].at) >= s.lifetime {
		s.drop()
	}
}

func (s *shelf[V]) drop() {
	delete(s.values, s.queue[0].id)
	s.queue = s.queue[1:]
}
