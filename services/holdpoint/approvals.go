package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func approvalsCommand() *cobra.Command {
	var o operator
	var filter ledger.ApprovalFilter
	var raw bool
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List what people decide, or show one request",
		Long: "List what people decide: what waits first, the most urgent on top. `approvals show ID` shows one request, who decided it, on " +
			"what hash and by what authority.\nDecisions themselves are made by people who sign in: on the pages, or through the API with a " +
			"token of their own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				list, err := l.Approvals(cmd.Context(), filter)
				if err != nil {
					return err
				}
				return listApprovals(cmd.OutOrStdout(), list, raw)
			})
		},
	}
	cmd.PersistentFlags().StringVar(&o.data, "data", "", "data directory of a running `up` (default: where up keeps it)")
	cmd.PersistentFlags().BoolVar(&raw, "json", false, "print JSON")
	flags := cmd.Flags()
	flags.StringVar(&filter.TenantID, "tenant", "", "only of this tenant")
	flags.StringVar(&filter.State, "state", "", "only pending, approved, rejected, expired or superseded ones")
	flags.StringVar(&filter.CorrelationID, "correlation-id", "", "only with this correlation id")
	flags.StringVar(&filter.Key, "key", "", "only of the run with this key")
	flags.IntVar(&filter.Limit, "limit", 50, "at most so many")
	cmd.AddCommand(&cobra.Command{
		Use: "show ID", Short: "Show one request", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return fmt.Errorf("%q is no approval id; `holdpoint approvals` lists them", args[0])
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				card, err := l.Card(cmd.Context(), id)
				if err != nil {
					return fmt.Errorf("show approval %s: %w", id, err)
				}
				return showApproval(cmd.OutOrStdout(), card, raw)
			})
		},
	})
	return cmd
}

func listApprovals(out io.Writer, list []ledger.ApprovalSummary, raw bool) error {
	if raw {
		return printJSON(out, list)
	}
	p := printer{out}
	if len(list) == 0 {
		p.line("No approvals.")
	}
	for i := range list {
		a := &list[i]
		p.line("%s  %-10s  %-22s  %s  key %s%s   %s", a.ApprovalID, a.State, a.ActionType, a.TargetSystem+" "+a.TargetRecord, a.Key,
			after("   asked for by ", a.RequestedBy), dueOrDecided(a))
	}
	return nil
}

func dueOrDecided(a *ledger.ApprovalSummary) string {
	switch {
	case a.DecidedAt != nil:
		return "since " + stamp(*a.DecidedAt)
	case a.DecideBy.Before(a.Now):
		return "expired at " + stamp(a.DecideBy)
	}
	return fmt.Sprintf("decide by %s (%s left), by %s", stamp(a.DecideBy), a.DecideBy.Sub(a.Now).Round(time.Second), strings.Join(a.Audience, " or "))
}

func showApproval(out io.Writer, c *ledger.Card, raw bool) error {
	if raw {
		return printJSON(out, c)
	}
	p := printer{out}
	p.line("approval  %s   %s   %s", c.ApprovalID, c.State, dueOrDecided(&c.ApprovalSummary))
	p.line("run       %s   key %s   source %s   correlation %s   %s%s", c.RunID, c.Key, c.Source, c.CorrelationID, c.RunState, after(", ", c.RunOutcome))
	p.line("asks for  %s of %s %s%s%s", c.ActionType, c.TargetSystem, c.TargetRecord, after("   asked for by ", c.RequestedBy), after("   sent by ", c.SentBy))
	p.line("intent    %s   revision %d   policy %s", c.IntentHash, c.Revision, c.PolicyVersion)
	for _, v := range c.Cast {
		p.line("decision  %s   %s by %s (%s#%s)%s", stamp(v.DecidedAt), v.Decision, v.ReviewerID, v.Issuer, v.Subject, after(": ", v.Reason))
	}
	printStages(p, c)
	p.line("executed  %s%s", ledger.ExecutionStatus(c.Effects), after(": ", c.OutcomeReason))
	p.line("%s", c.Canonical)
	return nil
}

// printStages says who must approve, where more is asked than a number of people, by what the request keeps.
func printStages(p printer, c *ledger.Card) {
	if c.Terms == nil {
		return
	}
	tally := ledger.Fold(*c.Terms, c.Cast)
	for i, groups := range tally.Stages {
		for _, g := range groups {
			by := make([]string, len(g.By))
			for n, v := range g.By {
				by[n] = v.ReviewerID
			}
			p.line("stage %d   %d of %s   %d missing%s", i+1, g.Approvals, cmp.Or(g.Role, strings.Join(c.Audience, " or ")), g.Missing(),
				after("   approved by ", strings.Join(by, ", ")))
		}
	}
}

func printJSON(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(out, string(text))
	}
	return err
}
