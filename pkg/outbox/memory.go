package outbox

import (
	"maps"
	"sync"
)

// memory is what one process has seen of the streams since it started. It is safe for concurrent use.
type memory struct {
	mu       *sync.Mutex
	high     map[string]int64 // the highest sequence that each stream acknowledged to this process
	suspects map[string]int64 // what each stream had acknowledged, where it then seemed to be behind that
}

func newMemory() memory {
	return memory{mu: &sync.Mutex{}, high: map[string]int64{}, suspects: map[string]int64{}}
}

func (m memory) acknowledged() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.high)
}

func (m memory) acknowledge(high map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for stream, seq := range high {
		m.high[stream] = max(m.high[stream], seq)
	}
}

// suspect keeps what a stream had acknowledged; 0 clears it of the suspicion.
func (m memory) suspect(stream string, last int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.suspects[stream] = last
}

func (m memory) suspected(stream string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.suspects[stream]
}

// forget begins anew with a stream that has lost messages.
func (m memory) forget(stream string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.high, stream)
	delete(m.suspects, stream)
}
