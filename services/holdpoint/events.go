package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// eventsCommand is for what providers tell by themselves and nobody knows what it is about (R4).
func eventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "See, match again or dismiss what providers have told by themselves",
		Long: "A provider's event that names nothing that is known is kept. It is looked at again for a day, and after a minute it is an error in\n" +
			"the reconciler's log and counted in holdpoint_provider_events_unmatched. Then it is an operator's: once it is known what it is\n" +
			"about, have it matched again; if it is about nothing of ours, dismiss it.",
	}
	cmd.AddCommand(eventsListCommand(), eventsShowCommand(),
		settleEventCommand(ledger.EventReplay, "Match an event again and apply it, as if it had just come"),
		settleEventCommand(ledger.EventDismiss, "Mark an event as being about nothing of ours; it is kept"))
	return cmd
}

// since is a time as people write it: RFC 3339, or how long ago.
func since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--since %q: write a time such as 2026-12-01T10:00:00Z, or how long ago, such as 24h", text)
	}
	return at, nil
}

func eventsListCommand() *cobra.Command {
	var o operator
	f := ledger.EventFilter{}
	var from string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the events of a tenant that are about nothing that is known, the oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.tenant == "" {
				return errors.New("say whose events: --tenant")
			}
			f.TenantID = o.tenant
			if f.Since, err = since(from, time.Now()); err != nil {
				return err
			}
			if f.State == "any" {
				f.State = ""
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				events, err := l.StoredEvents(cmd.Context(), f)
				if err != nil {
					return err
				}
				if asJSON(cmd) {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(eventsAsJSON(events))
				}
				for i := range events {
					printEvent(cmd.OutOrStdout(), &events[i])
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d events.\n", len(events))
				return nil
			})
		},
	}
	o.flags(cmd, true, false)
	cmd.Flags().StringVar(&f.Connector, "connector", "", "one connector")
	cmd.Flags().StringVar(&f.State, "state", ledger.EventUnmatched, "unmatched, waiting, ignored, applied, dismissed or any")
	cmd.Flags().StringVar(&from, "since", "", "received since this time, or so long ago (24h)")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "list at most so many")
	cmd.Flags().Bool("json", false, "print all that is known of each but its body, as JSON")
	return cmd
}

// printEvent quotes what the provider wrote: it may hold anything.
func printEvent(out io.Writer, e *ledger.StoredEvent) {
	fmt.Fprintf(out, "%s  %s  %s  %s, %s %q\n", e.ReceivedAt.UTC().Format(time.RFC3339), e.Connector, strconv.Quote(e.ID), e.State, e.Verdict,
		e.Status)
	fmt.Fprintf(out, "  names operation %q, id %q, version %q; %d bytes; looked at %d times\n", e.OperationID, e.ExternalID, e.RecordVersion,
		e.Size, e.Attempts)
	if e.Detail != "" {
		fmt.Fprintf(out, "  %q\n", e.Detail)
	}
}

// eventJSON is one event for programs.
type eventJSON struct {
	TenantID      string    `json:"tenant_id"`
	Connector     string    `json:"connector"`
	EventID       string    `json:"event_id"`
	ReceivedAt    time.Time `json:"received_at"`
	State         string    `json:"state"`
	Verdict       string    `json:"verdict"`
	Status        string    `json:"status,omitempty"`
	OperationID   string    `json:"operation_id,omitempty"` // as the event names it; likewise the next two
	ExternalID    string    `json:"external_id,omitempty"`
	RecordVersion string    `json:"record_version,omitempty"`
	Effect        string    `json:"effect,omitempty"` // the operation that it is about
	Detail        string    `json:"detail,omitempty"`
	Attempts      int       `json:"attempts"`
	BodyBytes     int       `json:"body_bytes"`
	BodySHA256    string    `json:"body_sha256"`
}

func eventsAsJSON(events []ledger.StoredEvent) []eventJSON {
	all := make([]eventJSON, len(events))
	for i, e := range events {
		all[i] = eventJSON{TenantID: e.TenantID, Connector: e.Connector, EventID: e.ID, ReceivedAt: e.ReceivedAt, State: e.State,
			Verdict: e.Verdict, Status: e.Status, OperationID: e.OperationID, ExternalID: e.ExternalID, RecordVersion: e.RecordVersion,
			Detail: e.Detail, Attempts: e.Attempts, BodyBytes: e.Size, BodySHA256: hex.EncodeToString(e.Digest)}
		if e.Effect != nil {
			all[i].Effect = e.Effect.OperationID()
		}
	}
	return all
}

