package main

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/policy"
)

// candidateFlags are what the report can be told.
type candidateFlags struct {
	operator
	action       string
	since        time.Duration
	least, limit int
}

func policyCandidatesCommand(f *policyFlags) *cobra.Command {
	var o candidateFlags
	cmd := &cobra.Command{
		Use:   "candidates",
		Short: "Name the kinds of changes that people have always approved, for somebody to think of a rule",
		Long: "Name the kinds of changes that people have approved every time and that were executed every time: the action type, the fields " +
			"that change, why people were asked, how many decided how fast. What cannot be undone or needs a professional is left out. A " +
			"rule is written, tested, replayed and activated by a person; this command reads the database and changes nothing.",
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
	cmd.Flags().DurationVar(&o.since, "since", 30*24*time.Hour, "how far back")
	cmd.Flags().IntVar(&o.least, "least", 20, "the fewest approvals of a kind that is named")
	cmd.Flags().IntVar(&o.limit, "limit", 100_000, "the most requests, the newest first")
	return cmd
}

func (o *candidateFlags) run(cmd *cobra.Command, cfg *config.Config, raw bool) error {
	if o.limit < 1 || o.since <= 0 || o.least < 1 {
		return errors.New("--limit, --since and --least must be above zero")
	}
	reports, err := eachTenant(cfg, o.tenant, func(t *config.Tenant) (policy.CandidateReport, error) {
		candidates := policy.NewCandidates(t, o.least)
		err := o.with(cmd.Context(), func(l *ledger.Ledger) error {
			return l.Reviewed(cmd.Context(), ledger.RecordedQuery{TenantID: t.ID, ActionType: o.action, Since: time.Now().Add(-o.since),
				Limit: o.limit}, candidates.Add)
		})
		return candidates.Report(), err
	})
	if err != nil {
		return err
	}
	if raw {
		return printJSON(cmd.OutOrStdout(), map[string]any{"candidates": reports})
	}
	return showCandidates(cmd.OutOrStdout(), reports)
}

func showCandidates(out io.Writer, reports []policy.CandidateReport) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	p := printer{table}
	p.line("TENANT\tACTION\tFIELDS\tASKED BECAUSE\tAPPROVED\tBY\tHALF WITHIN\tSUCH AS")
	for _, r := range reports {
		for _, c := range r.Candidates {
			p.line("%s\t%s\t%s\t%s\t%d\t%d people\t%s\t%s", r.Tenant, c.ActionType, strings.Join(c.Fields, " "), strings.Join(c.Reasons, ", "),
				c.Approved, c.Reviewers, time.Duration(c.MedianSeconds)*time.Second, cmp.Or(strings.Join(c.Keys, ", "), "-"))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	p = printer{out}
	for _, r := range reports {
		p.line("%s: %d decided requests looked at, %d unreadable. Nothing was changed.", r.Tenant, r.Decided, r.Unreadable)
	}
	return nil
}
