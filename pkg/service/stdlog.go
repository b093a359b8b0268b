package service

import (
	"log"
	"log/slog"
	"strings"
)

// unsolicited is how net/http begins to tell of bytes that a server sent before it was asked; it quotes them.
const unsolicited = "Unsolicited response received on idle HTTP channel"

// TakeStandardLog has what libraries print by package log be lines of l, and leaves out what they quote of a provider's answer, which may
// be anybody's data (D12).
func TakeStandardLog(l *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(standardLog{l})
}

type standardLog struct{ *slog.Logger }

func (s standardLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, unsolicited) {
		text = unsolicited
	}
	s.Warn("a library reports", "text", text)
	return len(line), nil
}
