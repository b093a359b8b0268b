package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// The program as an MCP client starts it, against real services.
func TestMCP(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.WithReplicas(ledger.Policy, 0), world.WithReplicas(ledger.Dispatcher, 0),
		world.WithReplicas(ledger.Reconciler, 0), world.WithReplicas(ledger.Approval, 0), world.WithReplicas(ledger.Relay, 0))
	// proposed is what an agent is told of an event that it proposes.
	proposed := func(t *testing.T, transport sdk.Transport) (told struct{ Result string }) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		session, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, transport, nil)
		require.NoError(t, err)
		event := w.Update()
		result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "propose_action",
			Arguments: map[string]any{"source": event.Source, "key": event.Key, "event": event.Body}})
		require.NoError(t, err)
		require.False(t, result.IsError, result.Content[0])
		data, err := json.Marshal(result.StructuredContent)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &told))
		require.NoError(t, session.Close(), "the process ends with its client")
		return told
	}
	// overStdio is the program as a child of its client.
	overStdio := func(env []string, args ...string) sdk.Transport {
		cmd := exec.Command(os.Args[0], append([]string{"mcp"}, args...)...)
		cmd.Env = append(programEnv(), env...)
		cmd.Stderr = os.Stderr
		return &sdk.CommandTransport{Command: cmd}
	}

	t.Run("OverStdioWithTheKeyOfTheEnvironment", func(t *testing.T) {
		t.Parallel()
		told := proposed(t, overStdio([]string{"HOLDPOINT_URL=" + w.URL(), "HOLDPOINT_API_KEY=" + roster.DemoKey}))
		require.Equal(t, contracts.ResultAccepted, told.Result)
	})

	t.Run("OverStdioWithTheKeyInAFile", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(file, []byte(roster.DemoKey+"\n"), 0o600))
		told := proposed(t, overStdio(nil, "--url", w.URL(), "--api-key-file", file))
		require.Equal(t, contracts.ResultAccepted, told.Result)
	})

	t.Run("OverHTTPWithTheKeyOfTheCaller", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command(os.Args[0], "mcp", "--url", w.URL(), "--http", "127.0.0.1:0")
		cmd.Env = programEnv()
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
		line := make([]byte, 200)
		n, err := said.Read(line)
		require.NoError(t, err)
		url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(line[:n]))
		told := proposed(t, &sdk.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: asDemo{}}})
		require.Equal(t, contracts.ResultAccepted, told.Result)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		rest, err := io.ReadAll(said)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		require.Empty(t, string(rest))
	})

	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"WithoutAKeyItDoesNotStart":        {nil, "there is no API key: set HOLDPOINT_API_KEY"},
		"AKeyFileThatIsNotThereIsSaid":     {[]string{"--api-key-file", "/nowhere"}, "read the API key"},
		"OutsideOfLoopbackItDoesNotListen": {[]string{"--http", "0.0.0.0:0"}, "is not of the loopback interface"},
		"OverHTTPItHoldsNoKey":             {[]string{"--http", "127.0.0.1:0", "--api-key-file", "x"}, "each client sends its own"},
		"AnAddressThatIsNoneIsSaid":        {[]string{"--url", "intake", "--http", "127.0.0.1:0"}, "BaseURL must be"},
		"AKeyIsNoFlag":                     {[]string{"--api-key", "x"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t, nil, append([]string{"mcp"}, tc.args...)...)
			require.Equal(t, 1, p.wait(t))
			require.Contains(t, p.err.String(), tc.says)
			require.Empty(t, p.out.String(), "stdout is the client's")
		})
	}
}

// asDemo calls as the example tenant.
type asDemo struct{}

func (asDemo) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+roster.DemoKey)
	return http.DefaultTransport.RoundTrip(r)
}
