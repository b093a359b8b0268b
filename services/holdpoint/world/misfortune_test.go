package world_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// runs of every journey under misfortune.
const runs = 40

// TestJourneyEndsInTheSameRowsWhateverTheWiresDo loses, repeats, delays and reorders what the services say to the
// broker and hear from it, and cuts their connections.
func TestJourneyEndsInTheSameRowsWhateverTheWiresDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		luck     world.Luck
		happened []world.Fate
	}{
		"MessagesAreDuplicated": {world.Luck{Duplicate: 0.4}, []world.Fate{world.Duplicated}},
		"MessagesAreDropped":    {world.Luck{Drop: 0.1}, []world.Fate{world.Dropped}},
		"MessagesAreDelayedAndReordered": {world.Luck{Delay: 0.15, Reorder: 0.35},
			[]world.Fate{world.Delayed, world.Reordered}},
		"BrokerConnectionsAreCut":   {world.Luck{CutBroker: 50}, []world.Fate{world.BrokerCut}},
		"DatabaseConnectionsAreCut": {world.Luck{CutDatabase: 25}, []world.Fate{world.DatabaseCut}},
		"EverythingHappensAtOnce": {
			world.Luck{Duplicate: 0.1, Drop: 0.03, Delay: 0.05, Reorder: 0.1, CutBroker: 60, CutDatabase: 60, Cuts: 8},
			[]world.Fate{world.Duplicated, world.Dropped, world.Reordered, world.DatabaseCut},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.WithLuck(c.luck))
			events := w.Updates(runs)
			w.Deliver(events)
			w.Arrive(events)
			for _, fate := range c.happened {
				require.Positive(t, w.Happened(fate), fate)
			}
		})
	}
}

// TestJourneyEndsInTheSameRowsWhateverFallsOver takes parts of the installation away, each while another share of the
// journey is on its way.
func TestJourneyEndsInTheSameRowsWhateverFallsOver(t *testing.T) {
	t.Parallel()
	crash := func(name string) func(*world.World) {
		return func(w *world.World) { w.Crash(name); w.Start(name) }
	}
	restart := func(name string) func(*world.World) {
		return func(w *world.World) { w.Stop(name); w.Start(name) }
	}
	each := func(blow func(string) func(*world.World)) (blows []func(*world.World)) {
		for _, row := range slices.Backward(roster.Services) {
			blows = append(blows, blow(row.Name))
		}
		return blows
	}
	repeat := func(n int, blow func(*world.World)) []func(*world.World) {
		return slices.Repeat([]func(*world.World){blow}, n)
	}
	const (
		leasesLost = "select count(*) from audit_events where move = 'expire_lease'"
		storesLost = "select count(*) from broker_epochs where epoch > 1"
	)
	for name, c := range map[string]struct {
		blows      []func(*world.World)
		some, none string // what must have been counted in the end, for the blows to have hit, and what must not
	}{
		"EveryServiceCrashes":         {blows: each(crash), some: leasesLost},
		"EveryServiceIsRestarted":     {blows: each(restart), none: leasesLost},
		"BrokerRestarts":              {blows: repeat(3, func(w *world.World) { w.StopBroker(); w.StartBroker() })},
		"BrokerLosesItsStore":         {blows: repeat(3, (*world.World).WipeBroker), some: storesLost},
		"AllDatabaseConnectionsBreak": {blows: repeat(5, (*world.World).CutDatabase)},
		"InboxIsEmptied":              {blows: repeat(5, func(w *world.World) { w.Exec("delete from inbox") })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.WithConfig(atOnce(4)), world.WithLuck(world.Luck{Duplicate: 0.2}))
			w.Fault(slow(400 * time.Millisecond)) // as long as a busy machine may take between the look and the blow
			var events []world.Event
			for _, blow := range c.blows {
				share := w.Updates(runs / len(c.blows))
				events = append(events, share...)
				stored := w.Depart(share)
				w.Until("a claim and a call to the provider", func() bool {
					return w.State(share[0]) != "" && sending(w) > 0
				})
				blow(w)
				defer stored()
			}
			w.Arrive(events)
			if c.some != "" {
				require.Positive(t, w.Count(c.some), c.some)
			}
			if c.none != "" {
				require.Zero(t, w.Count(c.none), c.none)
			}
		})
	}
}

