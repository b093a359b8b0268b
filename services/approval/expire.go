package approval

import "context"

const expireBatch = 200

// expire ends the runs that nobody decided in time (A9).
func (a *Approval) expire(ctx context.Context) (bool, error) {
	n, err := a.env.Ledger.ExpireApprovals(ctx, expireBatch)
	if n > 0 && err == nil {
		a.expired.Add(ctx, int64(n))
		a.env.Log.Info("approvals expired; their runs ended and nothing was sent", "approvals", n)
		a.env.WakeRelay()
	}
	return n == expireBatch, err
}

// lapse ends the runs whose better proposal nobody brought in time.
func (a *Approval) lapse(ctx context.Context) (bool, error) {
	n, err := a.env.Ledger.Lapse(ctx, expireBatch)
	if n > 0 && err == nil {
		a.env.Log.Info("proposals that were sent back were not revised in time; their runs ended and nothing was sent", "runs", n)
		a.env.WakeRelay()
	}
	return n == expireBatch, err
}
