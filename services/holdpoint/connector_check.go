package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connectorcheck"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

const checkLong = `Exercise the operations of HTTP connectors against the systems that they point to, and say which of their declared capabilities were
proved, with the evidence.

It writes: of each operation one sample that is meant to succeed, the very same again, the same key with another payload, and the
sample at a version of the target that is out of date. Point the connector to a sandbox or a test account (base_url takes variables
of the environment), or to a record that is there for this. Operation ids begin with chk1-, which no run's does. It asks before it
writes, unless --yes is given.

Samples are JSON: {"target": {...}, "proposed_change": {...}, "current_version": "..."}, or a list of them, of which the last is sent
where another payload is needed. ${token} in them is another text each time. They are read from samples/CONNECTOR.OPERATION.json in
the tenant's folder, or from --sample.

It is a person's act, and needs no AI_ACTIONS_ENABLED=true, but AI_ACTIONS_ENABLED=false stops it, and so does a closed switch: of
everything, the tenant, the connector, or an action type that the operation carries out. The switches are asked right before the
first byte of every write, in the database that HOLDPOINT_DATABASE_URL names, or that of a running up (--data). Where there is none, as in
a build, --without-switches goes on.

Of an executor, or a connector of any kind that Holdpoint does not call by HTTP, nothing can be proved without a write of somebody
else's: attest it.

Exit codes: 0 all that is declared was proved, 1 some of it was not, 2 it could not be run.`

// checkFlags are what the check can be told besides.
type checkFlags struct {
	connectorFlags
	sample                      string
	yes, write, withoutSwitches bool
}

func connectorCheckCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Exercise what connectors declare, and say what was proved; it writes to their systems",
		Long:  checkLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := f.check(cmd)
			if err != nil && !errors.As(err, new(exitError)) {
				return exitError{2, err}
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{2, err} })
	f.flags(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", "data directory of a running up, whose switches are asked (default: where up keeps it)")
	cmd.Flags().StringVar(&f.sample, "sample", "", "file of samples, for one operation")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before writing")
	cmd.Flags().BoolVar(&f.write, "write", false, "keep what was proved in the tenant's checks.yaml")
	cmd.Flags().BoolVar(&f.withoutSwitches, "without-switches", false, "ask no kill switches: there is no database to ask")
	cmd.Flags().BoolVar(&f.raw, "json", false, "print JSON")
	return cmd
}

// task is an operation to be exercised, with its samples.
type task struct {
	chosen
	samples []connectorcheck.Sample
}

func (f *checkFlags) check(cmd *cobra.Command) error {
	if os.Getenv("AI_ACTIONS_ENABLED") == "false" {
		return errors.New("AI_ACTIONS_ENABLED is false, so nothing is written; unset it where this is meant all the same")
	}
	t, err := f.load()
	if err != nil {
		return err
	}
	all, err := f.choose(t)
	if err != nil {
		return err
	}
	tasks, err := f.tasks(t, all)
	if err != nil {
		return err
	}
	if err := f.confirm(cmd, tasks); err != nil {
		return err
	}
	reports, failed := f.runAll(cmd.Context(), t, tasks)
	if err := showReports(cmd.OutOrStdout(), reports, f.raw); err != nil {
		return err
	}
	if f.write && len(reports) > 0 {
		if err := f.writeChecks(t, checksOf(reports)); err != nil {
			return err
		}
	}
	return errors.Join(failed, verdict(reports))
}

// tasks are the operations that declare something and can be exercised. One that was named has to be among them.
func (f *checkFlags) tasks(t *config.Tenant, all []chosen) ([]task, error) {
	if f.sample != "" && len(all) != 1 {
		return nil, fmt.Errorf("--sample is for one operation, and %d are meant: name it with --connector and --operation", len(all))
	}
	var tasks []task
	for _, c := range all {
		switch {
		case !calls(c.connector) && f.connector != "":
			return nil, fmt.Errorf("connector %s is of kind %s: nothing of it can be proved without a write that somebody else makes; who "+
				"answers for it attests it with `holdpoint connector attest`", c.connector.ID, c.connector.Kind)
		case !calls(c.connector), !connectorcheck.Declares(c.operation):
			continue
		}
		file := cmp.Or(f.sample, config.SampleFile(f.configDir, t.ID, c.connector.ID, c.operation.Name))
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("operation %s of %s has no samples to be exercised with (another file is named with --sample): %w",
				c.operation.Name, c.connector.ID, err)
		}
		samples, err := connectorcheck.ReadSamples(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		tasks = append(tasks, task{c, samples})
	}
	if len(tasks) == 0 {
		return nil, errors.New("none of these operations declares anything that can be proved by exercising it")
	}
	return tasks, nil
}

