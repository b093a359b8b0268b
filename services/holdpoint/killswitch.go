package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// graceOfAFirstByte is how long after a switch closed a first byte may still leave that was granted before (D15).
const graceOfAFirstByte = time.Second

func killSwitchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kill-switch",
		Short: "Stop effects from being sent, or let them go again",
		Long: "A closed switch stops what it covers at once and everywhere: everything, a tenant (--tenant), or one action type or connector of it.\n" +
			"Once close has answered, no effect can be begun that it covers, and no first byte leaves later than a second after. What waits is\n" +
			"kept, and sent when the switch is open again, in stages unless --ramp is 0. A tenant's people close and open the tenant's switches\n" +
			"on the page \"Switches\" as well; the one that stops everything is this command's alone.",
	}
	cmd.AddCommand(setSwitchCommand("close", true), setSwitchCommand("open", false), reportCommand(), showSwitchesCommand(), drillCommand())
	return cmd
}

// switchFlags name a switch.
type switchFlags struct {
	operator
	actionType, connector string
	wait, ramp            time.Duration
}

// defaultRamp is how long opening takes: long enough to see the first effects go wrong, and to close again.
const defaultRamp = time.Minute

// scope is named, with who changes it and why.
func (f *switchFlags) scope() (ledger.Switch, error) {
	s, err := f.named()
	if err == nil {
		err = f.accountable()
	}
	return s, err
}

// named is the narrowest that the flags name: everything, a tenant, or one action type or connector of it.
func (f *switchFlags) named() (ledger.Switch, error) {
	s := ledger.Switch{Scope: ledger.ScopeGlobal, ChangedBy: f.by, Reason: f.reason}
	switch {
	case f.actionType != "" && f.connector != "":
		return s, fmt.Errorf("name an action type or a connector, not both")
	case f.tenant == "" && (f.actionType != "" || f.connector != ""):
		return s, fmt.Errorf("say whose it is: --tenant")
	case f.actionType != "":
		s.Scope, s.Key = ledger.ScopeActionType, f.tenant+"/"+f.actionType
	case f.connector != "":
		s.Scope, s.Key = ledger.ScopeConnector, f.tenant+"/"+f.connector
	case f.tenant != "":
		s.Scope, s.Key = ledger.ScopeTenant, f.tenant
	}
	return s, nil
}

func setSwitchCommand(verb string, closed bool) *cobra.Command {
	var f switchFlags
	cmd := &cobra.Command{
		Use:   verb,
		Short: map[bool]string{true: "Stop sending now: everything, or a tenant, action type or connector", false: "Let effects go again"}[closed],
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.scope()
			if err != nil {
				return err
			}
			s.Closed, s.Ramp = closed, f.ramp
			return f.with(cmd.Context(), func(l *ledger.Ledger) error { return setSwitch(cmd.Context(), cmd.OutOrStdout(), l, s, f.wait) })
		},
	}
	f.flags(cmd, true, true)
	cmd.Flags().StringVar(&f.actionType, "action-type", "", "one action type of the tenant")
	cmd.Flags().StringVar(&f.connector, "connector", "", "one connector of the tenant")
	if !closed {
		cmd.Flags().DurationVar(&f.ramp, "ramp", defaultRamp, "let more and more effects go over this time; 0 lets all go at once")
	}
	if closed {
		cmd.Flags().DurationVar(&f.wait, "wait", 0, "wait up to this long until nothing is in flight")
	}
	return cmd
}

func setSwitch(ctx context.Context, out io.Writer, l *ledger.Ledger, s ledger.Switch, wait time.Duration) error {
	epoch, err := l.SetSwitch(ctx, s)
	if err != nil {
		return err
	}
	name := nameOf(s)
	switch {
	case !s.Closed && s.Ramp > 0:
		fmt.Fprintf(out, "The switch %q opens over %s (epoch %d). Close it again if the first effects go wrong.\n", name, s.Ramp, epoch)
		return nil
	case !s.Closed:
		fmt.Fprintf(out, "The switch %q is open (epoch %d).\n", name, epoch)
		return nil
	}
	fmt.Fprintf(out, "The switch %q is closed (epoch %d). No call starts later than %s from now.\n", name, epoch, graceOfAFirstByte)
	return drained(ctx, out, l, s, wait)
}

func nameOf(s ledger.Switch) string {
	if s.Key == "" {
		return s.Scope
	}
	return s.Scope + " " + s.Key
}

func showSwitchesCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "show",
		Short: "List the switches that are closed, and those that open in stages",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				state, err := l.Switches(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Epoch %d. Closed: %d.\n", state.Epoch, len(state.Closed))
				for _, s := range state.Closed {
					fmt.Fprintf(cmd.OutOrStdout(), "  %s since %s by %s: %s\n", nameOf(s), s.ChangedAt.UTC().Format(time.RFC3339), s.ChangedBy, s.Reason)
				}
				for _, s := range state.Opening {
					fmt.Fprintf(cmd.OutOrStdout(), "  %s opens until %s by %s: %s\n", nameOf(s),
						s.ChangedAt.Add(s.Ramp).UTC().Format(time.RFC3339), s.ChangedBy, s.Reason)
				}
				return nil
			})
		},
	}
	o.flags(cmd, false, false)
	return cmd
}
