package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// While a request waits for people, the targets of its actions are read for them, because the approval service may call nobody (A10). A
// new request's at once, then every five minutes; after a failure in 15 s, 30 s, 1 min, 2 min, 4 min, and every 5 min from then on. Each
// action is due by itself and belongs to the connector of its own type, so that of several none waits for another's.
const (
	readingsPause  = time.Second
	readAgain      = 5 * time.Minute
	readAfterError = 15 * time.Second
	readBatch      = 16 // of each action type, and as many again of actions in requests of several
	readsAtOnce    = 8  // of one connector
	storePause     = time.Second
	longestError   = 300
)

// readable are the action types whose targets can be read, by "tenant/connector".
func readable(c *config.Config) map[string][]ledger.ActionRef {
	all := map[string][]ledger.ActionRef{}
	for _, t := range c.Tenants {
		for _, a := range t.Actions {
			if op := t.Operation(a.Connector, a.Operation); op != nil && op.Read != nil {
				name := t.ID + "/" + a.Connector
				all[name] = append(all[name], ledger.ActionRef{TenantID: t.ID, ActionType: a.Type})
			}
		}
	}
	return all
}

// readTargets takes up the requests whose targets are due to be read, of every connector that is not being read for requests yet. A
// connector that hangs holds up no other one, and no lookup.
func (r *Reconciler) readTargets(ctx context.Context) (bool, error) {
	var actions []ledger.ActionRef
	connectors := map[ledger.ActionRef]string{}
	most := 0
	free := r.free()
	for name, readable := range r.readable {
		busy := !slices.Contains(free, name)
		for _, action := range readable {
			connectors[action] = name
			action.Busy = busy
			actions = append(actions, action)
		}
		if !busy {
			most = max(most, len(readable))
		}
	}
	if most == 0 {
		return false, nil
	}
	// A connector's batch is read in readBatch / readsAtOnce = 2 rounds for each of its action types, and then in as many for actions in
	// requests of several.
	hold := time.Duration(most*readBatch/readsAtOnce)*r.longest + holdMargin
	due, err := r.env.Ledger.TakeReadings(ctx, actions, readBatch, hold)
	if err != nil {
		return false, err
	}
	batches := map[string][]ledger.Unread{}
	for _, u := range due {
		name := connectors[ledger.ActionRef{TenantID: u.TenantID, ActionType: u.ActionType}]
		batches[name] = append(batches[name], u)
	}
	for name, batch := range batches {
		r.setReading(name, true)
		r.working.Go(func() {
			if err := r.readBatch(ctx, batch); err != nil {
				r.env.Log.Error("what targets hold could not be stored; they are read again", "connector", name, "error", err)
			}
			r.setReading(name, false)
			if len(batch) >= readBatch && ctx.Err() == nil {
				service.WakeUp(r.wakeReadings)
			}
		})
	}
	return false, nil
}

// free are the connectors that are not being read for requests.
func (r *Reconciler) free() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.readable)), func(name string) bool { return r.reading[name] })
}

func (r *Reconciler) setReading(name string, reading bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading[name] = reading
}

// readBatch reads the targets and stores what they hold, each second what has come by then: a target that hangs keeps no other one from
// being shown.
func (r *Reconciler) readBatch(ctx context.Context, batch []ledger.Unread) error {
	read := make(chan ledger.ReadResult, len(batch))
	go func() {
		defer close(read)
		var group errgroup.Group
		group.SetLimit(readsAtOnce)
		for i := range batch {
			group.Go(func() error {
				read <- r.read(ctx, &batch[i])
				return nil
			})
		}
		_ = group.Wait() // read reports no errors
	}()
	var errs []error
	for more := true; more; {
		var results []ledger.ReadResult
		results, more = gather(read, storePause)
		if len(results) > 0 && ctx.Err() == nil { // what was cut off says nothing
			errs = append(errs, r.storeReadings(ctx, results))
		}
	}
	return errors.Join(errs...)
}

// gather is what comes within a while, and whether more may come.
func gather[T any](from <-chan T, within time.Duration) (all []T, more bool) {
	over := time.After(within)
	for {
		select {
		case one, open := <-from:
			if !open {
				return all, false
			}
			all = append(all, one)
		case <-over:
			return all, true
		}
	}
}

// read reads one target by a GET.
func (r *Reconciler) read(ctx context.Context, u *ledger.Unread) ledger.ReadResult {
	held, err := r.ask(ctx, u)
	if err != nil {
		return ledger.ReadResult{Unread: u, Err: short(err.Error()), Again: min(readAfterError<<min(u.Failures, 8), readAgain)}
	}
	return ledger.ReadResult{Unread: u, Found: held.Found, Version: held.Version, Held: held.Held, Again: readAgain}
}

func (r *Reconciler) ask(ctx context.Context, u *ledger.Unread) (connector.Reading, error) {
	s, err := intent.ReadAction(u.Canonical, u.IntentHash, u.Ordinal)
	if err != nil {
		return connector.Reading{}, err
	}
	t := r.targets[u.TenantID+"/"+s.Connector]
	if t == nil {
		return connector.Reading{}, fmt.Errorf("connector %s is not configured any more", s.Connector)
	}
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	effect := ledger.EffectKey{TenantID: u.TenantID, RunID: u.RunID, Revision: u.Revision, Ordinal: u.Ordinal}
	return t.conn.ReadHeld(ctx, askedOf(s, effect, u.CorrelationID))
}

// short is one line of at most longestError characters.
func short(text string) string {
	if runes := []rune(text); len(runes) > longestError {
		return string(runes[:longestError]) + "…"
	}
	return text
}

// storeReadings stores what was read. Where some item's data spoils the batch, each is stored by itself.
func (r *Reconciler) storeReadings(ctx context.Context, results []ledger.ReadResult) error {
	err := r.env.Ledger.RecordReadings(ctx, results)
	if err == nil || len(results) == 1 || errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	var errs []error
	for i := range results {
		errs = append(errs, r.storeReadings(ctx, results[i:i+1]))
	}
	return errors.Join(errs...)
}
