package matrix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/loadtest/crash"
)

// report is the outcome of a run. Its exported members are the JSON document, whose names other tools read.
type report struct {
	Short           bool         `json:"short"`
	Seed            uint64       `json:"seed"` // that the sample of a short run was drawn from
	Cells           int          `json:"cells"`
	Writes          int          `json:"writes"`
	DuplicateWrites int          `json:"duplicate_writes"`
	BlindResends    int          `json:"blind_resends"`
	ForOperator     int          `json:"for_operator"` // effects that an operator has to settle, and is told so
	Unresolved      int          `json:"unresolved"`
	Deaths          int          `json:"deaths"`
	Unreached       int          `json:"unreached"` // cells whose fault kept the dispatcher from coming to the boundary
	Broken          []string     `json:"broken"`
	Seconds         float64      `json:"seconds"`
	ByCell          []cellReport `json:"-"` // written as by_cell, one in a line
}

// cellReport is what became of one cell.
type cellReport struct {
	Profile         string   `json:"profile"`
	Fault           string   `json:"fault"`
	Death           string   `json:"death"`
	Struck          bool     `json:"struck"`
	State           string   `json:"state"`
	HoldReason      string   `json:"hold_reason,omitempty"`
	Attempts        int      `json:"attempts"`
	Lookups         int      `json:"lookups"`
	Requests        int      `json:"requests"` // writes that the provider was asked for
	Writes          int      `json:"writes"`
	DuplicateWrites int      `json:"duplicate_writes"`
	BlindResends    int      `json:"blind_resends"`
	ForOperator     bool     `json:"for_operator"`
	Unresolved      bool     `json:"unresolved"`
	Broken          []string `json:"broken,omitempty"`
}

// newReport judges each cell by its facts, and adds it up.
func newReport(opts options, groups []group) *report {
	r := &report{Short: opts.Short, Seed: opts.Seed, Broken: []string{}} // a list, not null
	for _, g := range groups {
		r.Broken = append(r.Broken, g.broken...)
		for i, c := range g.cells {
			r.add(opts, c, g.became[i])
		}
	}
	slices.SortStableFunc(r.ByCell, func(a, b cellReport) int {
		return strings.Compare(a.Profile+" "+a.Fault+" "+a.Death, b.Profile+" "+b.Fault+" "+b.Death)
	})
	return r
}

func (r *report) add(opts options, c *cell, f *facts) {
	v := judge(c.profile, c.fault, c.death, f)
	r.ByCell = append(r.ByCell, cellReport{Profile: c.profile.name, Fault: c.fault.name, Death: c.death.String(), Struck: f.struck,
		State: f.state, HoldReason: f.holdReason, Attempts: len(f.attempts), Lookups: len(f.lookups), Requests: f.requests,
		Writes: v.writes, DuplicateWrites: v.duplicateWrites, BlindResends: v.blindResends, ForOperator: v.forOperator,
		Unresolved: v.unresolved, Broken: v.broken})
	r.Cells++
	r.Writes += v.writes
	r.DuplicateWrites += v.duplicateWrites
	r.BlindResends += v.blindResends
	r.ForOperator += count(v.forOperator)
	r.Unresolved += count(v.unresolved)
	r.Deaths += count(f.struck)
	r.Unreached += count(c.death.site != "" && !f.struck)
	for _, broken := range v.broken {
		r.Broken = append(r.Broken, fmt.Sprintf("%s (seed %d): %s; repeat it with --only '%s'", c, opts.Seed, broken, c))
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Held reports whether every promise was kept.
func (r *report) Held() bool { return r.DuplicateWrites+r.BlindResends+r.Unresolved+len(r.Broken) == 0 }

// Document is the report as JSON. Each cell has a line to itself: a kept report of all cells is read by people, too.
func (r *report) Document() ([]byte, error) {
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	cells := make([][]byte, len(r.ByCell))
	for i := range r.ByCell {
		if cells[i], err = json.Marshal(&r.ByCell[i]); err != nil {
			return nil, err
		}
	}
	document = append(bytes.TrimSuffix(document, []byte("\n}")), ",\n  \"by_cell\": [\n    "...)
	document = append(document, bytes.Join(cells, []byte(",\n    "))...)
	return append(document, "\n  ]\n}\n"...), nil
}

// row is one line of the table: all deaths of one profile with one fault.
type row struct{ cells, writes, duplicates, blind, operator, unresolved int }

// Text is the report for people.
func (r *report) Text() string {
	rows := map[string]*row{}
	var order []string
	for i := range r.ByCell {
		c := &r.ByCell[i]
		name := fmt.Sprintf("%-20s %-20s", c.Profile, c.Fault)
		if rows[name] == nil {
			rows[name] = &row{}
			order = append(order, name)
		}
		to := rows[name]
		to.cells++
		to.writes += c.Writes
		to.duplicates += c.DuplicateWrites
		to.blind += c.BlindResends
		to.operator += count(c.ForOperator)
		to.unresolved += count(c.Unresolved)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %-20s %6s %7s %10s %6s %9s %11s\n", "profile", "fault", "cells", "writes", "duplicates", "blind", "operator",
		"unresolved")
	for _, name := range order {
		to := rows[name]
		fmt.Fprintf(&b, "%s %6d %7d %10d %6d %9d %11d\n", name, to.cells, to.writes, to.duplicates, to.blind, to.operator, to.unresolved)
	}
	b.WriteByte('\n')
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	line("Cells", "%d, %.0f s%s", r.Cells, r.Seconds, crash.Origin(r.Short, r.Seed))
	line("Deaths", "%d, and %d where the fault kept the dispatcher from the boundary", r.Deaths, r.Unreached)
	line("Writes", "%d, %d made twice", r.Writes, r.DuplicateWrites)
	line("Resends", "%d made blindly", r.BlindResends)
	line("Effects", "%d wait for an operator, %d unresolved", r.ForOperator, r.Unresolved)
	for _, broken := range r.Broken {
		line("BROKEN", "%s", broken)
	}
	if r.Held() {
		line("Verdict", "every promise held")
	}
	return b.String()
}
