package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// Config is what a Server needs. URL must be set, and APIKey for stdio.
type Config struct {
	// URL is where the HTTP API is, without /v1.
	URL string
	// APIKey is what calls are made with that bring no key of their own. Over HTTP, leave it empty.
	APIKey string
	// HTTPClient makes the calls of the API. Default: one of package client.
	HTTPClient *http.Client
	// Log is told of failures of the protocol; nothing is logged where it is nil.
	Log *slog.Logger
}

// Server offers the tools.
type Server struct {
	config Config
	sdk    *sdk.Server
	shared *http.Client
}

// instructions are what an agent reads before it chooses a tool.
const instructions = `Holdpoint stands between you and writes to real systems. You propose an action; rules, and where ` +
	`they say so people, decide whether it is carried out, and Holdpoint carries it out at most once. Use the business ` +
	`event's own id as the key, never a new id for each attempt. After a lost answer or an error, repeat the call with ` +
	`the same key and the same event. Nothing that you can call here decides about a proposal.`

// New checks the configuration; it calls nobody.
func New(config Config) (*Server, error) {
	key := config.APIKey
	if key == "" {
		key = "of-the-caller" // stands in, so that the URL is checked
	}
	if _, err := client.New(client.Config{BaseURL: config.URL, APIKey: key}); err != nil {
		return nil, err
	}
	s := &Server{config: config, shared: config.HTTPClient}
	if s.shared == nil {
		s.shared = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()} // the standard library's own
	}
	// Without capabilities the SDK would offer logging too; there is nothing to log to a model.
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "holdpoint", Title: "Holdpoint", Version: "1.0.0"},
		&sdk.ServerOptions{Instructions: instructions, Logger: config.Log, Capabilities: &sdk.ServerCapabilities{}})
	s.addTools()
	return s, nil
}

// Run serves one session, such as &sdk.StdioTransport{}, until it ends or ctx does.
func (s *Server) Run(ctx context.Context, transport sdk.Transport) error {
	if s.config.APIKey == "" {
		return errors.New("there is no API key: set HOLDPOINT_API_KEY, or name a file with --api-key-file")
	}
	err := s.sdk.Run(ctx, transport)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// api is the HTTP API as the caller of a tool may use it.
func (s *Server) api(r *sdk.CallToolRequest) (*client.Client, error) {
	key := s.config.APIKey
	if r.Extra != nil && r.Extra.Header != nil {
		key = bearer(r.Extra.Header)
	}
	api, err := client.New(client.Config{BaseURL: s.config.URL, APIKey: key, HTTPClient: s.shared})
	if err != nil { // the URL was checked before
		return nil, contracts.NewProblem(contracts.CodeUnauthenticated, "The bearer token is no API key of Holdpoint.")
	}
	return api, nil
}

// bearer is the token of a request, or "".
func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
