package postgres

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// logTail is how much of the server's log is kept, in bytes, to explain a failed start.
const logTail = 8 << 10

// serverLog passes the server's own log on, line by line, and remembers its end.
type serverLog struct {
	logger *slog.Logger

	mu   sync.Mutex
	kept []byte
	line []byte // the unfinished last line
}

// Write never fails: a server must not stop because its log could not be passed on.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - logTail; over > 0 {
		l.kept = append(l.kept[:0], l.kept[over:]...)
	}
	l.line = append(l.line, p...)
	for {
		line, rest, found := bytes.Cut(l.line, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.logger.Log(context.Background(), levelOf(line), "postgres: "+string(line))
		l.line = append(l.line[:0], rest...)
	}
}

// levelOf keeps the routine lines of a start and of checkpoints out of an operator's way.
func levelOf(line []byte) slog.Level {
	if bytes.Contains(line, []byte("the database system is starting up")) {
		return slog.LevelDebug // Our own first attempts to connect.
	}
	if bytes.Contains(line, []byte("terminating connection due to administrator command")) {
		return slog.LevelDebug // Sessions that have not quite ended when the server is told to stop.
	}
	for _, mark := range []string{"FATAL:", "PANIC:", "WARNING:"} {
		if bytes.Contains(line, []byte(mark)) {
			return slog.LevelWarn
		}
	}
	return slog.LevelDebug
}

func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.kept))
}

func (l *serverLog) contains(text string) bool { return strings.Contains(l.tail(), text) }
