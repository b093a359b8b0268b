package ledgerbench

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// vote approves the runs, as one person each.
func (f *flow) vote(ctx context.Context, claims []ledger.Claim) (approved int, err error) {
	waiting, err := f.waiting(ctx, claims)
	if err != nil {
		return 0, err
	}
	votes := make([]ledger.Vote, len(claims))
	for i, c := range claims {
		run := ledger.RunID(tenant, c.Key)
		votes[i] = ledger.Vote{
			CommandID: uuid.New(), TenantID: tenant, RunID: run, ApprovalID: waiting[run], Decision: ledger.Approve,
			Reviewer: ledger.Reviewer{Issuer: "https://measure.example", Subject: "nora", ID: "nora",
				Authority: []byte(`{"roles":["measure"]}`)},
			Reason: "measured", Channel: "api", Shown: c.Intent.Hash, Quorum: 1, Effects: effectsOf(c.Key),
		}
	}
	answers, err := f.approval.Vote(ctx, votes)
	for _, a := range answers {
		if a.Result == ledger.VoteApproved {
			approved++
		}
	}
	return approved, err
}

// waiting finds the approvals of the runs by their ids, in one cheap statement: how reviewers come to a request, through lists
// and cards, is no move of the ledger and not measured.
func (f *flow) waiting(ctx context.Context, claims []ledger.Claim) (map[uuid.UUID]uuid.UUID, error) {
	runs := make([]uuid.UUID, len(claims))
	for i, c := range claims {
		runs[i] = ledger.RunID(tenant, c.Key)
	}
	rows, err := f.pool.Query(ctx, `select run_id, approval_id from approvals where run_id = any($1) and state = 'pending'`, runs)
	found := make(map[uuid.UUID]uuid.UUID, len(claims))
	if err == nil {
		var run, approval uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&run, &approval}, func() error {
			found[run] = approval
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("find the approvals that wait: %w", err)
	}
	return found, nil
}
