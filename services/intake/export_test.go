package intake

import (
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// RulesWait is how long a start with newer rules waits, against the longest that a statement under the older ones can
// run.
const (
	RulesWait        = rulesWait
	LongestStatement = postgres.DefaultStatementTimeout
)

// Quick are settings of an intake that starts without waiting for statements under older rules, of which there are
// none, and stops without waiting long for messages.
func (s Settings) Quick() Settings {
	s.rulesWait, s.idleWait = time.Millisecond, 20*time.Millisecond
	return s
}

// Handler is the HTTP door.
func (in *Intake) Handler() http.Handler { return (&httpDoor{in}).routes() }

// Waiting is how many callers wait for a run's end.
func (in *Intake) Waiting() int { return len(in.waiters) }

// LongestHeaders bounds the headers of an event, in bytes.
const LongestHeaders = maxHeaderBytes
