package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/services/mcp"
)

// mcpOptions are the flags of mcp. The key is none of them: other processes can read a command line.
type mcpOptions struct{ url, keyFile, http string }

// Names of the environment that mcp reads.
const (
	envURL        = "HOLDPOINT_URL"
	envAPIKey     = "HOLDPOINT_API_KEY"
	envAPIKeyFile = "HOLDPOINT_API_KEY_FILE"
)

func mcpCommand() *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let agents propose actions over the Model Context Protocol",
		Long: "mcp offers an agent four tools: list_sources, propose_action, get_status and wait_for_decision. None of\n" +
			"them decides. Give it an API key with the scopes publish and read, and no other.\n\n" +
			"It speaks over stdin and stdout, with the API key from " + envAPIKey + ", or from the file that\n" +
			"--api-key-file or " + envAPIKeyFile + " names. With --http it serves MCP clients of this\n" +
			"machine over streamable HTTP and holds no key: each client sends its own, as a bearer token.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.url, "url", "", "where the HTTP API is (default: "+envURL+", else http://127.0.0.1:7070)")
	flags.StringVar(&o.keyFile, "api-key-file", "", "file that holds the API key (default: "+envAPIKeyFile+")")
	flags.StringVar(&o.http, "http", "", "serve streamable HTTP on this loopback address, such as 127.0.0.1:7078")
	return cmd
}

func (o *mcpOptions) run(ctx context.Context) error {
	config := mcp.Config{URL: cmp.Or(o.url, os.Getenv(envURL), "http://127.0.0.1:7070"),
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))} // stdout is the client's
	if o.http != "" {
		return o.serve(ctx, config)
	}
	key, err := readAPIKey(cmp.Or(o.keyFile, os.Getenv(envAPIKeyFile)))
	if err != nil {
		return err
	}
	config.APIKey = key
	server, err := mcp.New(config)
	if err != nil {
		return err
	}
	return server.Run(ctx, &sdk.StdioTransport{})
}

func (o *mcpOptions) serve(ctx context.Context, config mcp.Config) error {
	if o.keyFile != "" {
		return errors.New("--api-key-file is for stdio: over HTTP each client sends its own key")
	}
	server, err := mcp.New(config)
	if err != nil {
		return err
	}
	listener, err := mcp.Listen(ctx, o.http)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "MCP clients connect to http://%s\n", listener.Addr())
	return server.Serve(ctx, listener)
}

// readAPIKey takes the key from a file, or from the environment where there is none.
func readAPIKey(file string) (string, error) {
	if file == "" {
		return os.Getenv(envAPIKey), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
