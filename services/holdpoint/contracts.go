package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/contracts"
)

func contractsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "contracts [list | NAME]",
		Short: "List or print what integrators rely on: the OpenAPI and AsyncAPI documents and the JSON Schemas",
		Long: "List the interface documents and the JSON Schemas of everything that crosses Holdpoint's borders, or " +
			"print one of them. They are those of this release, and each stands alone.",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: append([]string{"list"}, contracts.Names()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "list" {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(contracts.Names(), "\n"))
				return err
			}
			return printContract(cmd.OutOrStdout(), args[0])
		},
	}
}

func printContract(out io.Writer, name string) error {
	text, err := contracts.Text(name)
	if err != nil {
		return fmt.Errorf("print a contract: %w", err)
	}
	_, err = out.Write(text)
	return err
}
