package world

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// deliverers is how many events of a journey are on their way at once.
const deliverers = 8

// Updates makes the events of a journey of n runs.
func (w *World) Updates(n int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = w.Update()
	}
	return events
}

// Deliver sends the events, every second one over NATS, each until it is answered, and returns when all are stored.
// What is answered as stored must never be lost.
func (w *World) Deliver(events []Event) {
	w.t.Helper()
	require.NoError(w.t, w.deliverAll(events))
}

// Depart is Deliver, without waiting: the events are on their way when it returns. stored waits.
func (w *World) Depart(events []Event) (stored func()) {
	done := make(chan error, 1)
	go func() { done <- w.deliverAll(events) }()
	return func() {
		w.t.Helper()
		require.NoError(w.t, <-done)
	}
}

func (w *World) deliverAll(events []Event) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	doors := w.doors()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deliverers)
	for i, e := range events {
		group.Go(func() error {
			_, err := w.insist(ctx, e, doors[i%len(doors)])
			return err
		})
	}
	return group.Wait()
}

// Arrive waits until every run of a journey is completed, and requires the rows that every journey must end in.
func (w *World) Arrive(events []Event) {
	w.t.Helper()
	w.Until(fmt.Sprintf("%d runs completed", len(events)), func() bool {
		return w.Count("select count(*) from runs where state = $1", contracts.StateCompleted) >= int64(len(events))
	})
	require.NoError(w.t, w.compare(events))
	for _, e := range events {
		w.AwaitTold(e, contracts.TypeRunCompleted)
	}
}

// ending is what a journey of n runs leaves behind, whatever happened on the way. Attempts, lookups, inbox rows and
// events may be more: they are what misfortune costs.
var ending = []struct{ what, rows string }{
	{"runs", "runs"},
	{"runs executed", "runs where state = 'completed' and outcome = 'executed' and ended_at is not null"},
	{"originals kept", "run_payloads"},
	{"intents", "intents"},
	{"automatic decisions", "policy_decisions where route = 'auto'"},
	{"decisions", "policy_decisions"},
	{"authorizations", "authorizations"},
	{"effects", "effects"},
	{"effects completed with the provider's id", "effects where state = 'completed' and external_id <> ''"},
	{"claims in the audit", "audit_events where move = 'claim'"},
	{"authorizations in the audit", "audit_events where move = 'authorize'"},
	{"completions in the audit", "audit_events where to_state = 'completed'"},
	{"events of completion", "event_log where subject = 'holdpoint.events.demo.run.completed'"},
}

// absent is what no journey leaves behind.
var absent = []struct{ what, rows string }{
	{"effects without an authorization", `effects e where not exists (select from authorizations a
		where (a.run_id, a.intent_hash, a.authorization_id) = (e.run_id, e.intent_hash, e.authorization_id))`},
	{"attempts before their authorization", `effect_attempts t
		join effects e using (tenant_id, run_id, revision, ordinal)
		join authorizations a using (tenant_id, run_id, intent_hash, authorization_id)
		where t.started_at < a.authorized_at`},
	{"conflicts", "run_conflicts"},
	{"parked messages", "parked_messages"},
}

// compare holds Postgres and the sandbox's own ledger to what a journey must end in.
func (w *World) compare(events []Event) error {
	var problems []error
	for _, row := range ending {
		if n := w.Count("select count(*) from " + row.rows); n != int64(len(events)) {
			problems = append(problems, fmt.Errorf("%s: %d, want %d", row.what, n, len(events)))
		}
	}
	for _, row := range absent {
		if n := w.Count("select count(*) from " + row.rows); n != 0 {
			problems = append(problems, fmt.Errorf("%s: %d, want none", row.what, n))
		}
	}
	return errors.Join(append(problems, w.compareSandbox(events))...)
}

// compareSandbox asks the provider, not us: one write for each operation and none besides.
func (w *World) compareSandbox(events []Event) error {
	var references []string
	for _, e := range events {
		references = append(references, e.OperationID())
	}
	check, err := w.Sandbox.Check(context.Background(), references)
	if err != nil {
		return err
	}
	writes, err := w.Sandbox.Writes(context.Background(), sandbox.Filter{})
	if err != nil {
		return err
	}
	if check.Missing > 0 || len(check.Duplicates) > 0 || len(writes) != len(events) {
		return fmt.Errorf("the sandbox has %d writes of %d operations; missing %v, repeated %v",
			len(writes), len(events), check.MissingReferences, check.Duplicates)
	}
	return nil
}
