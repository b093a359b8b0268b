package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/policy"
)

// replayFlags are what a replay can be told.
type replayFlags struct {
	operator
	action, amount string
	since          time.Duration
	limit          int
}

func policyReplayCommand(f *policyFlags) *cobra.Command {
	var o replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Decide again on what was decided lately, by a candidate configuration, and say what would be routed otherwise",
		Long: "Decide again on the intents of the past, each by the clock of its own decision, with the rules of --config, and count " +
			"which of them would be routed otherwise, with their amounts. Near duplicates and limits depend on what else was authorized " +
			"then, so a decision that they raised counts as raised. It reads the database, changes nothing and authorizes nothing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.load()
			if err != nil {
				return err
			}
			return o.run(cmd, cfg, f.raw)
		},
	}
	o.operator.flags(cmd, true, false)
	cmd.Flags().StringVar(&o.action, "action", "", "action type (default: all)")
	cmd.Flags().StringVar(&o.amount, "amount", "", "JSON pointer into the action to what is added up, such as /proposed_change/amount (default: what the type's limits add up)")
	cmd.Flags().DurationVar(&o.since, "since", 7*24*time.Hour, "how far back")
	cmd.Flags().IntVar(&o.limit, "limit", 100_000, "the most decisions, the newest first")
	return cmd
}

func (o *replayFlags) run(cmd *cobra.Command, cfg *config.Config, raw bool) error {
	if o.limit < 1 || o.since <= 0 {
		return errors.New("--limit and --since must be above zero")
	}
	reports, err := eachTenant(cfg, o.tenant, func(t *config.Tenant) (policy.ReplayReport, error) {
		if o.action != "" && t.Action(o.action) == nil {
			return policy.ReplayReport{}, fmt.Errorf("tenant %s registers no action type %q", t.ID, o.action)
		}
		replay, err := policy.NewReplay(t, o.amount)
		if err != nil {
			return policy.ReplayReport{}, err
		}
		err = o.with(cmd.Context(), func(l *ledger.Ledger) error {
			return l.Recorded(cmd.Context(), ledger.RecordedQuery{TenantID: t.ID, ActionType: o.action, Since: time.Now().Add(-o.since),
				Limit: o.limit}, replay.Add)
		})
		return replay.Report(), err
	})
	if err != nil {
		return err
	}
	if raw {
		return printJSON(cmd.OutOrStdout(), map[string]any{"replays": reports})
	}
	return showReplays(cmd.OutOrStdout(), reports)
}

func showReplays(out io.Writer, reports []policy.ReplayReport) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	p := printer{table}
	p.line("TENANT\tACTION\tWAS\tWOULD BE\tCOUNT\tAMOUNT\tSUCH AS")
	for _, r := range reports {
		for _, f := range r.Flips {
			p.line("%s\t%s\t%s\t%s\t%d\t%s\t%s", r.Tenant, f.ActionType, f.From, f.To, f.Count, cmp.Or(f.Amount, "-"), strings.Join(f.Keys, ", "))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	p = printer{out}
	for _, r := range reports {
		p.line("%s: %d decisions looked at, %d the same, %d unreadable. Candidate policy %s.", r.Tenant, r.Decisions, r.Same, r.Unreadable,
			cmp.Or(r.PolicyVersion, "none"))
	}
	return nil
}
