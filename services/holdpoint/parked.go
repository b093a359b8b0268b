package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func parkedCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "parked", Short: "See, fix, replay or discard messages that could not be processed"}
	cmd.AddCommand(parkedListCommand(), parkedReplayCommand(), parkedDiscardCommand())
	return cmd
}

func parkedListCommand() *cobra.Command {
	var o operator
	var limit int
	var bodies bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that wait, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				parked, err := l.ParkedMessages(cmd.Context(), limit)
				if err != nil {
					return err
				}
				for _, p := range parked {
					fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s  %s\n  %s\n", p.ID, p.ParkedAt.UTC().Format(time.RFC3339), cmp.Or(p.TenantID, "-"), p.Subject, p.Reason)
					if bodies {
						fmt.Fprintf(cmd.OutOrStdout(), "  headers %v\n  %s\n", p.Headers, p.Body)
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d messages.\n", len(parked))
				return nil
			})
		},
	}
	o.flags(cmd, false, false)
	cmd.Flags().IntVar(&limit, "limit", 100, "list at most so many")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "show headers and bodies, which may hold personal data")
	return cmd
}

func parkedReplayCommand() *cobra.Command {
	var o operator
	var file string
	var headers []string
	cmd := &cobra.Command{
		Use:   "replay ID",
		Short: "Send a parked message again, corrected where asked",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			fix := ledger.Edit{Headers: map[string]string{}}
			for _, h := range headers {
				name, value, ok := strings.Cut(h, ":")
				if !ok {
					return fmt.Errorf("--header %q: write Name:value", h)
				}
				fix.Headers[name] = strings.TrimSpace(value)
			}
			if file != "" {
				body, err := os.ReadFile(file)
				if err != nil {
					return fmt.Errorf("read the corrected body: %w", err)
				}
				fix.Body = body
			}
			return o.settleParked(cmd, args[0], "replayed", func(l *ledger.Ledger, id uuid.UUID) error {
				return l.Replay(cmd.Context(), id, o.by, fix)
			})
		},
	}
	o.flags(cmd, false, false)
	cmd.Flags().StringVar(&o.by, "by", "", "who decides this: a person's name or address")
	cmd.Flags().StringVar(&file, "body", "", "file with the corrected body")
	cmd.Flags().StringArrayVar(&headers, "header", nil, "corrected header, Name:value; may be given more than once")
	return cmd
}

func parkedDiscardCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "discard ID",
		Short: "Mark a parked message as not to be replayed; it is kept",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.settleParked(cmd, args[0], "discarded", func(l *ledger.Ledger, id uuid.UUID) error { return l.Discard(cmd.Context(), id, o.by) })
		},
	}
	o.flags(cmd, false, false)
	cmd.Flags().StringVar(&o.by, "by", "", "who decides this: a person's name or address")
	return cmd
}

func (o *operator) settleParked(cmd *cobra.Command, arg, done string, settle func(*ledger.Ledger, uuid.UUID) error) error {
	id, err := uuid.Parse(arg)
	if err != nil {
		return fmt.Errorf("%q is not the id of a parked message; `holdpoint parked list` shows them", arg)
	}
	if o.by == "" {
		return errors.New("say who decides this: --by")
	}
	return o.with(cmd.Context(), func(l *ledger.Ledger) error {
		if err := settle(l, id); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s by %s.\n", id, done, o.by)
		return nil
	})
}
