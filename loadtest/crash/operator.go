package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// accountable is who the suite's operator is.
var accountable = []string{"--by", "crash suite", "--reason", "The boundary is tested."}

// resolveHeld lets an effect go again that the provider refused for want of a credential.
func resolveHeld(ctx context.Context, t *trial) error {
	if _, err := t.provoke(ctx, unauthorized); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.effectIs(ctx, ledger.EffectHeld); err != nil {
		return err
	}
	resolve := append([]string{"resolve", t.operation, "--tenant", tenant, "--not-done"}, accountable...)
	if t.side != mid {
		return t.verb(ctx, resolve...)
	}
	// The effect moves on before the command can ask what became of its COMMIT. It must find its own move all the same.
	t.cut.gate = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.verb(ctx, resolve...) })
	group.Go(func() error {
		defer close(t.cut.gate)
		select {
		case <-t.cut.made:
		case <-ctx.Done():
			return ctx.Err()
		}
		return t.until(ctx, "the effect to move on", "r.state = 'completed'")
	})
	return group.Wait()
}

// closeSwitch stops a connector, on the way over a dead operator's command, and lets it go again when an event has
// waited for it.
func closeSwitch(ctx context.Context, t *trial) error {
	on := append([]string{"--tenant", tenant, "--connector", "sandbox-crm"}, accountable...)
	if err := t.verb(ctx, append([]string{"kill-switch", "close"}, on...)...); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	// Postponed means that the dispatcher has looked at it and let it be: an effect is made to be looked at five
	// seconds on.
	err := t.until(ctx, "the effect to be held back",
		"e.state = 'pending' and e.attempts = 0 and e.next_check_at < e.created_at + interval '4 seconds'")
	writes, readErr := t.provider.Writes(ctx, sandbox.Filter{Reference: t.operation})
	if err = errors.Join(err, readErr); err == nil && len(writes) > 0 {
		err = errors.New("the provider has a write that the closed switch should have stopped (D9)")
	}
	return errors.Join(err, t.mustOperate(ctx, append([]string{"kill-switch", "open", "--ramp", "0"}, on...)...))
}

// recallDraft recalls what the suite's workflow drafts from now on, on the way over a dead operator's command, sees that an event is
// held that comes while it stands, and lets it go again (D16).
func recallDraft(ctx context.Context, t *trial) error {
	id := uuid.NewString()
	start := append([]string{"recall", "start", "--tenant", tenant, "--id", id, "--workflow", "crm-enrichment@3",
		"--since", time.Now().UTC().Format(time.RFC3339)}, accountable...)
	if err := t.verb(ctx, start...); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	err := t.until(ctx, "the effect to be held", "e.state = 'held' and e.hold_reason = 'recalled' and not e.maybe_sent")
	writes, readErr := t.provider.Writes(ctx, sandbox.Filter{Reference: t.operation})
	if err = errors.Join(err, readErr); err == nil && len(writes) > 0 {
		err = errors.New("the provider has a write whose draft was recalled (D16)")
	}
	return errors.Join(err, t.mustOperate(ctx, append([]string{"recall", "lift", id, "--tenant", tenant}, accountable...)...))
}

// declareRestore says that the database was put back, on the way over a dead operator's command: an event that comes while that stands is
// looked for, and then sent once (D17).
func declareRestore(ctx context.Context, t *trial) error {
	id := uuid.NewString()
	declare := append([]string{"restore", "declare", "--id", id, "--backup-at", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)},
		accountable...)
	if err := t.verb(ctx, declare...); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	err := t.until(ctx, "the effect to be looked for", "e.restore_id = '"+id+"' and e.lookups > 0")
	return errors.Join(err, t.mustOperate(ctx, append([]string{"restore", "lift", id}, accountable...)...))
}

// activatePolicy makes another policy the active one, on the way over a dead operator's command, has an event decided under it, and
// rolls it back (P7).
func activatePolicy(ctx context.Context, t *trial) error {
	files, next := filepath.Join(t.dir, "config"), filepath.Join(t.dir, "config-"+t.key)
	if err := os.CopyFS(next, os.DirFS(files)); err != nil {
		return fmt.Errorf("write another configuration: %w", err)
	}
	rules := filepath.Join(next, "tenants", tenant, "policy.yaml")
	text, err := os.ReadFile(rules)
	if err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte("The suite sends it."), []byte("The suite sends it, by the policy of "+t.key+"."))
	if err := os.WriteFile(rules, text, 0o644); err != nil {
		return fmt.Errorf("write other rules: %w", err)
	}
	cfg, err := config.LoadDir(next)
	if err != nil {
		return err
	}
	change := func(verb, files string) []string {
		return append([]string{"policy", verb, "--config", files, "--tenant", tenant}, accountable...)
	}
	if err := t.verb(ctx, change("activate", next)...); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	var under string
	err = poll(ctx, "the event to be decided", func() (bool, error) {
		row := t.db.QueryRow(ctx, "select coalesce(max(split_part(policy_version, '/', 1)), '') from policy_decisions where run_id = $1", t.runID)
		err := row.Scan(&under)
		return under != "", err
	})
	if version := cfg.Tenants[0].PolicyVersion; err == nil && under != version {
		err = fmt.Errorf("the event was decided under policy %s, when %s was the active one (P7)", under, version)
	}
	return errors.Join(err, t.mustOperate(ctx, change("rollback", files)...))
}

// dismissEvent ends what a provider told of nothing that is known, on the way over a dead operator's command (R4).
func dismissEvent(ctx context.Context, t *trial) error {
	event := "evt-" + t.key
	if _, err := t.db.Exec(ctx, `insert into provider_events (tenant_id, connector, provider_event_id, body, body_digest, state, verdict)
values ($1, 'sandbox-crm', $2, '{}', sha256('{}'), 'unmatched', 'succeeded')`, tenant, event); err != nil {
		return fmt.Errorf("store an event of a provider: %w", err)
	}
	dismiss := append([]string{"events", "dismiss", "sandbox-crm", event, "--tenant", tenant, "--id", uuid.NewString()}, accountable...)
	if err := t.verb(ctx, dismiss...); err != nil {
		return err
	}
	var state string
	if err := t.db.QueryRow(ctx, `select state from provider_events where provider_event_id = $1`, event).Scan(&state); err != nil {
		return fmt.Errorf("read the event of the provider: %w", err)
	}
	if state != "dismissed" {
		return fmt.Errorf("the event of the provider is %s after it was dismissed (R4)", state)
	}
	return t.deliver(ctx)
}

// replayParked corrects an event that could not be read and sends it again from Postgres (B5).
func replayParked(ctx context.Context, t *trial) error {
	if err := t.deliverByNATS(ctx, []byte("no JSON")); err != nil {
		return err
	}
	var id string
	err := poll(ctx, "the event to be parked", func() (bool, error) {
		row := t.db.QueryRow(ctx,
			"select coalesce(max(parked_id::text), '') from parked_messages where headers->>'Idempotency-Key' = $1", t.key)
		err := row.Scan(&id)
		return id != "", err
	})
	if err != nil {
		return err
	}
	file := filepath.Join(t.dir, t.key+".json")
	if err := os.WriteFile(file, t.event(), 0o644); err != nil {
		return fmt.Errorf("write the corrected event: %w", err)
	}
	return t.verb(ctx, "parked", "replay", id, "--by", "crash suite", "--body", file)
}
