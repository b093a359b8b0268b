package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// reportCommand tells what a switch covers, whether it is closed or not (D15).
func reportCommand() *cobra.Command {
	var f switchFlags
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Tell what a switch covers: what waits, what is in flight until when, and what is unknown",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.named()
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), func(l *ledger.Ledger) error {
				if !asJSON(cmd) {
					return drained(cmd.Context(), cmd.OutOrStdout(), l, s, f.wait)
				}
				r, err := l.DrainReport(cmd.Context(), s)
				if err != nil {
					return err
				}
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			})
		},
	}
	f.flags(cmd, true, false)
	cmd.Flags().StringVar(&f.actionType, "action-type", "", "one action type of the tenant")
	cmd.Flags().StringVar(&f.connector, "connector", "", "one connector of the tenant")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "wait up to this long until nothing is in flight")
	cmd.Flags().Bool("json", false, "print it as JSON, without waiting")
	return cmd
}

// drained waits until nothing is in flight that the switch covers, and tells what there is.
func drained(ctx context.Context, out io.Writer, l *ledger.Ledger, s ledger.Switch, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		r, err := l.DrainReport(ctx, s)
		if err != nil {
			return err
		}
		if r.InFlight == 0 || !time.Now().Before(deadline) {
			printReport(out, &r)
			if r.InFlight > 0 && wait > 0 {
				return fmt.Errorf("%d calls are still in flight after %s; each ends with its connector's timeout", r.InFlight, wait)
			}
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func printReport(out io.Writer, r *ledger.DrainReport) {
	fmt.Fprintf(out, "Stopped: %d. In flight: %d. Unknown: %d.\n", r.Stopped, r.InFlight, r.Unknown)
	if r.Windowed+r.Retrying > 0 {
		fmt.Fprintf(out, "  Of those stopped, people can still take back %d, and %d were tried before.\n", r.Windowed, r.Retrying)
	}
	if r.Accepted > 0 {
		fmt.Fprintf(out, "  Their provider has taken %d, and works on them by itself.\n", r.Accepted)
	}
	if r.InFlight > 0 {
		fmt.Fprintf(out, "  The last call in flight has ended by %s.\n", r.Until.UTC().Format(time.RFC3339))
	}
	for _, c := range r.Calls {
		word := "in flight until"
		if c.State == ledger.EffectUnknown {
			word = "unknown since"
		}
		fmt.Fprintf(out, "  %s  %s at %s, %s %s\n", c.OperationID, c.ActionType, c.Connector, word, c.At.UTC().Format(time.RFC3339))
	}
	if r.Cut {
		fmt.Fprintf(out, "  There are more: at most %d of each connector and state are counted.\n", ledger.DrainBound)
	}
}
