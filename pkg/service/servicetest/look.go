package servicetest

import (
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Items are the events in the event log with this bus subject, oldest first, as the broker would deliver them.
func (w *World) Items(subject string) []bus.Item {
	w.t.Helper()
	rows, err := w.Owner.Query(w.t.Context(),
		`select payload from event_log where subject = $1 order by event_id`, subject)
	require.NoError(w.t, err)
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	require.NoError(w.t, err)
	items := make([]bus.Item, len(payloads))
	for i, payload := range payloads {
		items[i] = bus.Item{
			Stream: bus.InternalStream, Subject: subject, Data: payload, StreamSeq: uint64(i + 1), NumDelivered: 1,
		}
	}
	return items
}

// Look reads the effect of a key as the reconciler sees it.
func (w *World) Look(key string) ledger.Open {
	w.t.Helper()
	open, err := w.Operator.Open(w.t.Context(), []ledger.EffectKey{Effect(key)})
	require.NoError(w.t, err)
	require.Len(w.t, open, 1)
	return open[0]
}

// Attempt is one attempt as it is stored. Class is "" while nothing was reported.
type Attempt struct {
	Attempt    int
	Class      string
	Sent       bool
	HTTPStatus int
	ExternalID string
	RequestID  string
	Digest     []byte
	Detail     string
}

// Attempts reads the attempts of the effect of a key.
func (w *World) Attempts(key string) []Attempt {
	w.t.Helper()
	rows, err := w.Owner.Query(w.t.Context(), `
select attempt, coalesce(class, ''), coalesce(sent, false), coalesce(http_status, 0), coalesce(external_id, ''),
  coalesce(provider_request_id, ''), request_digest, coalesce(detail, '')
from effect_attempts where run_id = $1 order by attempt`, Effect(key).RunID)
	require.NoError(w.t, err)
	attempts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Attempt])
	require.NoError(w.t, err)
	return attempts
}

// Writes are the writes that the sandbox accepted for the effect of a key.
func (w *World) Writes(key string) []sandbox.Write {
	w.t.Helper()
	writes, err := w.Sandbox.Writes(w.t.Context(), sandbox.Filter{Reference: Effect(key).OperationID()})
	require.NoError(w.t, err)
	return writes
}

// Fault installs one fault and returns its id.
func (w *World) Fault(match sandbox.Match, fault sandbox.Fault) string {
	w.t.Helper()
	ids, err := w.Sandbox.Fault(w.t.Context(), sandbox.Rule{Match: match, Fault: fault})
	require.NoError(w.t, err)
	return ids[0]
}

// Heal removes all faults. Requests that are inside one stay there.
func (w *World) Heal() {
	w.t.Helper()
	require.NoError(w.t, w.Sandbox.ClearFaults(w.t.Context()))
}

// DueNow makes the next look at every open effect due, as if the time had passed.
func (w *World) DueNow() {
	w.t.Helper()
	w.Exec(`update effects set next_check_at = clock_timestamp() where open and state <> 'held'`)
}

// Settle makes a move of the reconciler or the operator without asking anybody.
func (w *World) Settle(l *ledger.Ledger, command string, s ledger.Settlement) {
	w.t.Helper()
	moved, err := l.Settle(w.t.Context(), command, []ledger.Settlement{s})
	require.NoError(w.t, err)
	require.Equal(w.t, []bool{true}, moved, "the move %s was not made", s.Move)
}
