package intake_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// activate makes a policy of this content the active one of tenant demo, as an operator does.
func (w *world) activate(content []byte) string {
	w.t.Helper()
	l, err := ledger.New(ledger.Config{Pool: w.db.Pool("holdpoint_operator"), Service: ledger.Operator})
	require.NoError(w.t, err)
	version := config.PolicyVersionOf(content)
	_, _, err = l.ActivatePolicy(w.t.Context(), ledger.PolicyActivation{TenantID: demo, Version: version, Content: content, By: "olga",
		Reason: "a test"})
	require.NoError(w.t, err)
	return version
}

// TestActivePolicy is P7: what proposals are held against is the active policy, whatever the files hold.
func TestActivePolicy(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	files := r.config.Tenants[1].PolicyContent
	tried := 0
	// until posts the event, each time with a key of its own, until it is answered like this.
	until := func(result string) answer {
		var a answer
		require.Eventually(t, func() bool {
			tried++
			a = r.post("inline", fmt.Sprint("k", tried), goodEvent)
			return a.result() == result
		}, patience, pollEvery, result)
		return a
	}
	require.Equal(t, r.config.Tenants[1].PolicyVersion, storedIntent(r.world, until(contracts.ResultAccepted).runID()).PolicyVersion,
		"where none is active yet, that of the files")

	newer := r.activate(bytes.Replace(files, []byte(`"maxLength":120`), []byte(`"maxLength":119`), 1))
	require.Eventually(t, func() bool {
		return storedIntent(r.world, until(contracts.ResultAccepted).runID()).PolicyVersion == newer
	}, patience, pollEvery)

	r.activate(bytes.Replace(files, []byte(`"maxLength":120`), []byte(`"maxLength":3`), 1))
	require.Equal(t, "/proposal/proposed_change/fields/city", until(contracts.CodeSchemaInvalid).problem.Errors[0].Pointer)

	r.activate([]byte(`{"Actions":[{"Kind":"of another release"}]}`)) // POL-02
	require.Equal(t, 503, until(contracts.CodeUnavailable).status)
	stored := r.stored()
	answered := r.publish(message{source: "inline", header: keyed("over-nats"), body: goodEvent})
	require.Equal(t, contracts.CodeUnavailable, r.post("inline", "over-http", goodEvent).result())
	require.Equal(t, stored, r.stored(), "nothing is stored, and nothing is parked")

	r.activate(files)
	require.Equal(t, contracts.ResultAccepted, next(r.world, answered).result(), "what was published waits for a policy")
}
