package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
	"github.com/holdpoint/holdpoint/services/mcp"
)

// agent is an MCP client.
type agent struct {
	t       testing.TB
	session *sdk.ClientSession
}

// result is what a tool told: a standing, or a refusal where it is an error.
type result struct {
	contracts.Answer
	Ended               bool
	Meaning, Next       string
	Code, Detail, Retry string
	Errors              []contracts.FieldError

	text   string
	failed bool
}

// call calls a tool. The arguments are JSON, as a model writes it.
func (a *agent) call(tool, arguments string) result {
	a.t.Helper()
	return a.callWith(&sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
}

func (a *agent) callWith(params *sdk.CallToolParams) (r result) {
	a.t.Helper()
	told, err := a.session.CallTool(a.t.Context(), params)
	require.NoError(a.t, err, "an error of the protocol never reaches the model")
	data, err := json.Marshal(told.StructuredContent)
	require.NoError(a.t, err)
	require.NoError(a.t, json.Unmarshal(data, &r))
	require.Len(a.t, told.Content, 1)
	r.text, r.failed = told.Content[0].(*sdk.TextContent).Text, told.IsError
	return r
}

// propose proposes an event of the world.
func (a *agent) propose(e world.Event) result {
	a.t.Helper()
	return a.call("propose_action", arguments(a.t, e))
}

func arguments(t testing.TB, e world.Event) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"source": e.Source, "key": e.Key, "event": json.RawMessage(e.Text())})
	require.NoError(t, err)
	return string(text)
}

// as is the same agent for a case of its own.
func (a *agent) as(t testing.TB) *agent { return &agent{t, a.session} }

// connect makes a client of a transport. Progress goes to the given function, if there is one.
func connect(t testing.TB, transport sdk.Transport, progress func(*sdk.ProgressNotificationParams)) *agent {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			if progress != nil {
				progress(r.Params)
			}
		}})
	session, err := c.Connect(context.WithoutCancel(t.Context()), transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() }) // the server may have gone before it
	return &agent{t, session}
}

// inMemory is an agent beside its server.
func inMemory(t testing.TB, config mcp.Config, progress func(*sdk.ProgressNotificationParams)) *agent {
	t.Helper()
	s, err := mcp.New(config)
	require.NoError(t, err)
	mine, its := sdk.NewInMemoryTransports()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, its) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return connect(t, mine, progress)
}

// overHTTP is an agent that brings its key to a server that has none.
func overHTTP(t testing.TB, url, key string) *agent {
	t.Helper()
	return connect(t, &sdk.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: withKey(key)}}, nil)
}

// withKey adds an API key to every request.
type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// serve is the HTTP transport before a world.
func serve(t testing.TB, w *world.World) string {
	t.Helper()
	s, err := mcp.New(mcp.Config{URL: w.URL()})
	require.NoError(t, err)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

// paths are the calls of the API that were made.
type paths struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (p *paths) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.seen[r.Method+" "+strings.Join(strings.Split(r.URL.Path, "/")[:3], "/")] = true
	p.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// stdio is what the process behind stdio would be configured as.
func stdio(w *world.World, through http.RoundTripper) mcp.Config {
	return mcp.Config{URL: w.URL(), APIKey: roster.DemoKey, HTTPClient: &http.Client{Transport: through}}
}
