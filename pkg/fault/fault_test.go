package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

func TestSites(t *testing.T) {
	t.Parallel()
	first := fault.NewSite("registry", "commit", fault.KindCommit)

	t.Run("AreListedOnce", func(t *testing.T) {
		require.Same(t, first, fault.NewSite("registry", "commit", fault.KindCommit))
		listed := 0
		for _, site := range fault.Sites() {
			if site.String() == "registry/commit" {
				listed++
			}
		}
		require.Equal(t, 1, listed)
	})

	t.Run("CannotChangeTheirKind", func(t *testing.T) {
		require.PanicsWithValue(t, "fault: site registry/commit is registered as commit and as ack", func() {
			fault.NewSite("registry", "commit", fault.KindAck)
		})
	})

	t.Run("HaveNamesThatASpecCanHold", func(t *testing.T) {
		for _, name := range []string{"", "a b", "a/b", "a@b", "a#1", "a?b"} {
			require.Panics(t, func() { fault.NewSite("registry", name, fault.KindCommit) }, name)
		}
	})
}

func TestSpec(t *testing.T) {
	t.Parallel()

	t.Run("TextFormReadsBack", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			want := fault.Spec{
				Service:    rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "service"),
				Site:       rapid.StringMatching(`[a-z._-]{1,8}`).Draw(t, "site"),
				Side:       rapid.SampledFrom([]fault.Side{fault.Before, fault.After, fault.Mid}).Draw(t, "side"),
				Occurrence: rapid.IntRange(1, 99).Draw(t, "occurrence"),
				Key:        rapid.String().Draw(t, "key"),
			}
			got, err := fault.ParseSpec(want.String())
			if err != nil || got != want {
				t.Fatalf("%q became %+v, %v", want, got, err)
			}
		})
	})

	t.Run("WrongTextIsRefusedWithTheForm", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			"", "x", "a@before", "a/b", "a/b@during", "a/b@after#0", "a/b@after#x", "a/b@mid?key=", "a/b@mid?key=%",
		} {
			_, err := fault.ParseSpec(text)
			require.ErrorContains(t, err, "service/site@before|after|mid", text)
		}
	})
}