// confirm says what will be written where, and wants a yes.
func (f *checkFlags) confirm(cmd *cobra.Command, tasks []task) error {
	out := printer{cmd.ErrOrStderr()}
	out.line("This writes to real systems, under operation ids that begin with chk1-:")
	for _, one := range tasks {
		out.line("  %s of %s: up to 4 writes to %s", one.operation.Name, one.connector.ID, one.connector.BaseURL)
	}
	if f.yes {
		return nil
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Write? Type yes: ")
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is none
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was written: it wants a typed yes, or --yes")
	}
	return nil
}

// runAll checks one operation after the other, and goes on after one that could not be run.
func (f *checkFlags) runAll(ctx context.Context, t *config.Tenant, tasks []task) (reports []*connectorcheck.Report, failed error) {
	work := func(l *ledger.Ledger) error {
		for _, one := range tasks {
			report, err := one.run(ctx, t, l)
			if err != nil {
				failed = errors.Join(failed, exitError{2, err})
				continue
			}
			reports = append(reports, report)
		}
		return nil
	}
	if f.withoutSwitches {
		return reports, errors.Join(work(nil), failed)
	}
	if err := f.with(ctx, work); err != nil {
		return nil, exitError{2, fmt.Errorf("ask the kill switches (where there is no database, --without-switches goes on): %w", err)}
	}
	return reports, failed
}

func (o task) run(ctx context.Context, t *config.Tenant, l *ledger.Ledger) (*connectorcheck.Report, error) {
	p, err := connectorcheck.New(connectorcheck.Config{Connector: o.connector, TenantID: t.ID, Leave: func() error {
		if l == nil {
			return nil
		}
		return o.leave(ctx, t, l)
	}})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Check(ctx, o.operation, o.samples)
}

// leave is refused where a closed switch would stop an effect of the operation (D9).
func (o task) leave(ctx context.Context, t *config.Tenant, l *ledger.Ledger) error {
	state, err := l.Switches(ctx)
	if err != nil {
		return err
	}
	types := []string{""}
	for _, a := range t.Actions {
		if a.Connector == o.connector.ID && a.Operation == o.operation.Name {
			types = append(types, a.Type)
		}
	}
	for _, actionType := range types {
		if s := state.Stops(t.ID, actionType, o.connector.ID); s != nil {
			return fmt.Errorf("the switch %q is closed, by %s: %s", nameOf(*s), s.ChangedBy, s.Reason)
		}
	}
	return nil
}

func checksOf(reports []*connectorcheck.Report) []*config.Check {
	var checks []*config.Check
	for _, r := range reports {
		checks = append(checks, &config.Check{Connector: r.Connector, Operation: r.Operation, Digest: r.Digest,
			Proved: r.Proof(toolVersion())})
	}
	return checks
}

// verdict ends the program with 1 where something was not proved.
func verdict(reports []*connectorcheck.Report) error {
	unproved := 0
	for _, r := range reports {
		for _, found := range r.Findings {
			if !found.Proved {
				unproved++
			}
		}
	}
	if unproved > 0 {
		return exitError{1, fmt.Errorf("%d of what is declared was not proved; it does not count", unproved)}
	}
	return nil
}

// reportView is a report as programs read it.
type reportView struct {
	*connectorcheck.Report
	IndexLag string `json:"index_lag,omitempty"` // "" where the first look found the write
}

func showReports(out io.Writer, reports []*connectorcheck.Report, raw bool) error {
	if raw {
		views := []reportView{}
		for _, r := range reports {
			v := reportView{Report: r}
			if r.Lag > 0 {
				v.IndexLag = r.Lag.String()
			}
			views = append(views, v)
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"checks": views})
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	p := printer{table}
	p.line("CONNECTOR\tOPERATION\tDECLARES\tRESULT\tEVIDENCE")
	for _, r := range reports {
		for _, found := range r.Findings {
			result := "proved"
			if !found.Proved {
				result = "NOT PROVED"
			}
			p.line("%s\t%s\t%s\t%s\t%s", r.Connector, r.Operation, found.Capability, result, found.Evidence)
		}
	}
	return table.Flush()
}
