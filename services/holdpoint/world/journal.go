package world

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// journal keeps what the services log, and shows it only where the test failed.
type journal struct {
	t      testing.TB
	logger *slog.Logger

	mu   sync.Mutex
	text bytes.Buffer
}

// mostLogged is how many bytes are kept; what comes first usually says why.
const mostLogged = 256 << 10

func newJournal(t testing.TB) *journal {
	j := &journal{t: t}
	j.logger = slog.New(slog.NewTextHandler(j, nil))
	return j
}

// Write takes one line.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text.Len() < mostLogged {
		j.text.Write(line)
	}
	return len(line), nil
}

// report shows the services' log after a failure.
func (j *journal) report() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.t.Failed() {
		j.t.Logf("what the services logged:\n%s", j.text.String())
	}
}
