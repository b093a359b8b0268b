package approval

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// token is a person's own access token, as a back-office tool would get it.
func (g *gate) token(person string, changes ...func(*demoidp.SignInConfig)) demoidp.Tokens {
	g.t.Helper()
	c := demoidp.SignInConfig{Issuer: g.idp.Issuer(), ClientID: "holdpoint-cli", RedirectURI: "http://127.0.0.1/callback",
		Login: person, Password: demoidp.DemoPassword}
	for _, change := range changes {
		change(&c)
	}
	tokens, err := demoidp.SignIn(g.t.Context(), c)
	require.NoError(g.t, err)
	return tokens
}

// apiAnswer is one answer of the API.
type apiAnswer struct {
	Status int
	Header http.Header
	contracts.Problem
	contracts.DecisionAnswer
	Text string
}

// call asks the API with a bearer token; a body that is a string is sent as it is.
func (g *gate) call(t testing.TB, method, path, token string, body any, changes ...func(*http.Request)) apiAnswer {
	t.Helper()
	text, ok := body.(string)
	if !ok && body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, g.base+path, strings.NewReader(text))
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for _, change := range changes {
		change(request)
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	seen := read(t, answer)
	out := apiAnswer{Status: seen.Status, Header: seen.Header, Text: seen.Body}
	if method == http.MethodPost && json.Valid([]byte(seen.Body)) {
		require.NoError(t, json.Unmarshal([]byte(seen.Body), &out.Problem))
		require.NoError(t, json.Unmarshal([]byte(seen.Body), &out.DecisionAnswer))
	}
	return out
}

func decisionPath(a ledgertest.Asked) string {
	return "/v1/approvals/" + a.ApprovalID.String() + "/decision"
}

func decision(a ledgertest.Asked, what string) contracts.DecisionRequest {
	return contracts.DecisionRequest{Decision: what, Reason: "because", IntentHash: a.IntentHash.String()}
}

