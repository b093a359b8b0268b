package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
)

func natsConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "nats-config",
		Short: "Print who may do what on NATS: the accounts for the configuration's tenants",
		Long: "Print the accounts of nats-server's configuration for the tenants in HOLDPOINT_CONFIG_DIR: one with a user " +
			"for the services, and one for each tenant with a user that reaches this tenant's subjects alone. " +
			"Include it in nats.conf. " +
			"The passwords are read by nats-server from its environment, NATS_HOLDPOINT_PASSWORD and " +
			"NATS_<TENANT>_PASSWORD; none is printed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var common service.Settings
			if err := service.Load("", &common); err != nil {
				return err
			}
			return printNATSConfig(cmd.OutOrStdout(), common.ConfigDir)
		},
	}
}

func printNATSConfig(out io.Writer, dir string) error {
	cfg, err := config.LoadDir(dir)
	if err != nil {
		return fmt.Errorf("configuration in %s:\n%w", dir, err)
	}
	var tenants []string
	for _, tenant := range cfg.Tenants {
		tenants = append(tenants, tenant.ID)
	}
	text, err := bus.Authorization(tenants)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}
