package proposer

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keyFile holds the endpoint's API key, as people's editors save it.
func keyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(name, []byte(endpointKey+"\n"), 0o600))
	return name
}

// change is an answer with these fields of the contact.
func change(fields string) string { return replace(lisbon, `{"city":"Lisbon"}`, fields) }

// completion is the body of an answer with this text.
func completion(content string) string {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return `{"choices":[{"finish_reason":"stop","message":{"content":` + string(text) + `}}]}`
}

func replace(text, old, with string) string { return strings.Replace(text, old, with, 1) }

func long(n int) string { return strings.Repeat("x", n) }

// through is a transport made of a function.
type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// whole reads a body to its end, so that nothing of it can be lost afterwards.
func whole(t *testing.T, body io.ReadCloser) io.ReadCloser {
	t.Helper()
	defer body.Close()
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return io.NopCloser(bytes.NewReader(text))
}
