package crash

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// declared are boundaries of every service and kind for which the suite has journeys.
func declared(f *flow) []fault.Site {
	kinds := map[string]fault.Kind{"ack": fault.KindAck, "publish": fault.KindPublish, "send": fault.KindProviderSend,
		"answer": fault.KindProviderAnswer}
	var sites []fault.Site
	for name := range f.journeys {
		c := testCase{site: name}
		site := fault.Site{Service: c.service(), Name: name[len(c.service())+1:], Kind: fault.KindCommit}
		if kind, other := kinds[site.Name]; other {
			site.Kind = kind
		}
		sites = append(sites, site)
	}
	slices.SortFunc(sites, func(a, b fault.Site) int { return slices.Compare([]byte(a.String()), []byte(b.String())) })
	return sites
}

func TestCases(t *testing.T) {
	t.Parallel()

	t.Run("CommitIsKilledBeforeAndAfterAndCutInTheMiddle", func(t *testing.T) {
		t.Parallel()
		sides := map[string]bool{}
		for _, c := range autoFlow.casesOf([]fault.Site{{Service: "policy", Name: "decide", Kind: fault.KindCommit}}) {
			sides[c.side] = true
		}
		require.Equal(t, map[string]bool{before: true, after: true, mid: true}, sides)
	})

	t.Run("EverySiteHasCasesAndEveryCommitItsSQL", func(t *testing.T) {
		t.Parallel()
		for _, f := range flows {
			require.NoError(t, f.undeclared(declared(f)))
			for _, site := range declared(f) {
				require.NotEmpty(t, f.casesOf([]fault.Site{site}), site.String())
			}
		}
	})

	t.Run("SiteThatTheBuildLostIsNoticed", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, autoFlow.undeclared(declared(autoFlow)[1:]), "the build has no such boundary")
	})

	t.Run("CommitWithoutSQLIsNoticed", func(t *testing.T) {
		t.Parallel()
		sites := declared(autoFlow)
		at := slices.IndexFunc(sites, func(s fault.Site) bool { return s.Kind == fault.KindAck })
		sites[at].Kind = fault.KindCommit
		require.ErrorContains(t, autoFlow.undeclared(sites), "disagrees with the build over "+sites[at].String())
	})
}

// The services that the test is linked with have declared their boundaries, in this build as in the one that dies.
func TestFlows(t *testing.T) {
	t.Parallel()
	var registered []fault.Site
	for _, s := range fault.Sites() {
		registered = append(registered, *s)
	}
	require.NotEmpty(t, registered)

	t.Run("ReachBetweenThemEveryRegisteredSite", func(t *testing.T) {
		t.Parallel()
		for _, site := range registered {
			name := site.String()
			require.True(t, autoFlow.journeys[name] != nil || reviewFlow.journeys[name] != nil, "nothing leads to %s", name)
		}
	})

	t.Run("ReviewReachesEverySiteOfTheApprovalService", func(t *testing.T) {
		t.Parallel()
		mine := 0
		for _, site := range registered {
			if site.Service != ledger.Approval {
				continue
			}
			mine++
			require.NotEmpty(t, reviewFlow.casesOf([]fault.Site{site}), site.String())
		}
		require.Equal(t, 14, mine)
	})

	t.Run("MustReachASiteOfTheirServicesThatNothingLeadsTo", func(t *testing.T) {
		t.Parallel()
		added := []fault.Site{
			{Service: ledger.Approval, Name: "new", Kind: fault.KindCommit},
			{Service: ledger.Policy, Name: "new", Kind: fault.KindCommit},
		}
		require.Equal(t, added[:1], reviewFlow.reaches(added))
		require.Equal(t, added[1:], autoFlow.reaches(added))
	})

	t.Run("ThatAreUnknownAreNamed", func(t *testing.T) {
		t.Parallel()
		_, err := flowNamed("manual")
		require.ErrorContains(t, err, `"manual" is not one of auto, review`)
	})
}

