package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ActivePolicy is the version of a tenant's policy by which everything is decided now (P7).
type ActivePolicy struct {
	TenantID string
	Ordinal  int64  // of its activation, from 1; it grows with each
	Version  string // hex SHA-256 of the content
}

// ActivePolicies reads the active version of every tenant that has one.
func (l *Ledger) ActivePolicies(ctx context.Context) (active []ActivePolicy, err error) {
	err = l.command(ctx, "read the active policies", func(ctx context.Context) error {
		rows, err := l.pool.Query(ctx, `select tenant_id, ordinal, version from policy_active order by tenant_id`)
		if err != nil {
			return err
		}
		active, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ActivePolicy])
		return err
	})
	return active, err
}

// ErrNoPolicyVersion means that the tenant has no stored policy of this version.
var ErrNoPolicyVersion = errors.New("no policy of this version is stored for the tenant")

// PolicyContent reads a stored version.
func (l *Ledger) PolicyContent(ctx context.Context, tenant, version string) (content []byte, err error) {
	err = l.command(ctx, "read a stored policy", func(ctx context.Context) error {
		row := l.pool.QueryRow(ctx, `select content from policy_versions where tenant_id = $1 and version = $2`, tenant, version)
		return row.Scan(&content)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("policy version %s of tenant %s: %w", version, tenant, ErrNoPolicyVersion)
	}
	return content, err
}

// PolicyHistory is one activation as it happened.
type PolicyHistory struct {
	Ordinal     int64
	Version     string
	By, Reason  string
	ActivatedAt time.Time
}

// PolicyHistory reads the tenant's activations, the newest first; the first of them is active.
func (l *Ledger) PolicyHistory(ctx context.Context, tenant string) ([]PolicyHistory, error) {
	rows, err := l.pool.Query(ctx, `select ordinal, version, activated_by, reason, activated_at from policy_activations
where tenant_id = $1 order by ordinal desc`, tenant)
	if err != nil {
		return nil, unread("read the activations of policies", err)
	}
	history, err := pgx.CollectRows(rows, pgx.RowToStructByPos[PolicyHistory])
	if err != nil {
		return nil, unread("read the activations of policies", err)
	}
	return history, nil
}

// When an activation takes place.
const (
	PolicyAlways  = iota // whatever is active
	PolicyFirst          // only where the tenant has no active policy
	PolicyUnknown        // only where the version was never stored, so that nobody has activated or left it yet
)

// PolicyActivation makes a version the active one.
type PolicyActivation struct {
	TenantID   string
	Version    string
	Content    []byte // is stored with it; nil where it must be stored already
	By, Reason string
	When       int
	After      int64 // only where the activation of this ordinal is the latest; 0 does not ask
}

// ErrPolicyMoved means that somebody has activated another version meanwhile.
var ErrPolicyMoved = errors.New("another version of the policy was activated meanwhile; look at it, then decide again")

// ActivatePolicy stores the version, where it is not, and makes it the active one for all replicas, in one transaction with the
// row that keeps who did it and why. It waits for decisions that are being stored under the former one. Nothing happens, and changed is false, where
// the version is active already or When says so; then active is what stays.
func (l *Ledger) ActivatePolicy(ctx context.Context, a PolicyActivation) (active ActivePolicy, changed bool, err error) {
	if a.By == "" || a.Reason == "" {
		return active, false, errors.New("a policy is activated by somebody and for a reason: give both")
	}
	repeated := false
	err = l.command(ctx, "activate_policy", func(ctx context.Context) error {
		defer func() { repeated = true }()
		return l.transaction(ctx, l.site("activate_policy"), nil, func(tx pgx.Tx) (err error) {
			active, changed, err = activatePolicy(ctx, tx, &a, repeated)
			return err
		})
	})
	return active, changed, err
}

// policyLock is the advisory lock that one activation of a tenant takes before another: there may be no row yet to lock.
const policyLock = 0x706f6c69

func activatePolicy(ctx context.Context, tx pgx.Tx, a *PolicyActivation, repeated bool) (ActivePolicy, bool, error) {
	active := ActivePolicy{TenantID: a.TenantID}
	if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1, hashtext($2))`, policyLock, a.TenantID); err != nil {
		return active, false, err
	}
	var stored, ours bool
	row := tx.QueryRow(ctx, `select coalesce(p.ordinal, 0), coalesce(p.version, ''),
  exists (select from policy_versions v where v.tenant_id = $1 and v.version = $2),
  exists (select from policy_activations h where h.tenant_id = $1 and h.ordinal = p.ordinal and h.version = $2
    and h.activated_by = $3 and h.reason = $4)
from (select) one left join policy_active p on p.tenant_id = $1`, a.TenantID, a.Version, a.By, a.Reason)
	if err := row.Scan(&active.Ordinal, &active.Version, &stored, &ours); err != nil {
		return active, false, err
	}
	switch {
	case active.Version == a.Version: // by this very command, where the answer to its COMMIT was lost (STO-04)
		return active, ours && repeated, nil
	case a.When == PolicyFirst && active.Ordinal > 0, a.When == PolicyUnknown && stored:
		return active, false, nil
	case a.After != 0 && a.After != active.Ordinal:
		return active, false, ErrPolicyMoved
	case a.Content == nil && !stored:
		return active, false, fmt.Errorf("policy version %s of tenant %s: %w", a.Version, a.TenantID, ErrNoPolicyVersion)
	}
	next := ActivePolicy{a.TenantID, active.Ordinal + 1, a.Version}
	batch := &pgx.Batch{}
	if !stored {
		batch.Queue(`insert into policy_versions (tenant_id, version, content) values ($1, $2, $3)`, a.TenantID, a.Version, a.Content)
	}
	batch.Queue(`insert into policy_active (tenant_id, ordinal, version) values ($1, $2, $3)
on conflict (tenant_id) do update set ordinal = excluded.ordinal, version = excluded.version`, next.TenantID, next.Ordinal, next.Version)
	batch.Queue(`insert into policy_activations (tenant_id, ordinal, version, activated_by, reason) values ($1, $2, $3, $4, $5)`,
		next.TenantID, next.Ordinal, next.Version, a.By, a.Reason)
	return next, true, tx.SendBatch(ctx, batch).Close()
}
