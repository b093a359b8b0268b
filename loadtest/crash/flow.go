package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// flow is what the suite takes its events through.
type flow struct {
	name     string
	services []string                  // that run all the time, in the order in which a run meets them
	journeys map[string][]journey      // by boundary
	all      func(service string) bool // all of the service's boundaries have to be reached
	// short draws the cases of --short from a seed.
	short func(cases []testCase, kinds map[string]fault.Kind, seed uint64) []testCase
}

// The flows. Between them they have to reach every boundary that there is: auto those of the services that work
// without people, and review those of the approval service and what the others do for a decision by people.
var (
	autoFlow = &flow{
		name: "auto", services: []string{ledger.Intake, ledger.Relay, ledger.Policy, ledger.Dispatcher, ledger.Reconciler},
		journeys: journeys, all: func(service string) bool { return service != ledger.Approval },
		short: func(cases []testCase, kinds map[string]fault.Kind, seed uint64) []testCase {
			return sample(cases, kinds, seed, shortCases)
		},
	}
	reviewFlow = &flow{
		name: "review", services: serviceNames, journeys: reviewJourneys,
		all: func(service string) bool { return service == ledger.Approval },
		short: func(cases []testCase, _ map[string]fault.Kind, seed uint64) []testCase {
			return onePerSite(cases, seed)
		},
	}
	flows = map[string]*flow{autoFlow.name: autoFlow, reviewFlow.name: reviewFlow}
)

func flowNamed(name string) (*flow, error) {
	if f := flows[name]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("--flow %q is not one of %s", name, strings.Join(slices.Sorted(maps.Keys(flows)), ", "))
}

// reaches are the boundaries of a build that the flow has to reach: all of some services, and of the others those
// that it has journeys to.
func (f *flow) reaches(sites []fault.Site) []fault.Site {
	return slices.DeleteFunc(slices.Clone(sites), func(s fault.Site) bool {
		return !f.all(s.Service) && f.journeys[s.String()] == nil
	})
}
