package world

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Exec changes rows as the superuser, past all services, and returns how many.
func (w *World) Exec(sql string, args ...any) int64 {
	w.t.Helper()
	tag, err := w.pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
	return tag.RowsAffected()
}

// Count is the one number that a query returns.
func (w *World) Count(sql string, args ...any) int64 {
	w.t.Helper()
	return Value[int64](w, sql, args...)
}

// Value is the one value that a query returns.
func Value[T any](w *World, sql string, args ...any) T {
	w.t.Helper()
	rows, err := w.pool.Query(context.Background(), sql, args...)
	require.NoError(w.t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(w.t, err, sql)
	return value
}

// State is the state of the event's run, "" while there is none.
func (w *World) State(e Event) string {
	w.t.Helper()
	var state string
	err := w.pool.QueryRow(context.Background(), "select state from runs where run_id = $1", e.RunID()).Scan(&state)
	if !errors.Is(err, pgx.ErrNoRows) {
		require.NoError(w.t, err)
	}
	return state
}

// Await waits until the event's run is in a state. A run that has ended in another will not get there.
func (w *World) Await(e Event, state string) {
	w.t.Helper()
	w.Until(e.Key+" "+state, func() bool {
		now := w.State(e)
		ended := now == contracts.StateCompleted || now == contracts.StateFailedTerminal
		require.False(w.t, ended && now != state, "the run of %s has ended as %s; %s is awaited", e.Key, now, state)
		return now == state
	})
}

// Rows is a digest of every table that a run leaves rows in: where it is the same, nothing was written.
func (w *World) Rows() map[string]string {
	w.t.Helper()
	digests := map[string]string{}
	for _, table := range []string{"runs", "run_payloads", "run_conflicts", "intents", "policy_decisions", "approvals",
		"reviews", "authorizations", "effects", "effect_attempts", "lookups", "event_log", "inbox", "audit_events",
		"parked_messages"} {
		digests[table] = Value[string](w, "select coalesce(md5(string_agg(t::text, ';' order by t::text)), '') from "+
			table+" t")
	}
	return digests
}

// Reason is one thing that bore on a decision.
type Reason struct {
	Code    string
	RuleID  string `json:"rule_id"`
	Message string
}

// Review is one recorded vote.
type Review struct {
	Decision   string
	ReviewerID string `json:"reviewer_id"`
	IntentHash string `json:"intent_hash"`
	Reason     string
	Channel    string
}

// Attempt is one of an effect's, as explain tells it.
type Attempt struct {
	Class string
	Sent  bool
}

// Calls are the attempts that may have reached the provider. On a busy machine one may end before its first byte, because leave to send is
// good for a second (D15); the next one is then the first call.
func Calls(attempts []Attempt) []Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a Attempt) bool { return a.Class == string(outcome.NotSent) && !a.Sent })
}

// Explained is the part of a run's record that tests look at (O1).
type Explained struct {
	Run struct {
		State         string
		Outcome       string
		OutcomeReason string `json:"outcome_reason"`
		CorrelationID string `json:"correlation_id"`
		TraceParent   string
		Source        string
		RequestedBy   string `json:"requested_by"`
		SentBy        string `json:"sent_by"`
	}
	Intents []struct {
		Revision int
		Model    struct{ Name, Revision string }
		Intent   struct {
			WorkflowVersion string `json:"workflow_version"`
		}
	}
	Decisions []struct {
		Route   string
		Version string `json:"policy_version"`
		Reasons []Reason
	}
	Approvals []struct {
		ID            string `json:"approval_id"`
		State         string
		Reviews       []Review
		Notifications []struct {
			Channel, Recipient, State string
			Attempts                  int
		}
		CorrelationID string `json:"correlation_id"`
		Reasons       []Reason
	}
	Authorizations []json.RawMessage
	Effects        []struct {
		OperationID   string `json:"operation_id"`
		State         string
		HoldReason    string `json:"hold_reason"`
		ExternalID    string `json:"external_id"`
		Postcondition string
		Attempts      []Attempt
		Lookups       []struct{ Verdict string }
	}
	History []struct{ Actor, Move, From, To string }
}

// Explain is what the operator's one question answers about the event's run.
func (w *World) Explain(e Event) Explained {
	w.t.Helper()
	text, err := w.Ledger.Explain(context.Background(), Tenant, e.RunID())
	require.NoError(w.t, err)
	var all Explained
	require.NoError(w.t, json.Unmarshal(text, &all), "%s", text)
	return all
}

// Writes are the sandbox's own records of what reached it for the event.
func (w *World) Writes(e Event) []sandbox.Write {
	w.t.Helper()
	writes, err := w.Sandbox.Writes(context.Background(), sandbox.Filter{Reference: e.OperationID()})
	require.NoError(w.t, err)
	return writes
}

// Fault tells the sandbox what shall go wrong.
func (w *World) Fault(rules ...sandbox.Rule) []string {
	w.t.Helper()
	ids, err := w.Sandbox.Fault(context.Background(), rules...)
	require.NoError(w.t, err)
	return ids
}