func eventsShowCommand() *cobra.Command {
	var o operator
	var body bool
	cmd := &cobra.Command{
		Use:   "show CONNECTOR EVENT_ID",
		Short: "Show all that is known of one event, and with --body what the provider sent",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.tenant == "" {
				return errors.New("say whose event: --tenant")
			}
			if body {
				if err := o.accountable(); err != nil {
					return fmt.Errorf("a body may hold personal data: %w", err)
				}
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				if body {
					return printBody(cmd, l, &o, args)
				}
				return showEvent(cmd.Context(), cmd.OutOrStdout(), l, o.tenant, args[0], args[1])
			})
		},
	}
	o.flags(cmd, true, true)
	cmd.Flags().BoolVar(&body, "body", false, "print the body alone, byte for byte; needs --by and --reason, which are kept")
	return cmd
}

func printBody(cmd *cobra.Command, l *ledger.Ledger, o *operator, args []string) error {
	read, err := l.SettleEvent(cmd.Context(), ledger.EventCommand{TenantID: o.tenant, Connector: args[0], ID: args[1],
		Verb: ledger.EventReadBody, By: o.by, Reason: o.reason})
	if err != nil {
		return noEvent(err, o.tenant, args)
	}
	_, err = cmd.OutOrStdout().Write(read.Body)
	return err
}

func noEvent(err error, tenant string, args []string) error {
	if errors.Is(err, ledger.ErrNoEvent) {
		return fmt.Errorf("connector %s of tenant %s has told no event %q; `holdpoint events list` shows them", args[0], tenant, args[1])
	}
	return err
}

func showEvent(ctx context.Context, out io.Writer, l *ledger.Ledger, tenant, connector, id string) error {
	e, err := l.StoredEvent(ctx, tenant, connector, id)
	if err != nil {
		return noEvent(err, tenant, []string{connector, id})
	}
	changes, err := l.EventChanges(ctx, tenant, connector, id)
	if err != nil {
		return err
	}
	printEvent(out, &e)
	fmt.Fprintf(out, "  body: %d bytes, SHA-256 %s; --body prints it\n", e.Size, hex.EncodeToString(e.Digest))
	if e.Effect != nil {
		fmt.Fprintf(out, "  it is about operation %s\n", e.Effect.OperationID())
	}
	for _, c := range changes {
		fmt.Fprintf(out, "  %s  %s by %s, from %s: %q\n", c.ChangedAt.UTC().Format(time.RFC3339), c.Verb, c.ChangedBy, c.From, c.Reason)
	}
	return nil
}

// settleEventCommand has an event matched again, or dismisses it.
func settleEventCommand(verb, short string) *cobra.Command {
	var o operator
	var wait time.Duration
	var given string
	cmd := &cobra.Command{
		Use:   verb + " CONNECTOR EVENT_ID",
		Short: short,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.tenant == "" {
				return errors.New("say whose event: --tenant")
			}
			if err := o.accountable(); err != nil {
				return err
			}
			id, err := idOrNew(given)
			if err != nil {
				return err
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				changed, err := l.SettleEvent(cmd.Context(), ledger.EventCommand{CommandID: id, TenantID: o.tenant, Connector: args[0], ID: args[1],
					Verb: verb, By: o.by, Reason: o.reason})
				switch {
				case err != nil:
					return noEvent(err, o.tenant, args)
				case !changed.Made:
					return fmt.Errorf("event %q is %s: that is not something to %s", args[1], changed.From, verb)
				case verb == ledger.EventDismiss:
					fmt.Fprintf(cmd.OutOrStdout(), "%q: dismissed by %s.\n", args[1], o.by)
					return nil
				}
				return awaitEvent(cmd.Context(), cmd.OutOrStdout(), l, o.tenant, args[0], args[1], wait)
			})
		},
	}
	o.flags(cmd, true, true)
	cmd.Flags().StringVar(&given, "id", "", "a UUID with which the command can be given again where it is not known whether it was done")
	if verb == ledger.EventReplay {
		cmd.Flags().DurationVar(&wait, "wait", 10*time.Second, "wait up to this long until a reconciler has taken it up, and tell what it came to")
	}
	return cmd
}

// awaitEvent tells what became of an event that waits to be applied.
func awaitEvent(ctx context.Context, out io.Writer, l *ledger.Ledger, tenant, connector, id string, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		e, err := l.StoredEvent(ctx, tenant, connector, id)
		if err != nil {
			return err
		}
		switch {
		case e.State != ledger.EventWaiting:
			fmt.Fprintf(out, "%q: %s. %s\n", id, e.State, e.Detail)
			return nil
		case !time.Now().Before(deadline):
			fmt.Fprintf(out, "%q: it waits to be applied. `holdpoint events show` tells what it came to.\n", id)
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
