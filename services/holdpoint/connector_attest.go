package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func connectorAttestCommand() *cobra.Command {
	var f connectorFlags
	var how string
	var capabilities []string
	cmd := &cobra.Command{
		Use:   "attest",
		Short: "Put into checks.yaml that a person answers for what cannot be exercised",
		Long: "Put into the tenant's checks.yaml that a person answers for capabilities of an operation that cannot be exercised: what an " +
			"executor's program does, or what a live system must not be tried with. It counts for exactly the declaration of now, as " +
			"attested and never as proved.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := f.load()
			if err != nil {
				return err
			}
			check, err := f.attestation(t, how, capabilities)
			if err != nil {
				return err
			}
			if err := f.writeChecks(t, []*config.Check{check}); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s attests %s of operation %s of %s.\n", f.by,
				strings.Join(check.Attested.Capabilities, ", "), f.operation, f.connector)
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.by, "by", "", "who answers for it: a person's name or address")
	cmd.Flags().StringVar(&how, "how", "", "how the person knows: the provider's manual, the program's tests")
	cmd.Flags().StringSliceVar(&capabilities, "capability", nil, "what is attested: "+strings.Join(config.Capabilities, ", "))
	return cmd
}

func (f *connectorFlags) attestation(t *config.Tenant, how string, capabilities []string) (*config.Check, error) {
	if f.by == "" || strings.TrimSpace(how) == "" {
		return nil, errors.New("say who answers for it (--by), and how the person knows (--how); both are kept")
	}
	op := t.Operation(f.connector, f.operation)
	if op == nil {
		return nil, fmt.Errorf("tenant %s has no operation %q of a connector %q; name them with --connector and --operation", t.ID, f.operation,
			f.connector)
	}
	var declared []string
	for _, claim := range op.Standing.Claims {
		declared = append(declared, claim.Capability)
	}
	for _, name := range capabilities {
		if !slices.Contains(declared, name) {
			return nil, fmt.Errorf("operation %s of %s does not declare %q, allowed: %s", f.operation, f.connector, name,
				strings.Join(declared, ", "))
		}
	}
	if len(capabilities) == 0 {
		return nil, fmt.Errorf("say what is attested with --capability, allowed: %s", strings.Join(declared, ", "))
	}
	return &config.Check{Connector: f.connector, Operation: f.operation, Digest: op.Standing.Digest,
		Attested: &config.Attestation{By: f.by, At: time.Now(), How: how, Capabilities: capabilities}}, nil
}
