package sandbox_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

func TestControl(t *testing.T) {
	t.Parallel()

	t.Run("SummaryCountsDuplicatesByReferenceAndSystem", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.refund()
		w.refund()
		w.refund()
		w.patch("c-1", "1", "op-2")
		w.must(http.MethodPatch, "/crm/contacts/c-2", `{}`, "If-Match", "1")
		summary, err := w.Summary(t.Context())
		require.NoError(t, err)
		require.Equal(t, sandbox.Summary{
			Writes: 5, DistinctReferences: 2, DuplicateWrites: 2, Unreferenced: 1,
			BySystem: map[string]sandbox.SystemSummary{
				sandbox.Payments: {Writes: 3, DuplicateWrites: 2}, sandbox.CRM: {Writes: 2},
			},
		}, summary)
	})

	t.Run("CheckNamesMissingAndDuplicateReferences", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.refund()
		w.refund()
		w.patch("c-1", "1", "op-2")
		check, err := w.Check(t.Context(), []string{"op-1", "op-2", "op-3", "op-4"})
		require.NoError(t, err)
		require.Equal(t, sandbox.Check{
			References: 4, Missing: 2, MissingReferences: []string{"op-3", "op-4"}, Duplicates: map[string]int{"op-1": 2},
		}, check)
		check, err = w.Check(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, check.Missing)
		asObject := w.must(http.MethodPost, "/_sandbox/summary", `{"references":["op-3"]}`)
		require.EqualValues(t, 1, asObject.body["missing"])
	})

	t.Run("WritesAreFilteredByReferenceAndSystem", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.refund()
		w.patch("c-1", "1", "op-1")
		w.patch("c-2", "1", "op-2")
		for want, filter := range map[int]sandbox.Filter{
			0: {Reference: "op-3"},
			1: {Reference: "op-1", System: sandbox.CRM},
			2: {Reference: "op-1"},
			3: {},
		} {
			found, err := w.Writes(t.Context(), filter)
			require.NoError(t, err)
			require.Len(t, found, want, "%+v", filter)
		}
	})

	t.Run("RulesAreListedWithTheirHistoryAndCleared", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		id := w.fault(sandbox.Rule{
			Match: sandbox.Match{Nth: 2}, Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500},
		})
		w.refund()
		require.Equal(t, 500, w.refund().status)
		w.refund()
		states, err := w.Faults(t.Context())
		require.NoError(t, err)
		require.Len(t, states, 1)
		require.Equal(t, []any{id, 3, 1}, []any{states[0].ID, states[0].Matched, states[0].Fired})
		require.NoError(t, w.ClearFaults(t.Context()))
		states, err = w.Faults(t.Context())
		require.NoError(t, err)
		require.Empty(t, states)
		require.ErrorContains(t, w.AwaitFault(t.Context(), id, 1), "has not fired")
	})

	t.Run("MistypedControlIsRefused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for body, status := range map[string]int{
			`{"match":{"sistem":"crm"},"fault":{"kind":"lookup_empty"}}`: http.StatusBadRequest,
			`[{"fault":{"kind":"lookup_empty"}},{"fault":{}}]`:           http.StatusUnprocessableEntity,
			`{"fault":{"kind":"delay","duration":"long"}}`:               http.StatusBadRequest,
		} {
			require.Equal(t, status, w.must(http.MethodPost, "/_sandbox/faults", body).status, body)
		}
		states, err := w.Faults(t.Context())
		require.NoError(t, err)
		require.Empty(t, states, "a refused array installs none of its rules")
		require.ErrorContains(t, w.SetPersonality(t.Context(), "mail", sandbox.Personality{}), "404")
		require.ErrorContains(t,
			w.SetPersonality(t.Context(), sandbox.CRM, sandbox.Personality{IndexLag: sandbox.Duration(-time.Second)}), "400")
	})

	t.Run("ConfigurationNamesEveryMistake", func(t *testing.T) {
		t.Parallel()
		_, err := sandbox.New(sandbox.Config{
			Addr: "nonsense", SMTPAddr: "25", CommitDelay: time.Hour, MaxBody: -1, CRM: sandbox.Personality{KeyWindow: -1},
		})
		for _, want := range []string{"DataDir", "Addr is", "SMTPAddr", "CommitDelay", "MaxBody", "CRM"} {
			require.ErrorContains(t, err, want)
		}
	})
}
