package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// drillCommand proves on the running system that a switch stops what it covers (D9, D15).
func drillCommand() *cobra.Command {
	var f switchFlags
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Close a switch on the running system, prove that nothing it covers is sent, and open it again in stages",
		Long: "The switch is closed for --for, and every attempt that begins meanwhile is counted: there must be none. It is opened again over\n" +
			"--ramp also where the drill is interrupted. What was waiting is what the proof is worth: with nothing to send it shows little.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.scope()
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), func(l *ledger.Ledger) error { return drill(cmd.Context(), cmd.OutOrStdout(), l, s, lasts, f.ramp) })
		},
	}
	f.flags(cmd, true, true)
	cmd.Flags().StringVar(&f.actionType, "action-type", "", "one action type of the tenant")
	cmd.Flags().StringVar(&f.connector, "connector", "", "one connector of the tenant")
	cmd.Flags().DurationVar(&lasts, "for", 10*time.Second, "how long it stays closed")
	cmd.Flags().DurationVar(&f.ramp, "ramp", defaultRamp, "let more and more effects go over this time afterwards; 0 lets all go at once")
	return cmd
}

func drill(ctx context.Context, out io.Writer, l *ledger.Ledger, s ledger.Switch, lasts, ramp time.Duration) (err error) {
	before, err := l.Switches(ctx)
	if err != nil {
		return err
	}
	for _, c := range before.Closed {
		if c.Scope == s.Scope && c.Key == s.Key {
			return fmt.Errorf("the switch %q is closed already, by %s: %s; a drill would open it", nameOf(s), c.ChangedBy, c.Reason)
		}
	}
	s.Closed = true
	if err := setSwitch(ctx, out, l, s, lasts); err != nil {
		return errors.Join(err, reopen(out, l, s, ramp))
	}
	closed, err := closedAt(ctx, l, s)
	if err == nil {
		err = pause(ctx, lasts)
	}
	began, countErr := l.SentSince(context.WithoutCancel(ctx), s, closed)
	d, drainErr := l.Drain(context.WithoutCancel(ctx), s)
	err = errors.Join(err, countErr, drainErr, reopen(out, l, s, ramp))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "In %s since it was closed: %d attempts began, %d effects waited, %d were in flight, %d are unknown.\n", lasts, began,
		d.Stopped, d.InFlight, d.Unknown)
	switch {
	case began > 0:
		return fmt.Errorf("%d attempts began while the switch was closed: sending is not stopped by it; keep AI_ACTIONS_ENABLED off", began)
	case d.Stopped == 0:
		fmt.Fprintln(out, "Nothing waited to be sent: repeat the drill when something does.")
	default:
		fmt.Fprintln(out, "The switch stops what it covers.")
	}
	return nil
}

// reopen opens the switch whatever became of the drill.
func reopen(out io.Writer, l *ledger.Ledger, s ledger.Switch, ramp time.Duration) error {
	s.Closed, s.Ramp = false, ramp
	return setSwitch(context.Background(), out, l, s, 0)
}

func closedAt(ctx context.Context, l *ledger.Ledger, s ledger.Switch) (time.Time, error) {
	state, err := l.Switches(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for _, c := range state.Closed {
		if c.Scope == s.Scope && c.Key == s.Key {
			return c.ChangedAt, nil
		}
	}
	return time.Time{}, fmt.Errorf("somebody has opened the switch %q during the drill", nameOf(s))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