// TestAPI is A13: the same decision with the same checks, and the human's own credential.
func TestAPI(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.token("nora").AccessToken

	t.Run("ListsAndShowsWhatThePersonMaySee", func(t *testing.T) {
		asked := g.waiting("listed")
		list := g.call(t, http.MethodGet, "/v1/approvals?state=pending&key=listed", nora, nil)
		require.Equal(t, http.StatusOK, list.Status)
		require.Contains(t, list.Text, asked.ApprovalID.String())
		require.Equal(t, "no-store", list.Header.Get("Cache-Control"))
		var card contracts.ApprovalCard
		require.NoError(t, json.Unmarshal([]byte(g.call(t, http.MethodGet, "/v1/approvals/"+asked.ApprovalID.String(), nora, nil).Text), &card))
		require.Equal(t, asked.IntentHash.String(), card.IntentHash)
		require.Equal(t, ledger.ExecutionNotStarted, card.ExecutionStatus)
		require.True(t, card.TypedReason)
		require.JSONEq(t, `"250"`, `"`+refundedIn(t, card.Intent)+`"`)
		carl := g.token("carl").AccessToken
		require.NotContains(t, g.call(t, http.MethodGet, "/v1/approvals?key=listed", carl, nil).Text, asked.ApprovalID.String())
		require.Equal(t, http.StatusNotFound, g.call(t, http.MethodGet, "/v1/approvals/"+asked.ApprovalID.String(), carl, nil).Status)
	})

	t.Run("ACorrectionShowsWhatItCorrectsAndWhoMadeItCannotApprove", func(t *testing.T) {
		original := g.waiting("wrong")
		require.Equal(t, http.StatusOK,
			g.call(t, http.MethodPost, decisionPath(original), nora, decision(original, ledger.Reject)).Status)
		asked := g.waiting("corrected", func(c *ledger.Claim) {
			c.Corrects = &ledger.Correction{Key: "wrong", By: "nora@example.test", Reason: "the amount was wrong"}
		})
		path := "/v1/approvals/" + asked.ApprovalID.String()
		var card contracts.ApprovalCard
		require.NoError(t, json.Unmarshal([]byte(g.call(t, http.MethodGet, path, nora, nil).Text), &card))
		require.Equal(t, &contracts.Corrected{IdempotencyKey: "wrong", RunID: original.Effect.RunID.String(),
			CorrectedBy: "nora@example.test", Reason: "the amount was wrong", Outcome: ledger.OutcomeRejected}, card.Corrects)
		refused := g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve))
		require.Equal(t, http.StatusForbidden, refused.Status)
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("DecidesOnceHoweverOftenTheSameCallIsMade", func(t *testing.T) {
		asked := g.waiting("once")
		key := func(r *http.Request) { r.Header.Set("Idempotency-Key", "call-1") }
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				answer := g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve), key)
				if answer.Status != http.StatusOK || answer.DecisionAnswer.Result != ledger.VoteApproved {
					t.Errorf("%d %s", answer.Status, answer.Text)
				}
			})
		}
		all.Wait()
		require.Equal(t, approved, g.state(asked))
	})

	t.Run("TellsALoserWhoDecided", func(t *testing.T) {
		asked := g.waiting("late")
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Reject)).Status)
		late := g.call(t, http.MethodPost, decisionPath(asked), g.token("sam").AccessToken, decision(asked, ledger.Approve))
		require.Equal(t, http.StatusConflict, late.Status)
		require.Equal(t, contracts.ProblemContentType, late.Header.Get("Content-Type"))
		require.Equal(t, ledger.VoteLate, late.DecisionAnswer.Result)
		require.Contains(t, late.Detail, "rejected by nora")
		require.Equal(t, "nora", late.Decisions[0].ReviewerID)
		require.Equal(t, rejected, g.state(asked))
	})

	t.Run("RefusesWhatWasNotShown", func(t *testing.T) { // APR-03
		asked := g.waiting("changed")
		other := decision(asked, ledger.Approve)
		other.IntentHash = strings.Repeat("0", 64)
		answer := g.call(t, http.MethodPost, decisionPath(asked), nora, other)
		require.Equal(t, http.StatusConflict, answer.Status)
		require.Equal(t, ledger.VoteChanged, answer.DecisionAnswer.Result)
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("BadInputIsSaidToBeBadAndChangesNothing", func(t *testing.T) {
		asked := g.waiting("bad")
		hash := asked.IntentHash.String()
		for name, c := range map[string]struct {
			body   any
			status int
		}{
			"NoReason":        {contracts.DecisionRequest{Decision: "approve", IntentHash: hash}, http.StatusUnprocessableEntity},
			"NoDecision":      {contracts.DecisionRequest{Reason: "x", IntentHash: hash}, http.StatusUnprocessableEntity},
			"NoHash":          {contracts.DecisionRequest{Decision: "approve", Reason: "x"}, http.StatusUnprocessableEntity},
			"AnUnknownMember": {`{"decision":"approve","reason":"x","intent_hash":"` + hash + `","as":"sam"}`, http.StatusBadRequest},
			"NoJSON":          {`decision=approve`, http.StatusBadRequest},
			"TwoObjects":      {`{}{}`, http.StatusBadRequest},
			"TooLarge":        {`{"reason":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusRequestEntityTooLarge},
			"EndlessReason":   {contracts.DecisionRequest{Decision: "reject", Reason: strings.Repeat("x", 2001), IntentHash: hash}, http.StatusUnprocessableEntity},
		} {
			answer := g.call(t, http.MethodPost, decisionPath(asked), nora, c.body)
			require.Equal(t, c.status, answer.Status, "%s: %s", name, answer.Text)
			require.NotEmpty(t, answer.Code, name)
		}
		form := func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }
		require.Equal(t, http.StatusUnsupportedMediaType, g.call(t, http.MethodPost, decisionPath(asked), nora, "decision=approve", form).Status)
		require.Equal(t, http.StatusNotFound, g.call(t, http.MethodPost, "/v1/approvals/not-an-id/decision", nora, decision(asked, ledger.Approve)).Status)
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("WhoAskedMayWithdraw", func(t *testing.T) {
		asked := g.waiting("withdrawn")
		path := "/v1/approvals/" + asked.ApprovalID.String() + "/withdrawal"
		require.Equal(t, http.StatusForbidden, g.call(t, http.MethodPost, path, nora, contracts.WithdrawalRequest{Reason: "x"}).Status)
		rita := g.token("rita").AccessToken
		require.Equal(t, http.StatusUnprocessableEntity, g.call(t, http.MethodPost, path, rita, contracts.WithdrawalRequest{}).Status)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, path, rita, contracts.WithdrawalRequest{Reason: "a mistake"}).Status)
		require.Equal(t, "superseded 0 0", g.state(asked))
		require.Contains(t, g.Text(`select outcome_reason from runs where run_id = $1`, asked.Effect.RunID), "Withdrawn by rita: a mistake")
	})
}

func refundedIn(t *testing.T, intent json.RawMessage) string {
	t.Helper()
	var snapshot struct {
		Actions []struct {
			ProposedChange struct{ Amount json.Number } `json:"proposed_change"`
		}
	}
	require.NoError(t, json.Unmarshal(intent, &snapshot))
	return snapshot.Actions[0].ProposedChange.Amount.String()
}

// TestOnlyPeople is A15, on every channel: the API takes a person's own access token, and nothing else.
func TestOnlyPeople(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k")
	agent, err := (&clientcredentials.Config{ClientID: "demo-agent", ClientSecret: "demo-agent-secret",
		TokenURL: endpoint(t, g.idp.Issuer(), "token_endpoint")}).Token(t.Context())
	require.NoError(t, err)
	delegated, err := g.idp.MintDelegated("nora", "demo-agent")
	require.NoError(t, err)
	another := newGate(t).token("nora").AccessToken
	web := g.token("nora", func(c *demoidp.SignInConfig) {
		c.ClientID, c.ClientSecret, c.RedirectURI = "holdpoint", demoidp.DemoSecret, g.base+"/callback"
	}).AccessToken
	nora := g.token("nora")
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"NoToken":                 {"", http.StatusUnauthorized},
		"NotAToken":               {"hp_demo_key_for_local_use_only", http.StatusUnauthorized},
		"AnIDToken":               {nora.IDToken, http.StatusUnauthorized},
		"AnotherIssuersToken":     {another, http.StatusUnauthorized},
		"AForgedToken":            {tampered(nora.AccessToken), http.StatusUnauthorized},
		"AnAgentsOwnToken":        {agent.AccessToken, http.StatusForbidden},
		"ADelegatedToken":         {delegated, http.StatusForbidden},
		"ATokenOfAnotherProgram":  {web, http.StatusForbidden},
		"AMailLinkIsNoCredential": {g.link(asked, "mail nora@example.test")[len(linkPath):], http.StatusUnauthorized},
	} {
		answer := g.call(t, http.MethodPost, decisionPath(asked), c.token, decision(asked, ledger.Approve))
		require.Equal(t, c.status, answer.Status, "%s: %s", name, answer.Text)
		require.NotContains(t, answer.Text, asked.IntentHash.String(), name)
	}
	browser := g.signedIn("nora")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.base+decisionPath(asked), bytes.NewReader([]byte(`{}`)))
	require.NoError(t, err)
	cookies, err := browser.Client.Do(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, read(t, cookies).Status, "a session of the pages is none of the API")
	require.Equal(t, untouched, g.state(asked))
}

// TestRightsAreReadAtTheDecision is A4 and APR-08: who lost the role, or the account, decides nothing, whatever the token says.
func TestRightsAreReadAtTheDecision(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k")
	nora, sam := g.token("nora").AccessToken, g.token("sam").AccessToken
	require.NoError(t, g.idp.SetGroups("nora", "sales"))
	require.Equal(t, http.StatusNotFound, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve)).Status)
	require.NoError(t, g.idp.Disable("sam", true))
	require.Equal(t, http.StatusUnauthorized, g.call(t, http.MethodPost, decisionPath(asked), sam, decision(asked, ledger.Approve)).Status)
	require.NoError(t, g.idp.SetGroups("nora", "support-leads"))
	require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve)).Status)
	require.JSONEq(t, `["sales-operations", "support-lead"]`, g.Text(`select authority->'roles' from reviews where approval_id = $1`, asked.ApprovalID))
	require.JSONEq(t, `{"groups": ["support-leads"]}`, g.Text(`select authority->'claims' from reviews where approval_id = $1`, asked.ApprovalID))
}

// tampered changes what a token says and keeps its signature.
func tampered(token string) string {
	parts := strings.Split(token, ".")
	changed := []byte(parts[1])
	changed[len(changed)/2] ^= 1
	return parts[0] + "." + string(changed) + "." + parts[2]
}

func endpoint(t *testing.T, issuer, name string) string {
	t.Helper()
	answer, err := http.Get(issuer + "/.well-known/openid-configuration")
	require.NoError(t, err)
	var metadata map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, answer).Body), &metadata))
	address, err := url.Parse(metadata[name].(string))
	require.NoError(t, err)
	return address.String()
}
