package intake

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Bounds of a batch.
const (
	maxBatch      = 500
	maxBatchBytes = 8 << 20
)

const cloudEventsBatch = "application/cloudevents-batch+json"

// batch takes many events of a source in one commit, and answers each by itself: a bad one spoils no other (INT-08).
func (d *httpDoor) batch(w http.ResponseWriter, r *http.Request, c *caller) reply {
	s, problem := c.tenant.source(r.PathValue("source"))
	if problem != nil {
		return refuse(problem)
	}
	whole := &delivery{headers: headers(r.Header), sentBy: c.name}
	if problem := whole.checkEncoding(); problem != nil {
		leave(w)
		return refuse(problem)
	}
	if whole.raw, problem = readBody(w, r, maxBatchBytes); problem != nil {
		return refuse(problem)
	}
	items, problem := whole.items()
	if problem != nil {
		return refuse(problem)
	}
	if answer, over := c.tenant.overRateBatch(len(items)); over {
		return answer
	}
	results, err := d.in.events(r.Context(), c.tenant, s, items)
	if err != nil {
		return d.in.failure(err)
	}
	return reply{status: http.StatusOK, contentType: plainJSON, body: results, result: contracts.ResultAccepted}
}

// items are the deliveries of a batch: structured CloudEvents in a list (CloudEvents JSON format, section 4), or events
// each with the headers that it would have had alone. Every body keeps the bytes that were sent.
func (d *delivery) items() ([]*delivery, *contracts.Problem) {
	if mediaType(d.contentType()) == cloudEventsBatch {
		events, err := elements(d.raw)
		if err != nil {
			return nil, newProblem(contracts.CodeMalformed, "The body must be a JSON array of CloudEvents.")
		}
		items := make([]*delivery, len(events))
		for i, event := range events {
			items[i] = d.item(event, map[string]string{"Content-Type": "application/cloudevents+json"})
		}
		return items, checkCount(len(items))
	}
	if problem := d.checkContentType(); problem != nil {
		return nil, problem
	}
	events, err := readBatch(d.raw)
	if err != nil {
		return nil, newProblemf(contracts.CodeMalformed,
			`%v; the body must be one object: {"events": [{"headers": {"Idempotency-Key": "…"}, "body": {…}}, …]}.`, err)
	}
	items := make([]*delivery, len(events))
	for i, event := range events {
		items[i] = d.item(event.Body, event.Headers)
	}
	return items, checkCount(len(items))
}

func checkCount(n int) *contracts.Problem {
	if n == 0 || n > maxBatch {
		return newProblemf(contracts.CodeSchemaInvalid, "A batch has 1 to %d events.", maxBatch)
	}
	return nil
}

// item is one event of the batch. The request's own headers belong to the batch, but for the trace that it is part of.
func (d *delivery) item(body []byte, sent map[string]string) *delivery {
	own := make(map[string][]string, len(sent))
	for name, value := range sent {
		own[name] = []string{value}
	}
	item := &delivery{raw: body, headers: newHeaders(own), sentBy: d.sentBy}
	if _, has := item.headers["Traceparent"]; !has {
		if trace := d.traceParent(); trace != "" {
			item.headers["Traceparent"] = []string{trace}
		}
	}
	return item
}

// events claims what can be admitted, together. The error means that nothing is known of any item.
func (in *Intake) events(ctx context.Context, t *tenant, s *source, items []*delivery) (*contracts.BatchResults, error) {
	results := make([]contracts.BatchResult, len(items))
	var claims []ledger.Claim
	var places []int
	for i, item := range items {
		claim, problem := t.admit(s, item)
		if problem != nil {
			results[i] = batchResult(refuse(problem))
			continue
		}
		claims, places = append(claims, claim), append(places, i)
	}
	if len(claims) > 0 {
		claimed, err := service.Waking(in.env, in.env.Ledger.Claim)(ctx, claims)
		if err != nil {
			return nil, fmt.Errorf("claim a batch of %d events: %w", len(claims), err)
		}
		for n, i := range places {
			results[i] = batchResult(in.claimed(ctx, claimed[n], nil, uuid.Nil))
		}
	}
	for _, r := range results {
		in.counters.answer(ctx, counted{t.ID, doorHTTP, "event", r.Result()})
	}
	return &contracts.BatchResults{Results: results}, nil
}

func batchResult(r reply) contracts.BatchResult {
	result := contracts.BatchResult{Status: r.status}
	switch body := r.body.(type) {
	case *contracts.Answer:
		result.Answer = body
	case *contracts.Problem:
		result.Problem = body
	}
	return result
}
