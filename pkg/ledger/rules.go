package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ActivateRules makes a version of a source's key and hash rules the active one (K15). From then on replicas that still run an
// older version cannot claim; changed says that such replicas may exist, so the caller must wait for their statements to end
// (the statement timeout) before it claims. A version below the active one is refused.
func (l *Ledger) ActivateRules(ctx context.Context, tenant, source string, version int) (changed bool, err error) {
	err = l.command(ctx, "activate_rules", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("activate_rules"), nil, func(tx pgx.Tx) error {
			var former, active int
			row := tx.QueryRow(ctx, `select version from source_rules where tenant_id = $1 and source = $2 for update`, tenant, source)
			if err := row.Scan(&former); err != nil && err != pgx.ErrNoRows {
				return err
			}
			row = tx.QueryRow(ctx, `insert into source_rules (tenant_id, source, version) values ($1, $2, $3)
on conflict (tenant_id, source) do update set version = greatest(source_rules.version, excluded.version),
  activated_at = case when excluded.version > source_rules.version then clock_timestamp() else source_rules.activated_at end
returning version`, tenant, source, version)
			if err := row.Scan(&active); err != nil {
				return err
			}
			if active > version {
				return fmt.Errorf("source %s of tenant %s: rules version %d is configured, but version %d is active: "+
					"events claimed since would be claimed again; configure version %d or a newer one", source, tenant, version, active, active)
			}
			changed = former != 0 && former < version
			return nil
		})
	})
	return changed, err
}
