package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// How long a test waits for something, and how often it looks.
const (
	patience = 30 * time.Second
	tick     = time.Millisecond
)

func TestRunID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "db093e9c-2f0a-ca5f-2a7f-2cf34db0f15b", ledger.RunID("demo", "k1").String(), "stored ids never change")
	seen := map[uuid.UUID]string{}
	for _, pair := range [][2]string{{"demo", "k1"}, {"demo", "k2"}, {"demok", "1"}, {"dem", "ok1"}, {"", "demok1"}, {"demok1", ""}} {
		id := ledger.RunID(pair[0], pair[1])
		require.Empty(t, seen[id], "tenant and key cannot run into each other")
		seen[id] = pair[0] + "/" + pair[1]
	}
}

func TestOperationID(t *testing.T) { // D2
	t.Parallel()

	t.Run("NamesRunRevisionAndOrdinal", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			run := ledger.RunID("demo", rapid.String().Draw(t, "key"))
			revision, ordinal := rapid.IntRange(1, 1<<30).Draw(t, "revision"), rapid.IntRange(1, 1<<30).Draw(t, "ordinal")
			gotRun, gotRevision, gotOrdinal, err := ledger.ParseOperationID(ledger.OperationID(run, revision, ordinal))
			require.NoError(t, err)
			require.Equal(t, run, gotRun)
			require.Equal(t, []int{revision, ordinal}, []int{gotRevision, gotOrdinal})
		})
	})

	t.Run("HasOneSpelling", func(t *testing.T) {
		t.Parallel()
		id := ledger.OperationID(ledger.RunID("demo", "k1"), 1, 1)
		for _, other := range []string{"", "op1-", id[:len(id)-2], id + "0x", id + " ", "op2" + id[3:], id[:40] + "-01-1", id[:40] + "-1-+1",
			"op1-" + "2B8B1C4E-7D0B-4C1F-8000-00000000000A" + "-1-1"} {
			_, _, _, err := ledger.ParseOperationID(other)
			require.ErrorContains(t, err, "not an operation id", other)
		}
	})
}

func TestNewRefusesAnIncompleteConfiguration(t *testing.T) {
	t.Parallel()
	_, err := ledger.New(ledger.Config{Service: "nobody"})
	require.ErrorContains(t, err, "no connection pool")
	require.ErrorContains(t, err, `"nobody"`)
}
