package dispatcher

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestActivePolicy is D4 and P7: what is checked again before a write is the active policy, whatever the files hold.
func TestActivePolicy(t *testing.T) {
	t.Parallel()

	t.Run("AStricterPolicyThatBecameActiveAsksPeople", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		files := b.Config.Tenants[0].PolicyContent
		b.ActivatePolicy(ledgertest.Tenant, bytes.Replace(files, []byte(`"Route":"auto"`), []byte(`"Route":"human_review"`), 1))
		require.NoError(t, b.policies.Refresh(t.Context()))
		b.request("k")
		b.requireReview("k", "rule_matched", "")
		require.Empty(t, b.Writes("k"))
	})

	t.Run("APolicyThatCannotBeUsedKeepsEffectsPending", func(t *testing.T) { // POL-02
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.ActivatePolicy(ledgertest.Tenant, []byte(`{"Actions":[{"Kind":"of another release"}]}`))
		require.NoError(t, b.policies.Refresh(t.Context()))
		b.request("k")
		b.again()
		require.Equal(t, ledger.EffectPending, b.Look("k").State)
		require.Empty(t, b.Attempts("k"))

		b.ActivatePolicy(ledgertest.Tenant, b.Config.Tenants[0].PolicyContent)
		require.NoError(t, b.policies.Refresh(t.Context()))
		b.again()
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
	})

	t.Run("APolicyThatCannotBeUsedAnyMoreWhenItIsAskedSendsNothing", func(t *testing.T) { // POL-02
		t.Parallel()
		b := setup(t)
		leased := b.Lease(leaseMargin, b.Authorize(b.Contact("k"))...)
		b.ActivatePolicy(ledgertest.Tenant, []byte(`{"Leniency":1}`))
		require.NoError(t, b.policies.Refresh(t.Context()))
		a := &attempt{Leased: leased[0], target: b.targets[slotOf(&leased[0])]}
		_, err := b.policyNow(a, nil)
		require.ErrorContains(t, err, "cannot be used")
	})
}
