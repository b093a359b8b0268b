package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// connectorFlags are what the verbs about connectors can be told.
type connectorFlags struct {
	operator
	configDir            string
	connector, operation string
	raw                  bool
}

func connectorCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "connector", Short: "Prove what connectors promise, list which of their promises count, and print the shipped profiles"}
	cmd.AddCommand(connectorCheckCommand(), connectorListCommand(), connectorAttestCommand(), connectorProfilesCommand())
	return cmd
}

func (f *connectorFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.configDir, "config", "", "configuration directory, with a folder tenants (default: HOLDPOINT_CONFIG_DIR, else /etc/holdpoint)")
	cmd.Flags().StringVar(&f.tenant, "tenant", os.Getenv("HOLDPOINT_TENANT"), "tenant (or HOLDPOINT_TENANT)")
	cmd.Flags().StringVar(&f.connector, "connector", "", "one connector (default: all of the tenant's)")
	cmd.Flags().StringVar(&f.operation, "operation", "", "one operation (default: all)")
}

// load reads the configuration with all that it declares, and finds the tenant.
func (f *connectorFlags) load() (*config.Tenant, error) {
	var common service.Settings
	if err := service.Load("", &common); err != nil {
		return nil, err
	}
	f.configDir = cmp.Or(f.configDir, common.ConfigDir)
	cfg, err := config.LoadDeclared(os.DirFS(f.configDir), os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("configuration in %s (another is named with --config):\n%w", f.configDir, err)
	}
	if f.tenant == "" && len(cfg.Tenants) == 1 {
		f.tenant = cfg.Tenants[0].ID
	}
	for _, t := range cfg.Tenants {
		if t.ID == f.tenant {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the configuration in %s has no tenant %q; say whose connectors are meant with --tenant", f.configDir, f.tenant)
}

// chosen is an operation that the flags name, with its connector.
type chosen struct {
	connector *config.Connector
	operation *config.Operation
}

func (f *connectorFlags) choose(t *config.Tenant) ([]chosen, error) {
	var all []chosen
	for _, c := range t.Connectors {
		for _, op := range c.Operations {
			if (f.connector == "" || f.connector == c.ID) && (f.operation == "" || f.operation == op.Name) {
				all = append(all, chosen{c, op})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("tenant %s has no operation %s of a connector %s; `holdpoint connector list` names them", t.ID,
			cmp.Or(f.operation, "at all"), cmp.Or(f.connector, "at all"))
	}
	return all, nil
}

// calls reports whether Holdpoint itself calls the connector's system by HTTP.
func calls(c *config.Connector) bool { return c.Kind == "" || c.Kind == config.ConnectorHTTP }

// standingView is what counts of one declared capability, as programs read it.
type standingView struct {
	Tenant     string     `json:"tenant"`
	Connector  string     `json:"connector"`
	Operation  string     `json:"operation"`
	Digest     string     `json:"digest"`
	Capability string     `json:"capability"`
	Counts     bool       `json:"counts"`
	Ground     string     `json:"ground,omitempty"` // proved or attested
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"until,omitempty"` // absent where it counts for ever
	Why        string     `json:"why,omitempty"`   // it does not count
}

func connectorListCommand() *cobra.Command {
	var f connectorFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what connectors declare: what of it counts, on what ground and since when, and why the rest does not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := f.load()
			if err != nil {
				return err
			}
			all, err := f.choose(t)
			if err != nil {
				return err
			}
			return showStandings(cmd.OutOrStdout(), standings(t, all), f.raw)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.raw, "json", false, "print JSON")
	return cmd
}

func standings(t *config.Tenant, all []chosen) []standingView {
	views := []standingView{}
	for _, c := range all {
		for _, claim := range c.operation.Standing.Claims {
			v := standingView{Tenant: t.ID, Connector: c.connector.ID, Operation: c.operation.Name, Digest: c.operation.Standing.Digest,
				Capability: claim.Capability, Counts: claim.Counts(), Ground: claim.Ground, Why: claim.Why}
			if !claim.Since.IsZero() {
				v.Since = &claim.Since
			}
			if !claim.Until.IsZero() {
				v.Until = &claim.Until
			}
			views = append(views, v)
		}
	}
	return views
}

func showStandings(out io.Writer, views []standingView, raw bool) error {
	if raw {
		return printJSON(out, map[string]any{"capabilities": views})
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	p := printer{table}
	p.line("CONNECTOR\tOPERATION\tDECLARES\tCOUNTS\tSINCE\tUNTIL")
	counted := 0
	for _, v := range views {
		counts := "no: " + v.Why
		if v.Counts {
			counts, counted = v.Ground, counted+1
		}
		p.line("%s\t%s\t%s\t%s\t%s\t%s", v.Connector, v.Operation, v.Capability, counts, day(v.Since), day(v.Until))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printer{out}.line("Declared: %d. Counted on: %d.", len(views), counted)
	return nil
}

func day(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.DateOnly)
}

// writeChecks puts what is known of operations into the tenant's checks.yaml, and keeps what the file has of others.
func (f *connectorFlags) writeChecks(t *config.Tenant, changed []*config.Check) error {
	all := changed
	for _, old := range t.Checks {
		op := t.Operation(old.Connector, old.Operation)
		i := indexOfCheck(changed, old)
		switch {
		case op == nil: // declared no more
		case i < 0:
			all = append(all, old)
		case old.Digest == changed[i].Digest: // one of another declaration says nothing about this one
			changed[i].Proved, changed[i].Attested = cmp.Or(changed[i].Proved, old.Proved), cmp.Or(changed[i].Attested, old.Attested)
		}
	}
	file := config.ChecksFile(f.configDir, t.ID)
	next := filepath.Join(filepath.Dir(file), ".checks.yaml.new") // the loader skips what begins with a dot
	err := os.WriteFile(next, config.FormatChecks(all), 0o644)
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		return fmt.Errorf("keep what was found in %s: %w", file, err)
	}
	return nil
}

func indexOfCheck(list []*config.Check, wanted *config.Check) int {
	for i, c := range list {
		if c.Connector == wanted.Connector && c.Operation == wanted.Operation {
			return i
		}
	}
	return -1
}

// toolVersion is this program's, as checks name it.
func toolVersion() string {
	version := "unversioned"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(strings.Trim(build.Main.Version, "()"), version)
	}
	return "holdpoint " + version
}

// exitError ends the program with another code than 1.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// exitCode is what the program ends with after an error.
func exitCode(err error) int {
	var exit exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return 1
}
