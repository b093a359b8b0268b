package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// identities is the identity provider of all worlds of a test binary: making its key is slow, and nobody's rights are changed in it.
// It ends with the process.
var identities = sync.OnceValues(func() (*demoidp.Provider, error) {
	p, err := demoidp.New(demoidp.Config{Addr: "127.0.0.1:0", People: demoidp.DemoPeople(),
		Clients: demoidp.DemoClients("http://127.0.0.1/callback")})
	if err == nil {
		go func() { _ = p.Run(context.Background()) }()
	}
	return p, err
})

// approvalChoices are where an approval service listens, and whom it believes.
func (w *World) approvalChoices(service string) (c roster.ApprovalChoices) {
	if service != ledger.Approval {
		return c
	}
	provider, err := identities()
	require.NoError(w.t, err)
	c.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	c.Issuer, c.ClientSecret = provider.Issuer(), demoidp.DemoSecret
	return c
}

func (w *World) gateURLs() []string {
	urls := []string{}
	for _, r := range w.running {
		if r.name == ledger.Approval {
			urls = append(urls, "http://"+r.ready.Addr)
		}
	}
	return urls
}

// Reviewer is one of the demo people, signed in for the API.
type Reviewer struct {
	w     *World
	token string
}

// SignIn signs one of the demo people in.
func (w *World) SignIn(login string) *Reviewer {
	w.t.Helper()
	provider, err := identities()
	require.NoError(w.t, err)
	tokens, err := demoidp.SignIn(context.Background(), demoidp.SignInConfig{Issuer: provider.Issuer(), ClientID: "holdpoint-cli",
		RedirectURI: "http://127.0.0.1/callback", Login: login, Password: demoidp.DemoPassword})
	require.NoError(w.t, err)
	return &Reviewer{w: w, token: tokens.AccessToken}
}

// Card is the approval that waits for an event's run.
func (r *Reviewer) Card(e Event) contracts.ApprovalCard {
	r.w.t.Helper()
	var list contracts.ApprovalList
	require.Equal(r.w.t, http.StatusOK, r.call(http.MethodGet, "/v1/approvals?key="+e.Key, nil, &list))
	for _, a := range list.Approvals {
		if a.Status == ledger.ApprovalPending {
			var card contracts.ApprovalCard
			require.Equal(r.w.t, http.StatusOK, r.call(http.MethodGet, "/v1/approvals/"+a.ApprovalID, nil, &card))
			return card
		}
	}
	r.w.t.Fatalf("no approval of %s waits", e.Key)
	return contracts.ApprovalCard{}
}

// Decide decides what waits for an event's run, on the card as it is now.
func (r *Reviewer) Decide(e Event, decision, reason string) (int, contracts.DecisionAnswer) {
	r.w.t.Helper()
	return r.DecideCard(r.Card(e), decision, reason)
}

// DecideCard decides on a card that was read before.
func (r *Reviewer) DecideCard(card contracts.ApprovalCard, decision, reason string) (status int, answer contracts.DecisionAnswer) {
	r.w.t.Helper()
	return r.DecideWith(card, "", decision, reason)
}

// call asks some approval service, again where it is being restarted.
func (r *Reviewer) call(method, path string, body, into any) (status int) {
	text, err := json.Marshal(body)
	require.NoError(r.w.t, err)
	r.w.Until(fmt.Sprintf("%s %s", method, path), func() bool {
		urls := r.w.gates.Load().([]string)
		if len(urls) == 0 {
			return false
		}
		request, err := http.NewRequest(method, urls[int(r.w.next.Add(1))%len(urls)]+path, bytes.NewReader(text))
		require.NoError(r.w.t, err)
		request.Header.Set("Authorization", "Bearer "+r.token)
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode >= 500 {
			return false
		}
		status = answer.StatusCode
		return json.Unmarshal(content, into) == nil
	})
	return status
}

// DecideWith decides by way of a link that was sent to the person.
func (r *Reviewer) DecideWith(card contracts.ApprovalCard, token, decision, reason string) (status int, answer contracts.DecisionAnswer) {
	r.w.t.Helper()
	status = r.call(http.MethodPost, "/v1/approvals/"+card.ApprovalID+"/decision",
		contracts.DecisionRequest{Decision: decision, Reason: reason, IntentHash: card.IntentHash, Token: token}, &answer)
	return status, answer
}

// DecideInBatch decides as one of the decisions of a call, of which another is about nothing that exists.
func (r *Reviewer) DecideInBatch(card contracts.ApprovalCard, token, decision, reason string) (status int, answer contracts.DecisionAnswer) {
	r.w.t.Helper()
	mine := contracts.DecisionRequest{Decision: decision, Reason: reason, IntentHash: card.IntentHash, Token: token}
	batch := contracts.DecisionBatch{Decisions: []contracts.BatchedDecision{{ApprovalID: uuid.NewString(), DecisionRequest: mine},
		{ApprovalID: card.ApprovalID, DecisionRequest: mine}}}
	var results contracts.DecisionResults
	require.Equal(r.w.t, http.StatusOK, r.call(http.MethodPost, "/v1/approvals/decisions", batch, &results))
	require.Equal(r.w.t, http.StatusNotFound, results.Results[0].Status)
	if got := results.Results[1]; got.Answer != nil {
		answer = *got.Answer
	}
	return results.Results[1].Status, answer
}
