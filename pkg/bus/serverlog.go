package bus

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// serverLog passes the embedded server's log on. Its notices are about itself, so they are details to us.
type serverLog struct {
	logger *slog.Logger
	fatal  atomic.Pointer[string] // why the server could not start
}

// Noticef and the methods below implement the server's Logger.
func (l *serverLog) Noticef(format string, v ...any) { l.logger.Debug(line(format, v)) }

func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords detected") {
		return // They are in memory, ours, and listened for on the loopback interface alone.
	}
	l.logger.Warn(line(format, v))
}
func (l *serverLog) Errorf(format string, v ...any) { l.logger.Error(line(format, v)) }
func (l *serverLog) Debugf(format string, v ...any) { l.logger.Debug(line(format, v)) }
func (l *serverLog) Tracef(format string, v ...any) { l.logger.Debug(line(format, v)) }

// Fatalf must not end the process: the server is a part of it. The start reports the text.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &text)
	l.logger.Error("nats-server: " + text)
}

func line(format string, v []any) string { return "nats-server: " + fmt.Sprintf(format, v...) }
