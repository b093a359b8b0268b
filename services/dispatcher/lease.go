package dispatcher

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// poll leases what is due, as far as there are free slots.
func (d *Dispatcher) poll(ctx context.Context) (bool, error) {
	return false, d.lease(ctx, ledger.LeaseRequest{Due: true})
}

// lease takes effects and starts a sender for each. Without AI_ACTIONS_ENABLED, and in a process that is being stopped,
// only the inbox is written: the effects stay pending, for whoever may send them.
func (d *Dispatcher) lease(ctx context.Context, req ledger.LeaseRequest) error {
	d.leasing.Lock()
	defer d.leasing.Unlock()
	req.Owner, req.Duration = uuid.New(), d.leaseDuration()
	req.Free = map[string]int{}
	req.Heard, req.Forms = d.heard.mark.Load(), d.forms
	now := time.Now()
	if d.settings.Enabled && !d.stopping.Load() && d.heard.asked.Load() {
		if err := d.policies.Fresh(ctx); err != nil {
			return err
		}
		req.Free = d.slots.take(d.sendable(), now)
	}
	if len(req.Free) == 0 && req.Due {
		return nil
	}
	leased, err := d.env.Ledger.Lease(ctx, req)
	used := map[string]int{}
	for _, e := range leased {
		used[slotOf(&e)]++
	}
	d.slots.giveBack(req.Free, used)
	if err != nil {
		return err
	}
	lots := make(map[string]lot, len(used))
	for name, n := range used {
		lots[name] = d.targets[name].tap.took(now, n)
	}
	for i := range leased {
		name := slotOf(&leased[i])
		a := &attempt{Leased: leased[i], target: d.targets[name], taken: time.Now(), lot: lots[name]}
		d.inFlight.Go(func() { d.send(context.WithoutCancel(ctx), a) })
	}
	return nil
}

// sendable are the connectors of those tenants whose active policy can be asked again (D4). The effects of the others stay
// pending (POL-02).
func (d *Dispatcher) sendable() map[string]*target {
	usable := make(map[string]*target, len(d.targets))
	for name, t := range d.targets {
		tenant, _, _ := strings.Cut(name, "/")
		if _, err := d.policies.Of(tenant); err == nil {
			usable[name] = t
		}
	}
	return usable
}

// leaseDuration outlasts the slowest connector's attempt.
func (d *Dispatcher) leaseDuration() time.Duration {
	longest := time.Duration(0)
	for _, t := range d.targets {
		longest = max(longest, t.lasts())
	}
	return longest + d.settings.LeaseMargin
}
