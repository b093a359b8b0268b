package crash

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// lookedAt has one lead approve alone, the other look at it afterwards, and the service die of the verdict (A16).
func lookedAt(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.decides(ctx, nora, ledger.BreakGlass, "", ledger.VoteApproved); err != nil {
		return err
	}
	other, err := t.signIn(ctx, sam)
	if err != nil {
		return err
	}
	card, err := other.card(ctx)
	if err != nil {
		return err
	}
	return t.dyingOver(ctx, func(ctx context.Context) error { return other.judgeGlass(ctx, card) })
}

// judgeGlass says that approving alone was right. Said again under the key of the call, it is one verdict.
func (r *reviewer) judgeGlass(ctx context.Context, card contracts.ApprovalCard) error {
	var v contracts.GlassJudgementAnswer
	status, err := r.call(ctx, http.MethodPost, "/v1/approvals/"+card.ApprovalID+"/judgement",
		contracts.GlassJudgementRequest{Verdict: contracts.VerdictRight}, &v)
	if err == nil && (status != http.StatusOK || v.Verdict != contracts.VerdictRight) {
		err = fmt.Errorf("%s judged what was approved alone, and was answered HTTP %d, %s", r.login, status, v.Verdict)
	}
	return err
}
