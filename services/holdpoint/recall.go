package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// recallBatch is how many effects one transaction holds or lets go.
const recallBatch = 500

func recallCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "recall", Short: "Hold everything unsent that a model, prompt, workflow or policy version has drafted"}
	cmd.AddCommand(startRecallCommand(), liftRecallCommand(), showRecallCommand())
	return cmd
}

func startRecallCommand() *cobra.Command {
	var o operator
	var r ledger.Recall
	var id, since string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Hold what was drafted and is not sent, and whatever comes of the same drafts later; list what was sent",
		Long: "Name what has drafted: --model with or without --revision, --prompt, --workflow, --policy. A draft is recalled where all that\n" +
			"are given are its own. The recall stands until it is lifted: what people approve of such a draft meanwhile is held too. Run it\n" +
			"again with the --id that it printed to hold what was left when it was interrupted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.tenant == "" {
				return errors.New("say whose drafts: --tenant")
			}
			if err = o.accountable(); err != nil {
				return err
			}
			r.TenantID, r.By, r.Reason = o.tenant, o.by, o.reason
			if r.ID, err = idOrNew(id); err != nil {
				return err
			}
			if since != "" {
				if r.Since, err = time.Parse(time.RFC3339, since); err != nil {
					return fmt.Errorf("--since %q is no time such as 2026-11-30T12:00:00Z", since)
				}
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error { return recall(cmd.Context(), cmd.OutOrStdout(), l, &r, asJSON(cmd)) })
		},
	}
	o.flags(cmd, true, true)
	cmd.Flags().StringVar(&r.ModelName, "model", "", "the model's name, as the proposals give it")
	cmd.Flags().StringVar(&r.ModelRevision, "revision", "", "the model's revision, with --model")
	cmd.Flags().StringVar(&r.PromptVersion, "prompt", "", "the prompt's version")
	cmd.Flags().StringVar(&r.WorkflowVersion, "workflow", "", "the workflow's version, such as crm-enrichment@3")
	cmd.Flags().StringVar(&r.PolicyVersion, "policy", "", "the policy version that decided")
	cmd.Flags().StringVar(&since, "since", "", "only drafts from this time on (RFC 3339)")
	cmd.Flags().StringVar(&id, "id", "", "go on with a recall that was interrupted")
	cmd.Flags().Bool("json", false, "print the report as JSON")
	return cmd
}

func recall(ctx context.Context, out io.Writer, l *ledger.Ledger, r *ledger.Recall, asJSON bool) error {
	if err := l.StartRecall(ctx, *r); err != nil {
		return err
	}
	held, err := inBatches(func() (int, error) { return l.HoldRecalled(ctx, r.TenantID, r.ID, recallBatch) })
	if err != nil {
		return fmt.Errorf("the recall %s stands, and nothing of it is sent; hold the rest with --id %s: %w", r.ID, r.ID, err)
	}
	report, err := newRecallReport(ctx, l, r.TenantID, r.ID)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(report)
	}
	fmt.Fprintf(out, "Recall %s stands. No call of what it covers starts later than %s from now. Held now: %d.\n", r.ID, graceOfAFirstByte, held)
	report.print(out)
	return nil
}

// inBatches repeats until nothing is left to do.
func inBatches(once func() (int, error)) (all int, err error) {
	for {
		n, err := once()
		all += n
		if err != nil || n < recallBatch {
			return all, err
		}
	}
}

func liftRecallCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "lift ID",
		Short: "Let go what a recall held, and whatever comes of its drafts from now on",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return fmt.Errorf("%q is no id of a recall: see `holdpoint recall show`", args[0])
			}
			if o.tenant == "" {
				return errors.New("say whose recall: --tenant")
			}
			if err := o.accountable(); err != nil {
				return err
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				again := l.LiftRecall(cmd.Context(), o.tenant, id, o.by, o.reason)
				if again != nil && !errors.Is(again, ledger.ErrNoRecall) {
					return again
				}
				freed, err := inBatches(func() (int, error) { return l.ReleaseRecalled(cmd.Context(), o.tenant, id, recallBatch) })
				if err != nil {
					return fmt.Errorf("the recall is lifted; run it again to let go the rest: %w", err)
				}
				if again != nil && freed == 0 {
					return fmt.Errorf("tenant %s: %w", o.tenant, again)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Recall %s is lifted. Waiting to be sent again: %d.\n", id, freed)
				return nil
			})
		},
	}
	o.flags(cmd, true, true)
	return cmd
}

