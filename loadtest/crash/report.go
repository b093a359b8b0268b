package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// report is the outcome of a run. Its exported members are the JSON document, whose names other tools read.
type report struct {
	Flow                string         `json:"flow"`
	Short               bool           `json:"short"`
	Seed                uint64         `json:"seed"` // that the sample of a short run was drawn from
	Sites               int            `json:"sites"`
	Cases               int            `json:"cases"`
	Runs                int            `json:"runs"`
	DuplicateWrites     int            `json:"duplicate_writes"`
	LostRuns            int            `json:"lost_runs"`
	UnauthorisedEffects int            `json:"unauthorised_effects"`
	UnreachedSites      int            `json:"unreached_sites"`
	Unreached           []string       `json:"unreached"` // their names
	WaitStatuses        map[string]int `json:"wait_statuses"`
	Broken              []string       `json:"broken"`
	Seconds             float64        `json:"seconds"`
	BySite              []siteReport   `json:"by_site"`
}

// siteReport is what was done at one boundary: by side, how many cases, and how many of them went as they should.
type siteReport struct {
	Site  string                `json:"site"`
	Kind  string                `json:"kind"`
	Sides map[string]sideReport `json:"sides"`
}

type sideReport struct {
	Cases int `json:"cases"`
	Good  int `json:"good"`
}

func (s *suite) report(found findings, is facts, missing []string) *report {
	r := &report{Flow: s.opts.flow.name, Short: s.opts.Short, Seed: s.opts.Seed, Sites: len(s.sites), Cases: len(s.cases),
		Runs: len(is.runs), DuplicateWrites: found.duplicateWrites, LostRuns: found.lostRuns,
		UnauthorisedEffects: found.unauthorisedEffects, UnreachedSites: len(missing), WaitStatuses: s.statuses,
		Unreached: append([]string{}, missing...), Broken: append([]string{}, found.broken...)} // lists, not null
	for _, site := range s.sites {
		row := siteReport{Site: site.String(), Kind: string(site.Kind), Sides: map[string]sideReport{}}
		for _, c := range s.cases {
			if c.site != row.Site {
				continue
			}
			side := row.Sides[c.side]
			side.Cases++
			if s.results[c.String()] == "" {
				side.Good++
			}
			row.Sides[c.side] = side
		}
		r.BySite = append(r.BySite, row)
	}
	return r
}

// Held reports whether every promise was kept and every boundary reached.
func (r *report) Held() bool {
	return r.DuplicateWrites+r.LostRuns+r.UnauthorisedEffects+r.UnreachedSites+len(r.Broken) == 0
}

// Document is the report as JSON.
func (r *report) Document() ([]byte, error) {
	document, err := json.MarshalIndent(r, "", "  ")
	return append(document, '\n'), err
}

// columns are the sides in the order of the table.
var columns = []string{before, after, mid, accepted, stopped, wiped}

// Text is the report for people.
func (r *report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %-16s", "boundary", "kind")
	for _, side := range columns {
		fmt.Fprintf(&b, " %8s", side)
	}
	b.WriteByte('\n')
	for _, row := range r.BySite {
		fmt.Fprintf(&b, "%-28s %-16s", row.Site, row.Kind)
		for _, side := range columns {
			fmt.Fprintf(&b, " %8s", row.Sides[side])
		}
		if slices.Contains(r.Unreached, row.Site) {
			b.WriteString("  UNREACHED")
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line("Boundaries", "%d, %d never reached", r.Sites, r.UnreachedSites)
	line("Cases", "%d, %d runs, %.0f s%s", r.Cases, r.Runs, r.Seconds, Origin(r.Short, r.Seed))
	for _, status := range slices.Sorted(maps.Keys(r.WaitStatuses)) {
		line("Ended with", "%s: %d", status, r.WaitStatuses[status])
	}
	line("Writes", "%d made twice", r.DuplicateWrites)
	line("Runs", "%d lost", r.LostRuns)
	line("Effects", "%d without an authorization", r.UnauthorisedEffects)
	for _, broken := range r.Broken {
		line("BROKEN", "%s", broken)
	}
	for _, site := range r.Unreached {
		line("UNREACHED", "%s", site)
	}
	if r.Held() {
		line("Verdict", "every promise held")
	}
	return b.String()
}

// String is one cell of the table.
func (s sideReport) String() string {
	if s.Cases == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.Good, s.Cases)
}
