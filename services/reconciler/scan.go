package reconciler

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// scan takes up a batch of unsettled effects of every connector that is not being read from, and starts a reader for
// each: a connector that hangs holds up nobody else (D11).
func (r *Reconciler) scan(ctx context.Context) (bool, error) {
	idle := r.idle()
	if len(idle) == 0 {
		return false, nil
	}
	due, err := r.env.Ledger.Due(ctx, idle, ledger.Unsettled, batchSize, r.hold)
	if err != nil {
		return false, err
	}
	batches := map[string][]ledger.Open{}
	for i := range due {
		name := connectorOf(&due[i])
		batches[name] = append(batches[name], due[i])
	}
	for name, batch := range batches {
		r.setBusy(name, true)
		r.working.Go(func() {
			if err := r.work(ctx, batch); err != nil {
				r.env.Log.Error("what was looked up could not be stored; it is looked up again", "connector", name, "error", err)
			}
			r.setBusy(name, false)
			if len(batch) >= batchSize && ctx.Err() == nil {
				r.again()
			}
		})
	}
	return false, nil
}

// scanOverdue takes up effects that were not sent in time. They need no reading.
func (r *Reconciler) scanOverdue(ctx context.Context) (bool, error) {
	due, err := r.env.Ledger.Due(ctx, slices.Sorted(maps.Keys(r.targets)), ledger.Overdue, batchSize, r.hold)
	if err != nil || len(due) == 0 {
		return false, err
	}
	return len(due) >= batchSize, r.work(ctx, due)
}

func (r *Reconciler) idle() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var idle []string
	for _, name := range slices.Sorted(maps.Keys(r.targets)) {
		if !r.busy[name] {
			idle = append(idle, name)
		}
	}
	return idle
}

func (r *Reconciler) setBusy(name string, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[name] = busy
}

// again has the next scan come at once.
func (r *Reconciler) again() { service.WakeUp(r.wake) }

// store makes the moves under a command's name, and says in their order which were made. Where some item's data spoils the batch,
// each is stored by itself.
func (r *Reconciler) store(ctx context.Context, command string, moves []ledger.Settlement) ([]bool, error) {
	moved, err := r.env.Ledger.Settle(ctx, command, moves)
	if err == nil {
		r.count(ctx, moves, moved)
		r.env.WakeRelay()
		return moved, nil
	}
	moved = make([]bool, len(moves))
	if len(moves) == 1 || errors.Is(err, ledger.ErrUnavailable) {
		return moved, err
	}
	var errs []error
	for i := range moves {
		one, err := r.store(ctx, command, moves[i:i+1])
		moved[i] = one[0]
		errs = append(errs, err)
	}
	return moved, errors.Join(errs...)
}
