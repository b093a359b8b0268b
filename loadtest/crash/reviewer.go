package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Demo people. Nora and Sam may decide refunds; Rita asks for them.
const (
	rita = "rita"
	nora = "nora"
	dora = "dora"
	sam  = "sam"
)

// reviewer is one of the demo people, signed in, with the trial's card in hand.
type reviewer struct {
	*trial
	login, token string
}

// signIn goes through the whole sign-in. The provider is never killed, so it is asked once.
func (t *trial) signIn(ctx context.Context, login string) (*reviewer, error) {
	tokens, err := demoidp.SignIn(ctx, demoidp.SignInConfig{Issuer: t.gate.issuer, ClientID: "holdpoint-cli",
		RedirectURI: "http://127.0.0.1/callback", Login: login, Password: demoidp.DemoPassword})
	if err != nil {
		return nil, fmt.Errorf("sign %s in: %w", login, err)
	}
	return &reviewer{trial: t, login: login, token: tokens.AccessToken}, nil
}

// ruled is what the approval service says to a decision: an answer, or a problem with what stands.
type ruled struct {
	status int
	contracts.DecisionAnswer
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (v *ruled) String() string {
	return fmt.Sprintf("HTTP %d %s %s, approval %s: %s", v.status, v.Code, v.Result, v.Status, v.Detail)
}

// call asks the approval service, again and again until it answers: whose connection broke knows nothing, and asks
// the same again.
func (r *reviewer) call(ctx context.Context, method, path string, body, into any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	err = poll(ctx, "the approval service to answer "+path, func() (bool, error) {
		status, err = r.callOnce(ctx, method, path, text, into)
		return err == nil && status < http.StatusInternalServerError, ctx.Err()
	})
	return status, err
}

func (r *reviewer) callOnce(ctx context.Context, method, path string, body []byte, into any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.gate.url()+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", r.key+"-"+r.login) // one person makes one decision in a trial
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, json.Unmarshal(text, into)
}

// card finds what the trial's event asks for. There is one request for it, however often anybody was told (A1).
func (r *reviewer) card(ctx context.Context) (card contracts.ApprovalCard, err error) {
	var list struct{ Approvals []contracts.Approval }
	status, err := r.call(ctx, http.MethodGet, "/v1/approvals?key="+url.QueryEscape(r.key), nil, &list)
	if err == nil && len(list.Approvals) != 1 {
		err = fmt.Errorf("%s sees %d requests of the event where there is one: HTTP %d", r.login, len(list.Approvals), status)
	}
	if err != nil {
		return card, err
	}
	status, err = r.call(ctx, http.MethodGet, "/v1/approvals/"+list.Approvals[0].ApprovalID, nil, &card)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s is not shown the card: HTTP %d", r.login, status)
	}
	return card, err
}

// decide makes a decision on a card, with the token of a link where one led there.
func (r *reviewer) decide(
	ctx context.Context, card contracts.ApprovalCard, decision, link string,
) (v ruled, err error) {
	v.status, err = r.call(ctx, http.MethodPost, "/v1/approvals/"+card.ApprovalID+"/decision", contracts.DecisionRequest{
		Decision: decision, Reason: "The boundary is tested.", IntentHash: card.IntentHash, Token: link}, &v)
	return v, err
}

// mustDecide makes a decision that has to come to a result, also where it is sent again under its key: what was
// decided is told, and not that it is decided (A8).
func (r *reviewer) mustDecide(ctx context.Context, card contracts.ApprovalCard, decision, link, result string) error {
	v, err := r.decide(ctx, card, decision, link)
	if err == nil && (v.status != http.StatusOK || v.Result != result) {
		err = fmt.Errorf("%s decided to %s, and was answered %s", r.login, decision, &v)
	}
	return err
}

// withdraw takes the request back. Sent again, it is told that the request is withdrawn already.
func (r *reviewer) withdraw(ctx context.Context, card contracts.ApprovalCard) error {
	var v ruled
	status, err := r.call(ctx, http.MethodPost, "/v1/approvals/"+card.ApprovalID+"/withdrawal",
		contracts.WithdrawalRequest{Reason: "The boundary is tested."}, &v)
	if v.status = status; err == nil && v.Status != ledger.ApprovalSuperseded {
		err = fmt.Errorf("%s withdrew the request, and was answered %s", r.login, &v)
	}
	return err
}
