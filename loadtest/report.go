package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// report is the outcome of one load. Its exported members are the JSON document, whose names other tools read.
type report struct {
	Accepted      int64     `json:"accepted"`   // answers, over all copies
	Duplicates    int64     `json:"duplicates"` // answers that a known key got
	Conflicts     int64     `json:"conflicts"`  // answers that another payload owns the key
	Errors        int64     `json:"errors"`     // deliveries without a usable answer
	Completed     int64     `json:"completed"`  // runs whose effects took place
	RunsPerSecond float64   `json:"runs_per_second"`
	AckMS         quantiles `json:"ack_ms"`        // from due to the answer
	EndToEndMS    quantiles `json:"end_to_end_ms"` // from due to run.completed; where people decide, or to run.ended
	Sandbox       struct {
		Writes          int `json:"writes"`
		DuplicateWrites int `json:"duplicate_writes"`
		Missing         int `json:"missing"`
	} `json:"sandbox"`
	PostgresOnlyRunsPerSecond *float64 `json:"postgres_only_runs_per_second"` // null where it was not measured
	Ratio                     *float64 `json:"ratio"`                         // of the system's rate to it
	*reviewReport                      // nil, and so without members, where policy decides alone

	session    *session
	verdict    verdict
	fired      int // keys of which at least one copy was delivered
	elapsed    time.Duration
	endedOther int64
	open       int64
	keysTaken  int64 // keys with an accepted answer
	unreadable int64
	postgres   string // the Postgres-only line
	broken     []string
}

// quantiles are in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func quantilesOf(h *histogram) quantiles {
	ms := func(q float64) float64 { return float64(h.quantile(q).Microseconds()) / 1000 }
	return quantiles{P50: ms(0.50), P95: ms(0.95), P99: ms(0.99)}
}

func (q quantiles) String() string {
	return fmt.Sprintf("p50 %.1f ms · p95 %.1f ms · p99 %.1f ms", q.P50, q.P95, q.P99)
}

// count takes the numbers over from the workers, which have ended.
func (r *report) count(t *tally, b *board, endToEnd *histogram) {
	sum := t.totals()
	r.Accepted, r.Duplicates, r.Conflicts, r.Errors = sum.accepted, sum.duplicates, sum.conflicts, sum.errors
	r.Completed, r.endedOther, r.keysTaken = b.completed.Load(), b.ended.Load(), b.accepted.Load()
	r.open = b.open()
	r.AckMS, r.EndToEndMS = quantilesOf(t.acks()), quantilesOf(endToEnd)
	if r.elapsed > 0 {
		r.RunsPerSecond = float64(r.Completed) / r.elapsed.Seconds()
	}
	r.Sandbox.Writes, r.Sandbox.DuplicateWrites = r.verdict.writes, r.verdict.duplicateWrites
	r.Sandbox.Missing = r.verdict.missing
	r.postgres = "not asked for"
}

// compare sets the system's rate against what Postgres alone can do.
func (r *report) compare(postgresOnly float64, err error) {
	if err != nil || postgresOnly <= 0 {
		r.postgres = fmt.Sprintf("not measured: %v", err)
		return
	}
	ratio := r.RunsPerSecond / postgresOnly
	r.PostgresOnlyRunsPerSecond, r.Ratio = &postgresOnly, &ratio
	r.postgres = fmt.Sprintf("%.0f runs/s · ratio %.2f", postgresOnly, ratio)
}

// judge lists the promises that did not hold.
func (r *report) judge() {
	broken := func(is bool, format string, args ...any) {
		if is {
			r.broken = append(r.broken, fmt.Sprintf(format, args...))
		}
	}
	broken(r.Errors > 0, "%d deliveries got no usable answer", r.Errors)
	broken(r.Conflicts > 0, "%d byte-identical deliveries were called conflicts (K4)", r.Conflicts)
	broken(r.Accepted > r.keysTaken, "%d keys were accepted more than once (K3)", r.Accepted-r.keysTaken)
	broken(r.keysTaken < int64(r.fired), "%d keys were never accepted (K3)", int64(r.fired)-r.keysTaken)
	broken(r.endedOther > 0, "%d runs ended without being executed", r.endedOther)
	broken(r.open > 0, "%d accepted runs have not ended (O6)", r.open)
	broken(r.Sandbox.DuplicateWrites > 0, "%d writes were made twice (D2)", r.Sandbox.DuplicateWrites)
	broken(r.Sandbox.Missing > 0, "%d accepted runs have no write", r.Sandbox.Missing)
	// Operation ids must not vary either: a second write under another id shows only as one write too many.
	surplus := r.Sandbox.Writes - r.Sandbox.DuplicateWrites
	if r.reviewReport == nil {
		broken(surplus > r.fired, "%d writes more than there are keys (D2)", surplus-r.fired)
	} else {
		broken(surplus > r.approvals, "%d writes more than there are approvals (A9, D2)", surplus-r.approvals)
		r.reviewReport.judge(broken, r.verdict)
	}
	broken(r.unreadable > 0, "%d events of the tenant do not decode (B6)", r.unreadable)
}

// write prints the report and, where a file is named, stores the JSON.
func (r *report) write(out io.Writer, file string) error {
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if _, err := io.WriteString(out, r.text()+"\n"+string(document)+"\n"); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file, append(document, '\n'), 0o644); err != nil {
		return fmt.Errorf("store the report: %w", err)
	}
	return nil
}

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line("Load", "%d keys × %d deliveries over %s, %s, %.1f s", r.fired, r.session.opts.duplicates,
		r.session.opts.door, r.pacing(), r.elapsed.Seconds())
	line("Answers", "accepted %d · duplicates %d · conflicts %d · errors %d",
		r.Accepted, r.Duplicates, r.Conflicts, r.Errors)
	line("Acknowledged", "%s", r.AckMS)
	line("End to end", "%s", r.EndToEndMS)
	line("Runs", "completed %d · ended otherwise %d · open %d · %.0f runs/s",
		r.Completed, r.endedOther, r.open, r.RunsPerSecond)
	if r.reviewReport != nil {
		r.reviewReport.text(line, r.elapsed)
	}
	line("Sandbox", "writes %d · duplicate writes %d · missing %d",
		r.Sandbox.Writes, r.Sandbox.DuplicateWrites, r.Sandbox.Missing)
	line("Postgres only", "%s", r.postgres)
	for _, reason := range r.session.tally.loudest(5) {
		line("Error", "%s", reason)
	}
	if len(r.broken) == 0 {
		line("Verdict", "every promise held")
	}
	for _, promise := range r.broken {
		line("BROKEN", "%s", promise)
	}
	return b.String()
}

func (r *report) pacing() string {
	if r.session.opts.rate == 0 {
		return "flat out"
	}
	return fmt.Sprintf("%g deliveries/s", r.session.opts.rate)
}
