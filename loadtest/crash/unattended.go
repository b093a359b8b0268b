package crash

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// recalledInTime has somebody take a case back while the dispatcher is away. The wish is sent again until it is answered, and the
// dispatcher finds nothing to send when it returns (D14).
func recalledInTime(ctx context.Context, t *trial) error {
	t.down(ledger.Dispatcher)
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.effectIs(ctx, ledger.EffectPending); err != nil {
		return err
	}
	person, err := t.signIn(ctx, dora)
	if err != nil {
		return err
	}
	if err := t.dyingOver(ctx, person.takeBack); err != nil {
		return err
	}
	return t.start(ledger.Dispatcher)
}

// judged has somebody look at a case afterwards, and the service die of the verdict (P4).
func judged(ctx context.Context, t *trial) error {
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.until(ctx, "the case to be done", "r.state = 'completed'"); err != nil {
		return err
	}
	person, err := t.signIn(ctx, dora)
	if err != nil {
		return err
	}
	sample, err := person.sample(ctx)
	if err != nil {
		return err
	}
	return t.dyingOver(ctx, func(ctx context.Context) error { return person.judge(ctx, sample) })
}

// takeBack has the case not sent. Sent again, it is told that it is taken back already.
func (r *reviewer) takeBack(ctx context.Context) error {
	var v contracts.TakeBackAnswer
	status, err := r.call(ctx, http.MethodPost, "/v1/unattended/"+r.runID.String()+"/withdrawal",
		contracts.WithdrawalRequest{Reason: "The boundary is tested."}, &v)
	if err == nil && !v.TakenBack {
		err = fmt.Errorf("%s took the case back, and was answered HTTP %d, run %s", r.login, status, v.RunState)
	}
	return err
}

// sample is the id of the case's sample.
func (r *reviewer) sample(ctx context.Context) (string, error) {
	var list contracts.UnattendedList
	if _, err := r.call(ctx, http.MethodGet, "/v1/unattended", nil, &list); err != nil {
		return "", err
	}
	for _, u := range list.Samples {
		if u.RunID == r.runID.String() {
			return u.Samples[0].SampleID, nil
		}
	}
	return "", fmt.Errorf("%s is not shown the sample of run %s", r.login, r.runID)
}

// judge says that the case was right. Said again under the key of the call, it is one verdict.
func (r *reviewer) judge(ctx context.Context, sample string) error {
	var v contracts.JudgementAnswer
	status, err := r.call(ctx, http.MethodPost, "/v1/unattended/"+r.runID.String()+"/judgement",
		contracts.JudgementRequest{SampleID: sample, Verdict: contracts.VerdictRight}, &v)
	if err == nil && (status != http.StatusOK || v.Verdict != contracts.VerdictRight) {
		err = fmt.Errorf("%s judged the sample, and was answered HTTP %d, %s", r.login, status, v.Verdict)
	}
	return err
}
