package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/services/policy"
)

// activateFlags are what an activation can be told.
type activateFlags struct {
	policyChange
	version string
	since   time.Duration
	limit   int
}

func policyActivateCommand(shared *policyFlags) *cobra.Command {
	f := activateFlags{policyChange: policyChange{shared: shared}}
	cmd := &cobra.Command{
		Use:   "activate",
		Short: "Make a policy the one that all replicas decide by: that of --config, or a stored --version",
		Long: "Make a policy the one that all replicas decide by, from one moment on: that of --config, or a stored --version joined " +
			"with the connectors, people and sources of --config. First it is loaded as replicas load it, the policy tests of --config " +
			"must pass, and what was decided lately is decided again, to say what would have been routed otherwise. Who and why are kept. " +
			"`holdpoint policy rollback` takes it back.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.accountable(); err != nil {
				return err
			}
			if f.limit < 1 || f.since <= 0 {
				return errors.New("--since and --limit must be above zero")
			}
			files, err := f.configured()
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), func(l *ledger.Ledger) error { return f.run(cmd.Context(), cmd.OutOrStdout(), l, files) })
		},
	}
	f.flags(cmd, true, true)
	cmd.Flags().StringVar(&f.version, "version", "", "a stored version, by its first digits (default: that of the files in --config)")
	cmd.Flags().DurationVar(&f.since, "since", 7*24*time.Hour, "how far back decisions are looked at again")
	cmd.Flags().IntVar(&f.limit, "limit", 1000, "how many of them at most, the newest first")
	return cmd
}

func (f *activateFlags) run(ctx context.Context, out io.Writer, l *ledger.Ledger, files *config.Tenant) error {
	history, err := l.PolicyHistory(ctx, f.tenant)
	if err != nil {
		return err
	}
	candidate := files
	if f.version != "" {
		version, err := versionNamed(history, f.version)
		if err != nil {
			return err
		}
		if candidate, err = stored(ctx, l, files, version); err != nil {
			return err
		}
	}
	if err := mustPass(candidate); err != nil {
		return err
	}
	replay, err := f.replay(ctx, l, candidate)
	if err != nil {
		return err
	}
	change := ledger.PolicyActivation{TenantID: f.tenant, Version: candidate.PolicyVersion, Content: candidate.PolicyContent, By: f.by,
		Reason: f.reason}
	return makeActive(ctx, out, l, history, change, &replay, f.shared.raw)
}

// mustPass refuses rules that do not compile, and those that decide a policy test otherwise than expected.
func mustPass(candidate *config.Tenant) error {
	report, err := engine.RunTests(candidate)
	if err != nil {
		return fmt.Errorf("the rules cannot be used:\n%w", err)
	}
	problems := []error{}
	for _, r := range report.Results {
		for _, d := range r.Differences {
			problems = append(problems, fmt.Errorf("%s: %s: %s", r.Test.Pos, r.Test.Name, d))
		}
	}
	if failed := report.Failed(); failed > 0 {
		return fmt.Errorf("nothing was activated: %d of %d policy tests were decided otherwise than expected\n%w", failed, len(report.Results),
			errors.Join(problems...))
	}
	return nil
}

func (f *activateFlags) replay(ctx context.Context, l *ledger.Ledger, candidate *config.Tenant) (policy.ReplayReport, error) {
	replay, err := policy.NewReplay(candidate, "")
	if err != nil {
		return policy.ReplayReport{}, err
	}
	err = l.Recorded(ctx, ledger.RecordedQuery{TenantID: f.tenant, Since: time.Now().Add(-f.since), Limit: f.limit}, replay.Add)
	return replay.Report(), err
}

// makeActive activates what was looked at, unless somebody else has activated something since the history was read.
func makeActive(ctx context.Context, out io.Writer, l *ledger.Ledger, history []ledger.PolicyHistory, change ledger.PolicyActivation,
	replay *policy.ReplayReport, raw bool) error {
	former := ""
	change.When = ledger.PolicyFirst
	if len(history) > 0 {
		former, change.When, change.After = history[0].Version, ledger.PolicyAlways, history[0].Ordinal
	}
	now, changed, err := l.ActivatePolicy(ctx, change)
	if err == nil && !changed && now.Version != change.Version {
		err = ledger.ErrPolicyMoved
	}
	if err != nil {
		return err
	}
	if raw {
		return printJSON(out, map[string]any{"tenant": change.TenantID, "policy_version": now.Version, "activation": now.Ordinal,
			"changed": changed, "former": former, "replay": replay})
	}
	if replay != nil {
		if err := showReplays(out, []policy.ReplayReport{*replay}); err != nil {
			return err
		}
	}
	p := printer{out}
	if !changed {
		p.line("Policy %s of tenant %s is active already (activation %d). Nothing was changed.", short(now.Version), now.TenantID, now.Ordinal)
		return nil
	}
	p.line("Policy %s of tenant %s is active (activation %d). All replicas decide by it from now on.", short(now.Version), now.TenantID,
		now.Ordinal)
	if former != "" {
		p.line("Before it was %s; to take it back: holdpoint policy rollback --tenant %s --to %s --by WHO --reason WHY", short(former),
			now.TenantID, short(former))
	}
	return nil
}

// rollbackFlags are what a roll-back can be told.
type rollbackFlags struct {
	policyChange
	to string
}

func policyRollbackCommand(shared *policyFlags) *cobra.Command {
	f := rollbackFlags{policyChange: policyChange{shared: shared}}
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Make the policy active again that was active before, or another --to that was",
		Long: "Make the policy active again that was active before the present one first was, or another one --to that was active once. " +
			"It must load with the connectors, people and sources of --config; no tests are run and nothing is decided again, so that it " +
			"takes effect at once. Rolled back twice, it goes two versions back.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.accountable(); err != nil {
				return err
			}
			files, err := f.configured()
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), func(l *ledger.Ledger) error { return f.run(cmd.Context(), cmd.OutOrStdout(), l, files) })
		},
	}
	f.flags(cmd, true, true)
	cmd.Flags().StringVar(&f.to, "to", "", "a version that was active, by its first digits (default: the one before)")
	return cmd
}

func (f *rollbackFlags) run(ctx context.Context, out io.Writer, l *ledger.Ledger, files *config.Tenant) error {
	history, err := l.PolicyHistory(ctx, f.tenant)
	if err != nil {
		return err
	}
	version, err := before(history)
	if f.to != "" {
		version, err = versionNamed(history, f.to)
	}
	if err != nil {
		return err
	}
	candidate, err := stored(ctx, l, files, version)
	if err == nil {
		_, err = engine.New(candidate)
	}
	if err != nil {
		return fmt.Errorf("nothing was activated, since replicas with this configuration could not use it: %w", err)
	}
	change := ledger.PolicyActivation{TenantID: f.tenant, Version: version, By: f.by, Reason: f.reason}
	return makeActive(ctx, out, l, history, change, nil, f.shared.raw)
}

// before is the version that was active before the present one first was. So a second roll-back goes further back, and not to
// what the first one left.
func before(history []ledger.PolicyHistory) (string, error) {
	version := ""
	for i := range history {
		switch {
		case history[i].Version != history[0].Version:
		case i+1 < len(history):
			version = history[i+1].Version
		default:
			version = "" // it was the first of all
		}
	}
	if version == "" {
		return "", errors.New("no other policy was active before the present one; name one with --to, as `holdpoint policy versions` lists them")
	}
	return version, nil
}
