package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "restore", Short: "See and settle what a database that was put back to a backup does not know",
		Long: "After a restore from a backup the database does not know what was sent since. The relay finds that out by the bus and declares\n" +
			"it; while a restore stands, every effect is looked for at its provider before it is sent, and one that cannot be looked for\n" +
			"waits for an operator (holdpoint resolve). It ends by itself when the backup's age and the longest memory of keys are over."}
	cmd.AddCommand(showRestoresCommand(), declareRestoreCommand(), liftRestoreCommand())
	return cmd
}

func showRestoresCommand() *cobra.Command {
	var o operator
	var all bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "List the restores that stand, and how far looking has come",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				restores, err := l.Restores(cmd.Context(), all)
				if err != nil {
					return err
				}
				if asJSON(cmd) {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(append([]ledger.Restore{}, restores...))
				}
				if len(restores) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "No restore stands.")
				}
				for i := range restores {
					printRestore(cmd.OutOrStdout(), &restores[i])
				}
				return nil
			})
		},
	}
	o.flags(cmd, false, false)
	cmd.Flags().BoolVar(&all, "all", false, "those that have ended, too")
	cmd.Flags().Bool("json", false, "print them as JSON")
	return cmd
}

func printRestore(out io.Writer, r *ledger.Restore) {
	state := "stands until " + r.EndsAt.UTC().Format(time.RFC3339)
	if !r.Stands(time.Now()) {
		state = "has ended"
	}
	fmt.Fprintf(out, "%s %s. Detected by %s at %s: %s\n", r.ID, state, r.By, r.DetectedAt.UTC().Format(time.RFC3339), r.Reason)
	fmt.Fprintf(out, "  What was sent after %s may be unknown. Looked for: unknown %d, done %d, not done %d, held %d. Not looked for yet: %d.\n",
		r.BackupAt.UTC().Format(time.RFC3339), r.Unknown, r.Done, r.Absent, r.Held, r.Unasked)
}

func declareRestoreCommand() *cobra.Command {
	var o operator
	var backup, id string
	var window time.Duration
	cmd := &cobra.Command{
		Use:   "declare",
		Short: "Say that the database was put back, where the bus was lost as well and cannot know it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.accountable(); err != nil {
				return err
			}
			at, err := time.Parse(time.RFC3339, backup)
			if err != nil || at.After(time.Now()) {
				return fmt.Errorf("--backup-at %q is no time in the past such as 2026-11-30T12:00:00Z: say when the backup was made", backup)
			}
			restore, err := idOrNew(id)
			if err != nil {
				return err
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				if err := l.DeclareRestore(cmd.Context(), restore, at, window, o.by, o.reason); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Restore %s stands: everything is looked for before it is sent.\n", restore)
				return nil
			})
		},
	}
	o.flags(cmd, false, true)
	cmd.Flags().StringVar(&backup, "backup-at", "", "when the backup was made (RFC 3339)")
	cmd.Flags().DurationVar(&window, "key-window", 24*time.Hour, "the longest time for which a provider remembers a key")
	cmd.Flags().StringVar(&id, "id", "", "an id of your own, with which it can be said again")
	return cmd
}

func liftRestoreCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "lift ID",
		Short: "End a restore before its time: what waits is sent without looking for it first",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return fmt.Errorf("%q is no id of a restore: see `holdpoint restore show`", args[0])
			}
			if err := o.accountable(); err != nil {
				return err
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				if err := l.LiftRestore(cmd.Context(), id, o.by, o.reason); err != nil {
					if errors.Is(err, ledger.ErrNoRestore) {
						return fmt.Errorf("%w: see `holdpoint restore show --all`", err)
					}
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Restore %s is lifted. What is unknown stays so until it is found or resolved.\n", id)
				return nil
			})
		},
	}
	o.flags(cmd, false, true)
	return cmd
}
