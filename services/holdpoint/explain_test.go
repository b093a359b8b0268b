package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExplainTellsOfEachTarget is O1 of what was read of the targets of several actions.
func TestExplainTellsOfEachTarget(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, explain(&out, json.RawMessage(`{"readings":[
  {"ordinal":1,"read_at":"2026-12-01T10:00:00Z","found":true,"version":"4"},
  {"ordinal":2,"read_at":"2026-12-01T10:00:05Z","found":false,"error":"HTTP 500"},
  {"ordinal":3,"error":"HTTP 503"}]}`), false))
	var told []string
	for line := range strings.Lines(out.String()) {
		if rest, is := strings.CutPrefix(line, "target "); is {
			told = append(told, strings.Join(strings.Fields(rest), " "))
		}
	}
	require.Len(t, told, 3)
	require.Contains(t, told[0], " found version 4")
	require.NotContains(t, told[0], "action")
	require.Contains(t, told[1], "of action 2 not there last try: HTTP 500")
	require.Contains(t, told[2], "of action 3 not read yet last try: HTTP 503")
}
