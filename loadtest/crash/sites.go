package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// commitSQL is, for each boundary around a commit, SQL that its transaction alone executes while the boundary is
// armed. The proxy knows by it which answer is to be lost. Votes, withdrawals and expiries move approvals by the same
// SQL, and each case makes one of them.
var commitSQL = map[string]string{
	"intake/claim":               "insert into runs ",
	"intake/reclaim":             "k.former is distinct from k.owner",
	"intake/take":                "from waiting_runs w\n  where w.tenant_id = $1 and w.source = $2",
	"intake/ask_callbacks":       "insert into callbacks ",
	"intake/take_callbacks":      "update callbacks c set attempts",
	"intake/record_callbacks":    "update callbacks c set state",
	"intake/exhaust":             "'exhaust', state",
	"intake/record_conflicts":    "insert into run_conflicts ",
	"intake/own":                 "near_hash, submitted_by)",
	"intake/park":                "insert into parked_messages ",
	"intake/activate_rules":      "insert into source_rules ",
	"relay/clear":                "from pending where seq > ",
	"relay/sweep":                "from runs r left join ",
	"relay/observe":              "insert into broker_epochs ",
	"relay/acknowledge":          "update broker_epochs set last_seq = greatest",
	"relay/partitions":           "select maintain_partitions(",
	"relay/mark":                 "update database_mark set seq = seq + 1",
	"policy/inbox":               "insert into inbox (consumer, event_id)\nselect $1, event_id from",
	"policy/decide":              "insert into policy_decisions ",
	"policy/park":                "insert into parked_messages ",
	"policy/activate_policy":     readsActivePolicy,
	"approval/announce":          "insert into notifications ",
	"approval/remind":            "set state = 'waiting', kind = 'reminder'",
	"approval/escalate":          "and escalate_at <= clock_timestamp()",
	"approval/take_notices":      "update notifications n set attempts",
	"approval/mint_token":        "insert into approval_tokens ",
	"approval/record_notice":     "update notifications n set state = i.state",
	"approval/record_refusal":    "'refuse_vote'",
	"approval/vote":              "insert into reviews ",
	"approval/withdraw":          movesApproval,
	"approval/expire_approvals":  movesApproval,
	"approval/lapse":             "'lapse'",
	"approval/take_back":         "'take_back'",
	"approval/judge_sample":      "update exception_uses u set verdict",
	"approval/judge_glass":       "update glass_reviews g set verdict",
	"dispatcher/lease":           "insert into effect_attempts ",
	"dispatcher/record_outcomes": "update effect_attempts t set class",
	"dispatcher/park":            "insert into parked_messages ",
	"reconciler/record_lookups":  "insert into lookups ",
	"reconciler/read_outcomes":   "set unread_outcome = false",
	"reconciler/postpone":        "update effects e set next_check_at = clock_timestamp() + make_interval",
	"reconciler/return_draws":    "update limit_draws d set open",
	"reconciler/take_readings":   "update approvals a set next_read_at = clock_timestamp() + make_interval(secs => case when",
	"reconciler/record_readings": "insert into readings ",
	"operator/resolve":           "update effects e set state = m.to_state",
	"operator/set_kill_switch":   "insert into kill_switch_changes ",
	"operator/recall":            "insert into recalls ",
	"operator/restore":           "insert into restores ",
	"operator/activate_policy":   readsActivePolicy,
	"operator/settle_parked":     "update parked_messages set state",

	"operator/settle_provider_event": "insert into provider_event_changes ",

	"reconciler/receive_provider_events": "insert into provider_events ",
	"reconciler/take_provider_events":    "update provider_events p set attempts",
	"reconciler/apply_provider_events":   "update provider_events p set state = 'applied'",
	"reconciler/note_provider_events":    "update provider_events p set state = i.state",
}

// movesApproval is what every final decision on an approval executes.
const movesApproval = "update approvals a set state = i.state"

// readsActivePolicy is what every activation begins with, also one that finds nothing to do.
const readsActivePolicy = "from (select) one left join policy_active"

// sidesOf are the sides of a kind of boundary on which every journey through it is killed.
func sidesOf(kind fault.Kind) []string {
	if kind == fault.KindCommit {
		return []string{before, after, mid}
	}
	return []string{before, after}
}

