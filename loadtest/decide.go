package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// decide finds the run's approval and sends one decision about the intent that the event named. A request that somebody
// else has decided is no error (A8).
func (d *desk) decide(ctx context.Context, who *reviewer, own *deskShard, r request) error {
	approval, err := d.find(ctx, who, r.key)
	if err != nil {
		return err
	}
	if approval.Status != statusPending {
		own.already.Add(1)
		d.board.decide(r.key, approval.Status)
		return nil
	}
	body := contracts.DecisionRequest{Decision: contracts.DecisionApprove, IntentHash: r.intentHash,
		Reason: "The load test has looked at this refund and lets it go."}
	if d.opts.rejects(r.key) {
		body.Decision, body.Reason = contracts.DecisionReject, "The load test turns this share of its refunds down."
	}
	start := time.Now()
	status, answer, err := d.call(ctx, who, http.MethodPost, "/v1/approvals/"+approval.ApprovalID+"/decision", r.key, body)
	if err != nil {
		return err
	}
	own.calls.add(time.Since(start))
	return d.count(own, r.key, status, answer)
}

// count reads what a decision came to.
func (d *desk) count(own *deskShard, key, status int, body []byte) error {
	var answer contracts.DecisionAnswer
	err := json.Unmarshal(body, &answer)
	switch {
	case err != nil: // as from a proxy in between
		return fmt.Errorf("HTTP %d: %.200s", status, body)
	case status == http.StatusOK && answer.Result == resultApproved:
		own.approved.Add(1)
	case status == http.StatusOK && answer.Result == resultRejected:
		own.rejected.Add(1)
	case status == http.StatusConflict && answer.Result == resultAlreadyDecided:
		own.already.Add(1)
	default:
		return fmt.Errorf("HTTP %d: %.200s", status, body)
	}
	d.board.decide(key, answer.Status)
	return nil
}

// Results of a decision, and statuses of an approval, as contracts.DecisionAnswer lists them.
const (
	statusPending        = "pending"
	resultApproved       = "approved"
	resultRejected       = "rejected"
	resultAlreadyDecided = "already_decided"
)

// find returns the approval of a key's run: the one that waits, or else the latest.
func (d *desk) find(ctx context.Context, who *reviewer, key int) (contracts.Approval, error) {
	var none contracts.Approval
	text := d.board.text(key)
	status, body, err := d.call(ctx, who, http.MethodGet, "/v1/approvals?"+url.Values{"key": {text}}.Encode(), key, nil)
	if err != nil {
		return none, err
	}
	var list contracts.ApprovalList
	if err := json.Unmarshal(body, &list); err != nil || status != http.StatusOK {
		return none, fmt.Errorf("list the approvals of one run: HTTP %d: %.200s", status, body)
	}
	for _, a := range list.Approvals { // those that wait come first, then the latest
		if a.TenantID == d.ready.Tenant && a.IdempotencyKey == text {
			return a, nil
		}
	}
	return none, errors.New("the run waits for people, and its approval is not shown to this one")
}

// call makes one call with the person's own token and returns its status and body. The key makes a decision the same
// vote when it is sent again, by us or by the HTTP client where a connection breaks.
func (d *desk) call(ctx context.Context, who *reviewer, method, path string, key int, in any) (int, []byte, error) {
	token, err := who.token(ctx)
	if err != nil {
		return 0, nil, err
	}
	var content io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return 0, nil, fmt.Errorf("encode the body: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(d.ready.ApprovalURL, "/")+path, content)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", d.board.text(key))
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, nil, err // it names the method and the address
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return resp.StatusCode, body, nil
}
