package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// resolution is what an operator found out about an effect, outside.
type resolution struct {
	operator
	done, notDone, dispute, giveUp       bool
	externalID, evidence, second, config string
}

func resolveCommand() *cobra.Command {
	var r resolution
	cmd := &cobra.Command{
		Use:   "resolve OPERATION_ID",
		Short: "Settle an unknown or held effect by hand, with who and why",
		Long: "Settle an effect that could not be settled by reading. --done says that the provider has it, and under which id; --not-done\n" +
			"that it certainly does not, and it is sent again under the same key; --dispute holds it; --give-up ends it unsent.\n" +
			"`holdpoint desk` lists what waits. What may have been sent, and whose provider does not replay its key, needs a second\n" +
			"person to be sent again: --second. Without the configuration (--config) that is so of all that may have been sent.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settlement, err := r.settlement(args[0])
			if err != nil {
				return err
			}
			return r.with(cmd.Context(), func(l *ledger.Ledger) error {
				if err := r.resolve(cmd.Context(), l, settlement); err != nil {
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
	cmd.Flags().StringVar(&r.evidence, "evidence", "", "address of what shows it")
	cmd.Flags().StringVar(&r.second, "second", "", "who else has looked and says the same, with --not-done: a person's name or address")
	cmd.Flags().StringVar(&r.config, "config", "", "configuration directory, which says what needs a second person")
	cmd.MarkFlagsMutuallyExclusive("done", "not-done", "dispute", "give-up")
	cmd.MarkFlagsOneRequired("done", "not-done", "dispute", "give-up")
	return cmd
}

// person is somebody who is known by their name on the command line alone: whoever may log in as an operator is trusted with it.
func person(name string) ledger.Reviewer {
	authority, _ := json.Marshal(map[string]string{"database_role": "holdpoint_" + ledger.Operator}) // texts always marshal
	return ledger.Reviewer{Issuer: "command line", Subject: name, ID: name, Authority: authority}
}

func (r *resolution) settlement(operationID string) (ledger.Resolution, error) {
	if r.tenant == "" {
		return ledger.Resolution{}, errors.New("say whose operation it is: --tenant")
	}
	run, revision, ordinal, err := ledger.ParseOperationID(operationID)
	if err != nil {
		return ledger.Resolution{}, err
	}
	effect := ledger.EffectKey{TenantID: r.tenant, RunID: run, Revision: revision, Ordinal: ordinal}
	s := ledger.Resolution{CommandID: uuid.New(), EffectKey: effect,
		Reason: r.reason, Evidence: r.evidence, By: person(r.by), Channel: ledger.ChannelCommand}
	switch {
	case r.done && r.externalID == "":
		return s, errors.New("name the provider's id of the object with --external-id: it is the evidence")
	case r.done:
		s.Move, s.ExternalID = "confirm_done", r.externalID
	case r.notDone:
		s.Move = "confirm_not_done"
	case r.dispute:
		s.Move = "dispute"
	default:
		s.Move = "give_up"
	}
	if r.second != "" {
		if strings.EqualFold(strings.TrimSpace(r.second), strings.TrimSpace(r.by)) {
			return s, errors.New("--second must be another person than --by")
		}
		other := person(r.second)
		s.Second = &other
	}
	return s, r.accountable()
}

func (r *resolution) resolve(ctx context.Context, l *ledger.Ledger, s ledger.Resolution) error {
	found, err := l.DeskCase(ctx, s.OperationID())
	if errors.Is(err, ledger.ErrNoOperation) || err == nil && found.TenantID != s.TenantID {
		return fmt.Errorf("tenant %s has no operation %s", s.TenantID, s.OperationID())
	}
	if err != nil {
		return err
	}
	two, err := r.takesTwo(found)
	if err != nil {
		return err
	}
	if s.Move == "confirm_not_done" && two && s.Second == nil && found.HoldReason != ledger.HoldMismatch {
		return fmt.Errorf("operation %s may have been sent, and its provider does not replay the key: if it has done it after all, it is done "+
			"twice; name with --second who else has looked and says the same", s.OperationID())
	}
	s.Seen, s.TwoPeople = found.Seen(), s.Move == "confirm_not_done" && two
	done, err := l.Resolve(ctx, s)
	switch {
	case err != nil:
		return err
	case done.Result == ledger.ResolvedNeverResent:
		return fmt.Errorf("operation %s: the provider says that it is done, and its target does not hold it, so it is never sent again; "+
			"settle it with --done, --dispute or --give-up, and put the target right by a correction", s.OperationID())
	case done.Result == ledger.ResolvedChanged:
		return fmt.Errorf("operation %s has changed while it was being resolved; it is %s now", s.OperationID(), done.State)
	case !done.Made():
		return fmt.Errorf("operation %s is %s; that cannot be resolved this way", s.OperationID(), done.State)
	}
	return nil
}

// takesTwo goes by the configuration, or without it by the worse.
func (r *resolution) takesTwo(c *ledger.DeskCase) (bool, error) {
	var action *config.Action
	var op *config.Operation
	if r.config != "" {
		cfg, err := config.LoadDir(r.config)
		if err != nil {
			return false, fmt.Errorf("configuration in %s:\n%w", r.config, err)
		}
		for _, t := range cfg.Tenants {
			if t.ID == c.TenantID {
				action, op = t.Action(c.ActionType), t.Operation(c.Connector, c.Operation)
			}
		}
	}
	return outcome.TakesTwo(action, op, c.MaybeSent, c.FirstSentAt, c.Now), nil
}
