package servicetest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Logs keeps what services logged.
type Logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes one line.
func (l *Logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String is all that was logged.
func (l *Logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Errors are the lines at level error: what somebody is alerted of.
func (l *Logs) Errors() []string {
	var errs []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level=ERROR") {
			errs = append(errs, line)
		}
	}
	return errs
}

func (l *Logs) handler() slog.Handler {
	return slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})
}