func showRecallCommand() *cobra.Command {
	var o operator
	var all bool
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "List the recalls that stand, or what one of them covers and what was sent of it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				recalls, err := l.Recalls(cmd.Context(), o.tenant, all || len(args) > 0)
				if err != nil {
					return err
				}
				if len(args) > 0 {
					return showRecalled(cmd.Context(), cmd.OutOrStdout(), l, recalls, args[0], asJSON(cmd))
				}
				for i := range recalls {
					fmt.Fprintln(cmd.OutOrStdout(), recallLine(&recalls[i]))
				}
				return nil
			})
		},
	}
	o.flags(cmd, true, false)
	cmd.Flags().BoolVar(&all, "all", false, "those that were lifted, too")
	cmd.Flags().Bool("json", false, "print what one covers as JSON")
	return cmd
}

func showRecalled(ctx context.Context, out io.Writer, l *ledger.Ledger, recalls []ledger.Recall, id string, asJSON bool) error {
	for i := range recalls {
		r := &recalls[i]
		if r.ID.String() != id {
			continue
		}
		report, err := newRecallReport(ctx, l, r.TenantID, r.ID)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(out).Encode(report)
		}
		fmt.Fprintln(out, recallLine(r))
		report.print(out)
		return nil
	}
	return fmt.Errorf("there is no recall %s; see `holdpoint recall show --all`", id)
}

func recallLine(r *ledger.Recall) string {
	line := fmt.Sprintf("%s %s", r.ID, r.TenantID)
	for _, part := range [][2]string{{"model", r.ModelName}, {"revision", r.ModelRevision}, {"prompt", r.PromptVersion},
		{"workflow", r.WorkflowVersion}, {"policy", r.PolicyVersion}} {
		if part[1] != "" {
			line += " " + part[0] + "=" + part[1]
		}
	}
	if !r.Since.IsZero() {
		line += " since=" + r.Since.UTC().Format(time.RFC3339)
	}
	line += fmt.Sprintf(" by %s at %s: %s", r.By, r.At.UTC().Format(time.RFC3339), r.Reason)
	if r.Lifted {
		line += " (lifted)"
	}
	return line
}

// recallReport says what a recall covers. Sent are the effects that have reached the provider, or may have: nothing takes them back but a
// correction.
type recallReport struct {
	RecallID string             `json:"recall_id"`
	Drafts   int                `json:"drafts"`
	Waiting  int                `json:"waiting_for_people"` // held when they are approved
	Held     int                `json:"held"`
	InFlight int                `json:"in_flight"`
	Unknown  int                `json:"unknown"`
	Done     int                `json:"done"`
	Sent     []*ledger.Recalled `json:"sent"`
}

func newRecallReport(ctx context.Context, l *ledger.Ledger, tenant string, id uuid.UUID) (*recallReport, error) {
	report := &recallReport{RecallID: id.String(), Sent: []*ledger.Recalled{}}
	err := l.EachRecalled(ctx, tenant, id, func(d *ledger.Recalled) error {
		report.Drafts++
		switch {
		case d.RunState == ledger.RunAwaitingHuman:
			report.Waiting++
		case d.HoldReason == ledger.HoldRecalled:
			report.Held++
		case d.State == ledger.EffectSending:
			report.InFlight++
		case d.State == ledger.EffectUnknown || d.State == ledger.EffectAccepted:
			report.Unknown++
		case d.State == ledger.EffectCompleted:
			report.Done++
		}
		if d.MaybeSent || d.State == ledger.EffectSending {
			sent := *d
			report.Sent = append(report.Sent, &sent)
		}
		return nil
	})
	return report, err
}

func (r *recallReport) print(out io.Writer) {
	fmt.Fprintf(out, "Drafts: %d. Held: %d. Waiting for people: %d. In flight: %d. Unknown: %d. Done: %d.\n", r.Drafts, r.Held, r.Waiting,
		r.InFlight, r.Unknown, r.Done)
	if len(r.Sent) > 0 {
		fmt.Fprintln(out, "Sent, or maybe sent; a correction puts right what it did:")
	}
	for _, d := range r.Sent {
		id := d.ExternalID
		if id == "" {
			id = "no id known"
		}
		fmt.Fprintf(out, "  %s %s %s %s/%s %s (%s)\n", d.OperationID, d.Key, d.ActionType, d.TargetSystem, d.TargetRecord, d.State, id)
	}
}