// undeclared tells of the tables' entries that the build does not know, and of commits whose SQL the proxy does not
// know.
func (f *flow) undeclared(sites []fault.Site) error {
	kinds := kindsOf(sites)
	var problems []error
	for name := range f.journeys {
		if kinds[name] == "" {
			problems = append(problems,
				fmt.Errorf("the suite has journeys to %s, and the build has no such boundary", name))
		}
	}
	for name, kind := range kinds {
		if (kind == fault.KindCommit) != (commitSQL[name] != "") && f.journeys[name] != nil {
			problems = append(problems,
				fmt.Errorf("the suite's list of commits disagrees with the build over %s, which is a %s", name, kind))
		}
	}
	return errors.Join(problems...)
}

// casesOf are all cases of the sites that a build knows: each journey through a site with each side. Sites that no
// journey reaches have none, and are reported as unreached.
func (f *flow) casesOf(sites []fault.Site) []testCase {
	var cases []testCase
	for _, s := range sites {
		for _, j := range f.journeys[s.String()] {
			sides := j.sides
			if sides == nil {
				sides = sidesOf(s.Kind)
			}
			for _, side := range sides {
				cases = append(cases, testCase{site: s.String(), side: side, journey: j})
			}
		}
	}
	slices.SortStableFunc(cases, func(a, b testCase) int { return a.order() - b.order() })
	return cases
}

// order puts first what takes longest to heal, so that it heals while the others run.
func (c testCase) order() int {
	if c.service() == "reconciler" {
		return 0
	}
	return 1 + slices.Index(append(serviceNames, operator), c.service())
}

// sample draws cases that together still cover every service and every kind of boundary, and one of each special
// side, from a seed. Cases that take long to heal are left to the full suite.
func sample(cases []testCase, kinds map[string]fault.Kind, seed uint64, size int) []testCase {
	random := rand.New(rand.NewPCG(seed, 0))
	shuffled := slices.Clone(cases)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	covered := map[string]bool{}
	var chosen, rest []testCase
	for _, c := range shuffled {
		news := newsOf(c, kinds, covered)
		switch {
		case c.slow(c.side):
		case news:
			chosen = append(chosen, c)
		default:
			rest = append(rest, c)
		}
	}
	chosen = append(chosen, rest[:min(len(rest), max(0, size-len(chosen)))]...)
	slices.SortStableFunc(chosen, func(a, b testCase) int { return a.order() - b.order() })
	return chosen
}

// onePerSite draws one case of each boundary from a seed. Cases that take long to heal are left to the full suite.
func onePerSite(cases []testCase, seed uint64) []testCase {
	random := rand.New(rand.NewPCG(seed, 0))
	bySite := map[string][]testCase{}
	var sites []string
	for _, c := range cases {
		if c.slow(c.side) {
			continue
		}
		if bySite[c.site] == nil {
			sites = append(sites, c.site)
		}
		bySite[c.site] = append(bySite[c.site], c)
	}
	var chosen []testCase
	for _, site := range sites {
		chosen = append(chosen, bySite[site][random.IntN(len(bySite[site]))])
	}
	return chosen
}

// newsOf reports whether a case adds a service with a kind, or a side, to what is covered, and notes it.
func newsOf(c testCase, kinds map[string]fault.Kind, covered map[string]bool) bool {
	if c.slow(c.side) {
		return false
	}
	news := false
	for _, what := range []string{c.service() + " " + string(kinds[c.site]), c.side} {
		news = news || !covered[what]
		covered[what] = true
	}
	return news
}

// kindsOf are the kinds of the sites by their names.
func kindsOf(sites []fault.Site) map[string]fault.Kind {
	kinds := make(map[string]fault.Kind, len(sites))
	for _, s := range sites {
		kinds[s.String()] = s.Kind
	}
	return kinds
}

// readReached reads the marks that the processes have passed, as service/site@side.
func readReached(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read which boundaries were reached: %w", err)
	}
	reached := map[string]bool{}
	for mark := range strings.FieldsSeq(string(text)) {
		reached[mark] = true
	}
	return reached, nil
}

// unreached are the sites that no process has passed, or that no case of the suite has struck.
func unreached(sites []fault.Site, reached map[string]bool, struck map[string]bool) []string {
	var missing []string
	for _, s := range sites {
		name := s.String()
		if !struck[name] || !reached[name+"@"+before] && !reached[name+"@"+after] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}
