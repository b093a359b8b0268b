package policy

import (
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestObjectsOfValuesAreLikeMapsOfCEL compares evidence with CEL's own maps, in all that a rule can ask.
func TestObjectsOfValuesAreLikeMapsOfCEL(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC)
	text := func(s string) ref.Val { return types.String(s) }
	cases := []struct {
		evidence Evidence
		members  map[ref.Val]ref.Val
	}{
		{Evidence{}, map[ref.Val]ref.Val{}},
		{Evidence{Source: "crm"}, map[ref.Val]ref.Val{text("source"): text("crm")}},
		{Evidence{Source: "crm", ObservedAt: at}, map[ref.Val]ref.Val{text("source"): text("crm"),
			text("observed_at"): types.Timestamp{Time: at}}},
		{Evidence{"crm", "7", "https://x", at}, map[ref.Val]ref.Val{text("source"): text("crm"), text("version"): text("7"),
			text("url"): text("https://x"), text("observed_at"): types.Timestamp{Time: at}}},
	}
	for _, a := range cases {
		mine, _ := evidenceList([]Evidence{a.evidence}).(traits.Lister).Get(types.Int(0)).(traits.Mapper)
		own := types.NewRefValMap(types.DefaultTypeAdapter, a.members)
		for _, key := range []ref.Val{text("source"), text("version"), text("url"), text("observed_at"), text("none"), text(""),
			types.Int(1), types.NullValue, types.True, own} {
			found, there := mine.Find(key)
			want, wanted := own.Find(key)
			require.Equal(t, wanted, there, key)
			require.Equal(t, want, found, key)
			require.Equal(t, own.Contains(key), mine.Contains(key), key)
		}
		require.Equal(t, own.Size(), mine.Size())
		require.Equal(t, own.Type(), mine.Type())
		names := 0
		for i := mine.Iterator(); i.HasNext() == types.True; names++ {
			require.Equal(t, types.True, own.Contains(i.Next()))
		}
		require.Len(t, a.members, names)
		for _, b := range cases {
			same := len(a.members) == len(b.members)
			other := types.NewRefValMap(types.DefaultTypeAdapter, b.members)
			otherwise := evidenceList([]Evidence{b.evidence}).(traits.Lister).Get(types.Int(0))
			for _, pair := range [][2]ref.Val{{mine, other}, {other, mine}, {mine, otherwise}} {
				require.Equal(t, types.Bool(same), pair[0].Equal(pair[1]))
				equals, err := equal(pair[0], pair[1])
				require.NoError(t, err)
				require.Equal(t, same, equals)
			}
		}
	}
}

// TestGoingThroughAnObjectHasAnOrder asks for what depends on it: which error is told, and which name comes first.
func TestGoingThroughAnObjectHasAnOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rule(config.RouteHumanReview, `evidence[0].all(name, evidence[1][name] == "crm")`)
	w.rule(config.RouteReject, `thresholds.map(name, name)[0] == "limit" && evidence[0].map(name, name)[0] == "source"`)
	w.input.Evidence = []Evidence{{Source: "crm", Version: "7", URL: "x"}, {Version: "crm"}}
	e := w.engine()
	first := e.Decide(w.input)
	require.Equal(t, config.RouteReject, first.Route)
	require.Equal(t, "Rule human-review-1 could not be evaluated: no such key: source.", first.Reasons[0].Message)
	for range 50 {
		require.Equal(t, first, e.Decide(w.input))
	}
}
