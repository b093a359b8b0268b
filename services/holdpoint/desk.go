package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// deskCommand lists what `holdpoint resolve` settles.
func deskCommand() *cobra.Command {
	var o operator
	var kind, connector, sort string
	var limit int
	cmd := &cobra.Command{
		Use:   "desk",
		Short: "List the effects that a person has to settle, with how old they are and what is at risk",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.tenant == "" {
				return errors.New("say whose effects: --tenant")
			}
			f := ledger.DeskFilter{Scopes: []ledger.DeskScope{{TenantID: o.tenant}}, Kind: kind, Connector: connector, UnknownFor: time.Minute,
				AcceptedFor: outcome.AcceptedDeadline, ByAmount: sort == "amount", Limit: limit}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				items, err := l.Desk(cmd.Context(), f)
				if err != nil {
					return err
				}
				sums, err := l.DeskSums(cmd.Context(), f)
				if err != nil {
					return err
				}
				if asJSON(cmd) {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"sums": sums, "items": items})
				}
				return printDesk(cmd.OutOrStdout(), sums, items)
			})
		},
	}
	o.flags(cmd, true, false)
	cmd.Flags().StringVar(&kind, "kind", "", "one kind: unknown, accepted, or why it is held")
	cmd.Flags().StringVar(&connector, "connector", "", "one connector")
	cmd.Flags().StringVar(&sort, "sort", "oldest", "oldest or amount: what comes first")
	cmd.Flags().IntVar(&limit, "limit", 100, "list at most so many")
	cmd.Flags().Bool("json", false, "print all that is known of each, as JSON")
	return cmd
}

func printDesk(out io.Writer, sums []ledger.DeskSum, items []ledger.DeskItem) error {
	for _, s := range sums {
		fmt.Fprintf(out, "%s, %s at %s: %d, the oldest for %s, at risk %s %s\n", s.Kind, s.ActionType, s.Connector, s.Count,
			s.Now.Sub(s.Oldest).Round(time.Second), cmp.Or(s.Amount, "nothing"), s.Currency)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OPERATION\tKIND\tAGE\tACTION\tTARGET\tAMOUNT\tATTEMPTS\tLOOKUPS\tLAST")
	for i := range items {
		e := &items[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s/%s\t%s %s\t%d\t%d\t%s\n", e.OperationID(), e.Kind, e.Now.Sub(e.Since).Round(time.Second),
			e.ActionType, e.TargetSystem, e.TargetRecord, e.Amount, e.Currency, e.Attempts, e.Lookups,
			cmp.Or(e.LastVerdict, e.LastClass, "no report"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the desk: %w", err)
	}
	fmt.Fprintf(out, "%d effects.\n", len(items))
	return nil
}
