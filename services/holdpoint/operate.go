package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// databaseURL is HOLDPOINT_DATABASE_URL, or the database of the `up` that runs in a data directory.
func databaseURL(data string) (string, error) {
	if given := os.Getenv("HOLDPOINT_DATABASE_URL"); given != "" {
		return given, nil
	}
	file := readyFileIn(cmp.Or(data, defaultDataDir()))
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("set HOLDPOINT_DATABASE_URL, or name the data directory of a running `holdpoint up` with --data: %w", err)
	}
	var r ready
	if err := json.Unmarshal(text, &r); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return r.DatabaseURL, nil
}

// operator is the flags that all verbs on a run share.
type operator struct{ data, tenant, by, reason string }

func (o *operator) flags(cmd *cobra.Command, tenant, accountable bool) {
	cmd.Flags().StringVar(&o.data, "data", "", "data directory of a running up (default: where up keeps it)")
	if tenant {
		cmd.Flags().StringVar(&o.tenant, "tenant", os.Getenv("HOLDPOINT_TENANT"), "tenant (or HOLDPOINT_TENANT)")
	}
	if accountable {
		cmd.Flags().StringVar(&o.by, "by", "", "who decides this: a person's name or address")
		cmd.Flags().StringVar(&o.reason, "reason", "", "why")
	}
}

func (o *operator) accountable() error {
	if o.by == "" || o.reason == "" {
		return errors.New("say who decides this (--by) and why (--reason); both are kept")
	}
	return nil
}

// idOrNew is the id that --id gives, with which something can be done again, or a new one.
func idOrNew(given string) (uuid.UUID, error) {
	if given == "" {
		return uuid.New(), nil
	}
	id, err := uuid.Parse(given)
	if err != nil {
		return id, fmt.Errorf("--id %q is no UUID", given)
	}
	return id, nil
}

// with opens the ledger as an operator.
func (o *operator) with(ctx context.Context, work func(*ledger.Ledger) error) error {
	url, err := databaseURL(o.data)
	if err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, postgres.PoolConfig{URL: url, Role: "holdpoint_" + ledger.Operator, MaxConns: 2, ApplicationName: "holdpoint-operator"})
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := ledger.New(ledger.Config{Pool: pool, Service: ledger.Operator})
	if err != nil {
		return err
	}
	return work(l)
}

func migrateCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database up to this release's schema; safe to run again and by several at once",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := databaseURL(o.data)
			if err != nil {
				return err
			}
			if err := postgres.Migrate(cmd.Context(), url, migrations.FS); err != nil {
				return err
			}
			fmt.Println("The database is at this release's schema.")
			return nil
		},
	}
	o.flags(cmd, false, false)
	return cmd
}

func explainCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Tell everything about the run of an idempotency key (or a run id): processed, sent, authorized by whom, answered how",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.tenant == "" {
				return errors.New("say whose key it is: --tenant")
			}
			return o.with(cmd.Context(), func(l *ledger.Ledger) error {
				id := ledger.RunID(o.tenant, args[0])
				all, err := l.Explain(cmd.Context(), o.tenant, id)
				if given, parseErr := uuid.Parse(args[0]); errors.Is(err, ledger.ErrNoSuchRun) && parseErr == nil {
					all, err = l.Explain(cmd.Context(), o.tenant, given)
				}
				if errors.Is(err, ledger.ErrNoSuchRun) {
					return fmt.Errorf("tenant %s has no run with the key or id %q", o.tenant, args[0])
				}
				if err != nil {
					return err
				}
				return explain(cmd.OutOrStdout(), all, asJSON(cmd))
			})
		},
	}
	cmd.Flags().Bool("json", false, "print everything that is recorded, as JSON")
	o.flags(cmd, true, false)
	return cmd
}

func asJSON(cmd *cobra.Command) bool {
	yes, _ := cmd.Flags().GetBool("json")
	return yes
}

func sitesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "crash-sites",
		Short:  "List the crash boundaries that this build knows, as JSON",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"enabled": fault.Enabled, "sites": fault.Sites()})
		},
	}
}
