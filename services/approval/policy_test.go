package approval

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestActivePolicy is P7: what a decision takes besides the kept terms is what the active policy says, whatever the files hold.
func TestActivePolicy(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.token("nora").AccessToken
	files := g.Config.Tenants[0].PolicyContent
	activate := func(content []byte) {
		g.PolicyVersion = g.ActivatePolicy(ledgertest.Tenant, content) + "/test"
		require.NoError(t, g.policies.Refresh(t.Context()))
	}
	decide := func(asked ledgertest.Asked, what string) apiAnswer {
		return g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, what))
	}
	released, refused := g.waiting("released"), g.waiting("refused")
	_, err := g.announce(t.Context()) // from here on they keep their terms
	require.NoError(t, err)

	activate([]byte(`{"Actions":[{"Kind":"of another release"}]}`)) // POL-02
	require.Equal(t, http.StatusForbidden, decide(released, ledger.Approve).Status)
	require.Contains(t, decide(released, ledger.Approve).Text, "does not have this action")
	require.Equal(t, http.StatusOK, decide(refused, ledger.Reject).Status, "a rejection sends nothing")
	require.Equal(t, untouched, g.state(released))

	activate(bytes.ReplaceAll(files, []byte(`"Quorum":1`), []byte(`"Quorum":2`)))
	require.Equal(t, http.StatusOK, decide(released, ledger.Approve).Status)
	require.Equal(t, approved, g.state(released), "it was asked for on other terms")
	later := g.waiting("later")
	_, err = g.announce(t.Context())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, decide(later, ledger.Approve).Status)
	require.NotEqual(t, approved, g.state(later), "two people approve what is asked from now on")
}