func TestOnePerSite(t *testing.T) {
	t.Parallel()
	cases := reviewFlow.casesOf(declared(reviewFlow))

	t.Run("KillsOnceAtEverySite", func(t *testing.T) {
		t.Parallel()
		for seed := range uint64(200) {
			kills := map[string]int{}
			for _, c := range onePerSite(cases, seed) {
				require.False(t, c.slow(c.side), "seed %d: %s", seed, c)
				kills[c.site]++
			}
			require.Len(t, kills, len(reviewJourneys))
			for site, n := range kills {
				require.Equal(t, 1, n, site)
			}
		}
	})

	t.Run("IsTheSameForTheSameSeedAndComesToEveryCase", func(t *testing.T) {
		t.Parallel()
		drawn := map[string]bool{}
		for seed := range uint64(200) {
			first, second := onePerSite(cases, seed), onePerSite(cases, seed)
			for i, c := range first {
				require.Equal(t, c.String(), second[i].String())
				drawn[c.String()] = true
			}
		}
		for _, c := range cases {
			require.Equal(t, !c.slow(c.side), drawn[c.String()], c.String())
		}
	})
}

func TestSample(t *testing.T) {
	t.Parallel()
	sites := declared(autoFlow)
	kinds, cases := kindsOf(sites), autoFlow.casesOf(sites)

	t.Run("CoversEveryServiceWithItsKindsAndEverySide", func(t *testing.T) {
		t.Parallel()
		want := map[string]bool{}
		for _, c := range cases {
			newsOf(c, kinds, want)
		}
		for seed := range uint64(200) {
			got := map[string]bool{}
			for _, c := range sample(cases, kinds, seed, shortCases) {
				newsOf(c, kinds, got)
			}
			require.Equal(t, want, got, "seed %d", seed)
		}
	})

	t.Run("IsTheSameForTheSameSeedAndSmall", func(t *testing.T) {
		t.Parallel()
		names := func(seed uint64) (all []string) {
			for _, c := range sample(cases, kinds, seed, shortCases) {
				all = append(all, c.String())
			}
			return all
		}
		require.Equal(t, names(7), names(7))
		require.NotEqual(t, names(7), names(8))
		require.LessOrEqual(t, len(names(7)), shortCases+4)
	})

	t.Run("LeavesOutWhatHealsForLong", func(t *testing.T) {
		t.Parallel()
		for seed := range uint64(200) {
			for _, c := range sample(cases, kinds, seed, shortCases) {
				require.False(t, c.slow(c.side), "seed %d: %s", seed, c)
			}
		}
	})
}

func TestUnreached(t *testing.T) {
	t.Parallel()
	site := fault.Site{Service: "policy", Name: "decide", Kind: fault.KindCommit}
	passed, struck := map[string]bool{"policy/decide@before": true}, map[string]bool{"policy/decide": true}
	for name, c := range map[string]struct {
		reached, struck map[string]bool
		missing         bool
	}{
		"StruckSiteIsReached":           {passed, struck, false},
		"SiteThatNobodyPassedIsMissing": {nil, struck, true},
		"SiteThatNobodyDiedAtIsMissing": {passed, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.missing, len(unreached([]fault.Site{site}, c.reached, c.struck)) == 1)
		})
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()

	t.Run("AreTheExampleWithShortTimes", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "config")
		require.NoError(t, WriteSettings(example, dir, edits))
		loaded, err := config.LoadDir(dir)
		require.NoError(t, err)
		for _, c := range loaded.Tenants[0].Connectors {
			require.LessOrEqual(t, c.Timeout.Seconds(), 1.0, c.ID)
			require.LessOrEqual(t, c.LeaveWithin.Seconds(), 1.0, c.ID)
			for _, o := range c.Operations {
				if o.Lookup != nil {
					require.LessOrEqual(t, o.Lookup.IndexLag.Seconds(), 0.2, o.Name)
				}
			}
		}
		worked := slices.IndexFunc(loaded.Tenants[0].Sources, func(s *config.Source) bool { return s.ID == workerSource })
		require.LessOrEqual(t, loaded.Tenants[0].Sources[worked].Lease.Duration.Seconds(), 1.0)
	})
}
