package approval

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func TestSwitchesAPI(t *testing.T) { // D9, A13, A15
	t.Parallel()
	g := deskGate(t)
	nora, carl := g.token("nora").AccessToken, g.token("carl").AccessToken
	const all = "/v1/tenants/demo/switches"
	say := func(t *testing.T, token, path string, body any, changes ...func(*http.Request)) (int, contracts.SwitchCase) {
		t.Helper()
		method := http.MethodPost
		if body == nil {
			method = http.MethodGet
		}
		answer := g.call(t, method, path, token, body, changes...)
		var c contracts.SwitchCase
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &c))
		return answer.Status, c
	}

	t.Run("AllThatCoverTheTenantAreListed", func(t *testing.T) {
		var list contracts.SwitchList
		answer := g.call(t, http.MethodGet, all, nora, nil)
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &list))
		require.Equal(t, []string{"operator", "support-lead"}, list.Roles)
		require.Equal(t, contracts.Switch{Switch: "global", Scope: "global", State: "open", Share: 1}, list.Switches[0])
		require.Equal(t, contracts.Switch{Switch: "tenant", Scope: "tenant", State: "open", Share: 1}, list.Switches[1])
	})

	t.Run("WhoMayMoveNoneSeesNone", func(t *testing.T) {
		agent := clientcredentials.Config{ClientID: "demo-agent", ClientSecret: "demo-agent-secret", TokenURL: endpoint(t,
			g.idp.Issuer(), "token_endpoint")}
		program, err := agent.Token(t.Context())
		require.NoError(t, err)
		for _, path := range []string{all, all + "/tenant"} {
			require.Equal(t, http.StatusNotFound, g.call(t, http.MethodGet, path, carl, nil).Status)
			require.Equal(t, http.StatusUnauthorized, g.call(t, http.MethodGet, path, "", nil).Status)
			require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, g.call(t, http.MethodGet, path, program.AccessToken, nil).Status)
		}
		closing := contracts.SwitchClosing{Reason: "x"}
		for token, want := range map[string]int{carl: http.StatusNotFound, "": http.StatusUnauthorized, "x": http.StatusUnauthorized} {
			require.Equal(t, want, g.call(t, http.MethodPost, all+"/tenant/closing", token, closing).Status)
		}
		require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized},
			g.call(t, http.MethodPost, all+"/tenant/closing", program.AccessToken, closing).Status)
		for _, path := range []string{all + "/global/closing", "/v1/tenants/another/switches/tenant/closing", all + "/connector:none/closing"} {
			require.Equal(t, http.StatusNotFound, g.call(t, http.MethodPost, path, nora, closing).Status, path)
		}
		require.Equal(t, "0", g.Text(`select count(*)::text from kill_switch_changes`))
	})

	t.Run("ItIsClosedAndOpenedInStages", func(t *testing.T) {
		e := g.lost("covered")
		const one = all + "/connector:sandbox-payments"
		named := func(r *http.Request) { r.Header.Set("Idempotency-Key", "call-1") }
		var closed contracts.SwitchCase
		for range 2 { // a repeated call is one change
			var status int
			status, closed = say(t, nora, one+"/closing", contracts.SwitchClosing{Reason: " It pays twice. "}, named)
			require.Equal(t, http.StatusOK, status)
		}
		require.Equal(t, []any{"closed", 0.0, "nora", "It pays twice."}, []any{closed.State, closed.Share, closed.ChangedBy, closed.Reason})
		require.Len(t, closed.History, 1)
		require.Equal(t, "api", closed.History[0].Channel)
		require.Equal(t, 1, closed.Report.Unknown)
		require.Equal(t, e.OperationID(), closed.Report.Calls[0].OperationID)
		opening := contracts.SwitchOpening{Reason: "mended", Seen: closed.Epoch, OverSeconds: 3600}
		for _, bad := range []contracts.SwitchOpening{{Reason: "mended", Seen: closed.Epoch, OverSeconds: -1},
			{Reason: "mended", Seen: closed.Epoch, OverSeconds: 90_000}, {Reason: "mended"}, {Seen: closed.Epoch}} {
			status, _ := say(t, nora, one+"/opening", bad)
			require.Equal(t, http.StatusUnprocessableEntity, status)
		}
		opening.Seen--
		status, _ := say(t, nora, one+"/opening", opening)
		require.Equal(t, http.StatusConflict, status)
		opening.Seen++
		status, opened := say(t, nora, one+"/opening", opening)
		require.Equal(t, []any{http.StatusOK, ledger.SwitchOpening}, []any{status, opened.State})
		require.InDelta(t, 0, opened.Share, 0.1)
		require.NotNil(t, opened.OpenAt)
		require.Len(t, opened.History, 2)
		_, read := say(t, nora, one, nil)
		require.Equal(t, opened.Epoch, read.Epoch)
	})
}
