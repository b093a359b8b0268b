package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// demoSignInCommand runs the demo identity provider alone, where the approval service runs alone.
func demoSignInCommand() *cobra.Command {
	var cfg demoidp.Config
	var redirects []string
	cmd := &cobra.Command{
		Use:    "demo-sign-in",
		Short:  "Run the demo identity provider: an OpenID Connect provider whose passwords everybody knows",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(redirects) == 0 {
				return errors.New("--redirect is missing: say where reviewers come back to, as in " +
					"--redirect http://127.0.0.1:7075/callback")
			}
			cfg.People, cfg.Clients = demoidp.DemoPeople(), demoidp.DemoClients(redirects...)
			cfg.Logger = service.NewLogger(slog.LevelInfo)
			provider, err := demoidp.New(cfg)
			if err != nil {
				return err
			}
			return provider.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&cfg.Addr, "addr", "127.0.0.1:7076", "address to listen on, of the loopback interface")
	cmd.Flags().StringArrayVar(&redirects, "redirect", nil, "where sign-ins come back to; repeatable")
	cmd.Flags().StringVar(&cfg.KeyFile, "key-file", "", "where to keep the signing key; default: in memory")
	return cmd
}
