package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Look is how somebody saw an earlier request of a run when they decided it, to be compared with what stands now (A17).
type Look struct {
	Issuer, Subject string
	ReviewerID      string
	Decision        string
	At              time.Time
	IntentHash      canonical.Digest
	Canonical       []byte // the intent that was shown
	Revision        int
	Reasons         json.RawMessage // why a person was asked then
	PolicyVersion   string
	Seen            Readings // what was shown of the targets, nil where nothing was
}

// mostLooks is how many are read; a request that comes back more often is compared with the latest.
const mostLooks = 20

const looksSQL = `
select v.issuer, v.subject, v.reviewer_id, v.decision, v.decided_at, n.intent_hash, n.canonical, n.revision, o.reasons,
  coalesce(d.policy_version, ''), v.seen
from approvals o join reviews v using (run_id, tenant_id, approval_id)
join intents n on n.run_id = o.run_id and n.tenant_id = o.tenant_id and n.intent_hash = o.intent_hash
left join lateral (
  select d.policy_version from policy_decisions d where d.tenant_id = o.tenant_id and d.run_id = o.run_id
    and d.intent_hash = o.intent_hash order by d.decided_at desc limit 1
) d on true
where o.run_id = $2 and o.tenant_id = $1 and o.requested_at < $3
order by v.decided_at desc limit $4`

func (l *Ledger) looks(ctx context.Context, a *ApprovalSummary) ([]Look, error) {
	rows, err := l.pool.Query(ctx, looksSQL, a.TenantID, a.RunID, a.RequestedAt, mostLooks)
	if err == nil {
		var looks []Look
		looks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k Look, err error) {
			var hash []byte
			err = row.Scan(&k.Issuer, &k.Subject, &k.ReviewerID, &k.Decision, &k.At, &hash, &k.Canonical, &k.Revision, &k.Reasons,
				&k.PolicyVersion, &k.Seen)
			copy(k.IntentHash[:], hash)
			return k, err
		})
		if err == nil {
			return looks, nil
		}
	}
	return nil, unread(fmt.Sprintf("read who decided on run %s before", a.RunID), err)
}
