package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
)

// shortVersion is the least of a version's digits that name it, and what people are shown.
const shortVersion = 12

// policyChange is what the verbs share that change which policy is active, or tell of it.
type policyChange struct {
	operator
	shared *policyFlags
}

// accountable refuses nobody, no reason, and the name under which starts activate.
func (c *policyChange) accountable() error {
	if c.tenant == "" {
		return errors.New("say whose policy it is: --tenant")
	}
	if c.by == active.ByFiles {
		return fmt.Errorf("%q is how a start of the policy service is called; --by names a person", active.ByFiles)
	}
	return c.operator.accountable()
}

// configured is the tenant as the files of this machine have it.
func (c *policyChange) configured() (*config.Tenant, error) {
	cfg, err := c.shared.load()
	if err != nil {
		return nil, err
	}
	found, err := eachTenant(cfg, c.tenant, func(t *config.Tenant) (*config.Tenant, error) { return t, nil })
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// eachTenant is what do makes of the tenant with the id, or of each where id is "". It is an error when there is none.
func eachTenant[R any](cfg *config.Config, id string, do func(*config.Tenant) (R, error)) ([]R, error) {
	var all []R
	for _, t := range cfg.Tenants {
		if id != "" && id != t.ID {
			continue
		}
		r, err := do(t)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the configuration has no tenant %q", id)
	}
	return all, nil
}

// stored is the tenant with a stored version in place of its files' policy, loaded as every replica loads it.
func stored(ctx context.Context, l *ledger.Ledger, files *config.Tenant, version string) (*config.Tenant, error) {
	if version == files.PolicyVersion {
		return files, nil
	}
	content, err := l.PolicyContent(ctx, files.ID, version)
	if err != nil {
		return nil, err
	}
	return files.WithPolicy(version, content)
}

// versionNamed is the one activated version that begins with the digits.
func versionNamed(history []ledger.PolicyHistory, digits string) (string, error) {
	var found []string
	for _, h := range history {
		if strings.HasPrefix(h.Version, digits) && !slices.Contains(found, h.Version) {
			found = append(found, h.Version)
		}
	}
	if len(digits) < shortVersion || len(found) != 1 {
		return "", fmt.Errorf("%q names %d stored versions; give the first %d digits or more of one that `holdpoint policy versions` lists",
			digits, len(found), shortVersion)
	}
	return found[0], nil
}

func short(version string) string { return version[:min(len(version), shortVersion)] }

// activationView is an activation as programs read it.
type activationView struct {
	Ordinal     int64     `json:"activation"`
	Version     string    `json:"policy_version"`
	By          string    `json:"activated_by"`
	Reason      string    `json:"reason"`
	ActivatedAt time.Time `json:"activated_at"`
	Active      bool      `json:"active"`
}

func policyVersionsCommand(shared *policyFlags) *cobra.Command {
	c := policyChange{shared: shared}
	cmd := &cobra.Command{
		Use:   "versions",
		Short: "List which policies were activated, by whom and why, which is active, and what the files of this machine hold",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.tenant == "" {
				return errors.New("say whose policies: --tenant")
			}
			return c.with(cmd.Context(), func(l *ledger.Ledger) error {
				history, err := l.PolicyHistory(cmd.Context(), c.tenant)
				if err != nil {
					return err
				}
				files, err := c.configured()
				return showVersions(cmd.OutOrStdout(), history, files, err, shared.raw)
			})
		},
	}
	c.flags(cmd, true, false)
	return cmd
}

func showVersions(out io.Writer, history []ledger.PolicyHistory, files *config.Tenant, unread error, raw bool) error {
	views := make([]activationView, len(history))
	for i, h := range history {
		views[i] = activationView{h.Ordinal, h.Version, h.By, h.Reason, h.ActivatedAt, i == 0}
	}
	if raw {
		said := map[string]any{"activations": views, "files": nil}
		if files != nil {
			said["files"] = files.PolicyVersion
		}
		return printJSON(out, said)
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	p := printer{table}
	p.line("ACTIVATION\tVERSION\t\tAT\tBY\tREASON")
	for _, v := range views {
		p.line("%d\t%s\t%s\t%s\t%s\t%s", v.Ordinal, short(v.Version), map[bool]string{true: "active"}[v.Active], stamp(v.ActivatedAt), v.By,
			v.Reason)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	p = printer{out}
	switch {
	case unread != nil:
		p.line("What the files of this machine hold is not known: %v", unread)
	case len(history) > 0 && history[0].Version == files.PolicyVersion:
		p.line("The files of this machine hold %s, which is active.", short(files.PolicyVersion))
	case slices.ContainsFunc(history, func(h ledger.PolicyHistory) bool { return h.Version == files.PolicyVersion }):
		p.line("The files of this machine hold %s, which was active before and is not now.", short(files.PolicyVersion))
	default:
		p.line("The files of this machine hold %s, which was never active.", short(files.PolicyVersion))
	}
	return nil
}