// TestJourneyEndsInTheSameRowsWhateverTheProviderDoes spoils the first attempt of every operation, each share of the
// journey in its own way, all in one world at the same time.
func TestJourneyEndsInTheSameRowsWhateverTheProviderDoes(t *testing.T) {
	t.Parallel()
	// A provider that fails every first attempt would have the breaker let one effect go at a time, and the journey last for minutes.
	w := world.New(t, world.WithConfig(func(c *config.Config) {
		for _, k := range c.Tenants[0].Connectors {
			k.Breaker.Failures = 0
		}
	}))
	accepting := []sandbox.Fault{
		{Kind: sandbox.AcceptThenHang}, {Kind: sandbox.AcceptThenReset}, {Kind: sandbox.ErrorAfterAccept, Status: 503},
		{Kind: sandbox.ErrorAfterAccept, Status: 500}, {Kind: sandbox.TruncateBody},
	}
	refusing := []sandbox.Fault{
		{Kind: sandbox.HangBeforeAccept}, {Kind: sandbox.ResetBeforeAccept},
		{Kind: sandbox.ErrorBeforeAccept, Status: 500}, {Kind: sandbox.Redirect, Status: 307, Location: "/elsewhere"},
		{Kind: sandbox.RateLimit, RetryAfter: "1"},
	}
	events := w.Updates(2 * runs)
	faults := slices.Concat(accepting, refusing)
	for i, e := range events {
		w.Fault(firstAttempt(e, faults[i%len(faults)]))
	}
	w.Deliver(events)
	w.Arrive(events)
	for i, e := range events {
		effect := w.Explain(e).Effects[0]
		kind := faults[i%len(faults)]
		if i%len(faults) < len(accepting) {
			require.Len(t, world.Calls(effect.Attempts), 1, "after %+v the first attempt is found by reading and not repeated", kind)
			require.Equal(t, "found matched", effect.Lookups[len(effect.Lookups)-2].Verdict+" "+effect.Lookups[len(effect.Lookups)-1].Verdict, kind)
			continue
		}
		require.Len(t, world.Calls(effect.Attempts), 2, kind)
		if kind.Kind != sandbox.RateLimit { // which says for certain that nothing was done
			require.GreaterOrEqual(t, len(effect.Lookups), 2, "one look is no proof of absence after %+v", kind)
		}
	}
}

// TestSearchThatLagsProvesNothing has a provider accept, reset, and show the write to its search only later (REC-03).
func TestSearchThatLagsProvesNothing(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.WithSandbox(func(c *sandbox.Config) { c.CRM.IndexLag = sandbox.Duration(time.Second) }),
		world.WithConfig(func(c *config.Config) {
			for _, k := range c.Tenants[0].Connectors {
				for _, op := range k.Operations {
					if op.Lookup != nil {
						op.Lookup.IndexLag = 1500 * time.Millisecond
					}
				}
			}
		}))
	events := w.Updates(10)
	for _, e := range events {
		w.Fault(firstAttempt(e, sandbox.Fault{Kind: sandbox.AcceptThenReset}))
	}
	w.Deliver(events)
	w.Arrive(events)
	require.EqualValues(t, len(events), w.Count(maybeSent))
}

// maybeSent counts the attempts that may have reached the provider. On a busy machine one may end before its first byte, because leave to
// send is good for a second (D15).
const maybeSent = "select count(*) from effect_attempts where sent or class is null"

// sending counts the calls that are under way.
func sending(w *world.World) int64 {
	return w.Count("select count(*) from effects where state = 'sending'")
}

// firstAttempt spoils the first attempt of one operation.
func firstAttempt(e world.Event, fault sandbox.Fault) sandbox.Rule {
	match := sandbox.Match{Operation: sandbox.Update, Reference: e.OperationID(), Nth: 1}
	return sandbox.Rule{Match: match, Fault: fault}
}
