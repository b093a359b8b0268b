package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// connectorProfilesCommand prints what a connector that names a profile takes from it.
func connectorProfilesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "profiles [NAME]", Args: cobra.MaximumNArgs(1), Short: "List the shipped profiles of connectors, or print one",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range config.Profiles() {
					fmt.Fprintln(cmd.OutOrStdout(), name)
				}
				return nil
			}
			text, found := config.ProfileText(args[0])
			if !found {
				return fmt.Errorf("no profile is called %q; there are: %s", args[0], strings.Join(config.Profiles(), ", "))
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		},
	}
}
