package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// resolution is what an operator found out about an effect, outside.
type resolution struct {
	operator
	done, notDone, dispute, giveUp bool
	externalID                     string
}

func resolveCommand() *cobra.Command {
	var r resolution
	cmd := &cobra.Command{
		Use:   "resolve OPERATION_ID",
		Short: "Settle an unknown or held effect by hand, with who and why",
		Long: "Settle an effect that could not be settled by reading. --done says that the provider has it, and under which id; --not-done\n" +
			"that it certainly does not, and it is sent again under the same key; --dispute holds it; --give-up ends it unsent.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settlement, err := r.settlement(args[0])
			if err != nil {
				return err
			}
			return r.with(cmd.Context(), func(l *ledger.Ledger) error {
				if err := resolve(cmd.Context(), l, settlement); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, by %s.\n", args[0], settlement.Move, r.by)
				return nil
			})
		},
	}
	r.flags(cmd, true, true)
	cmd.Flags().BoolVar(&r.done, "done", false, "the provider has it")
	cmd.Flags().StringVar(&r.externalID, "external-id", "", "the provider's id of it, with --done")
	cmd.Flags().BoolVar(&r.notDone, "not-done", false, "the provider certainly does not have it: send it again, same key")
	cmd.Flags().BoolVar(&r.dispute, "dispute", false, "hold it: the provider is being asked")
	cmd.Flags().BoolVar(&r.giveUp, "give-up", false, "end it without a write")
	cmd.MarkFlagsMutuallyExclusive("done", "not-done", "dispute", "give-up")
	cmd.MarkFlagsOneRequired("done", "not-done", "dispute", "give-up")
	return cmd
}

func (r *resolution) settlement(operationID string) (ledger.Settlement, error) {
	if r.tenant == "" {
		return ledger.Settlement{}, errors.New("say whose operation it is: --tenant")
	}
	run, revision, ordinal, err := ledger.ParseOperationID(operationID)
	if err != nil {
		return ledger.Settlement{}, err
	}
	s := ledger.Settlement{EffectKey: ledger.EffectKey{TenantID: r.tenant, RunID: run, Revision: revision, Ordinal: ordinal},
		Actor: ledger.Operator + " " + r.by, Note: r.reason, NextCheck: ledger.Never}
	switch {
	case r.done && r.externalID == "":
		return s, errors.New("name the provider's id of the object with --external-id: it is the evidence")
	case r.done:
		s.Move, s.ExternalID, s.MaybeSent = "confirm_done", r.externalID, true
	case r.notDone:
		s.Move, s.NextCheck = "confirm_not_done", 0
	case r.dispute:
		s.Move, s.HoldReason = "dispute", ledger.HoldDisputed
	default:
		s.Move, s.Reason = "give_up", "Given up by "+r.by+": "+r.reason
	}
	return s, r.accountable()
}

func resolve(ctx context.Context, l *ledger.Ledger, s ledger.Settlement) error {
	found, err := l.Open(ctx, []ledger.EffectKey{s.EffectKey})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("tenant %s has no operation %s", s.TenantID, s.OperationID())
	}
	s.RunKey, s.CorrelationID, s.TraceParent = found[0].RunKey, found[0].CorrelationID, found[0].TraceParent
	moved, err := l.Settle(ctx, "resolve", []ledger.Settlement{s})
	if err != nil {
		return err
	}
	if !moved[0] && s.Move == "confirm_not_done" && found[0].HoldReason == ledger.HoldMismatch {
		return fmt.Errorf("operation %s: the provider says that it is done, and its target does not hold it, so it is never sent again; "+
			"settle it with --done, --dispute or --give-up, and put the target right by a correction", s.OperationID())
	}
	if !moved[0] {
		return fmt.Errorf("operation %s is %s; that cannot be resolved this way", s.OperationID(), found[0].State)
	}
	return nil
}
