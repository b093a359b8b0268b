package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// startHoldpoint stands for an installation: `go run ./services/holdpoint up` starts one, at http://127.0.0.1:7070.
func startHoldpoint(waiting int) *httptest.Server {
	f := newIntake(nil)
	f.waiting, f.runs = waiting, []string{contracts.ResultDuplicateWithResult}
	return httptest.NewServer(f)
}

// An event is published under its own id, and its run is awaited.
func Example() {
	holdpoint := startHoldpoint(0)
	defer holdpoint.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // bounds every call, with all its attempts
	defer cancel()

	c, err := client.New(client.Config{BaseURL: holdpoint.URL, APIKey: "hp_demo_key_for_local_use_only"})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Publish(ctx, "crm-enrichment", client.Event{
		Key:  "contact-1001-changed-7", // the event's own id, the same on every delivery
		Body: json.RawMessage(`{"event_id": "e-1", "proposal": {"action_type": "crm.contact.update"}}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Result) // stored and queued, not done

	if answer, err = c.Await(ctx, answer.RunID); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.State, answer.Outcome)
	// Output:
	// accepted
	// completed executed
}

// What a caller does about an error depends on what is known.
func ExampleClient_Publish() {
	holdpoint := startHoldpoint(0)
	defer holdpoint.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(client.Config{BaseURL: holdpoint.URL, APIKey: "hp_demo_key_for_local_use_only"})
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = c.Publish(ctx, "orders", client.Event{Key: "order-17", Body: json.RawMessage(`{"amount": 12.10}`)})
	var problem *contracts.Problem
	switch {
	case err == nil:
		fmt.Println("stored")
	case errors.Is(err, client.ErrUnanswered):
		fmt.Println("nobody knows; publish it again with the same key")
	case errors.As(err, &problem) && problem.Code == contracts.CodePayloadMismatch:
		fmt.Println("the key belongs to another payload, whose run is", problem.RunID)
	case errors.As(err, &problem):
		fmt.Println("refused:", problem.Code, problem.Errors)
	default:
		fmt.Println("nothing was stored:", err)
	}
	// Output: stored
}

// A worker takes runs that wait, and proposes for each of them under its lease.
func ExampleClient_Work() {
	holdpoint := startHoldpoint(1)
	defer holdpoint.Close()
	c, err := client.New(client.Config{BaseURL: holdpoint.URL, APIKey: "hp_demo_key_for_local_use_only"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	defer stop()

	err = c.Work(ctx, "agent-drafts", client.WorkConfig{
		Concurrency: 4,
		Handle: func(ctx context.Context, task *client.Task) (contracts.Proposal, error) {
			defer stop() // this worker handles one run, and stops
			fmt.Println("the task is", string(task.Event.Body))
			draft, err := askModel(ctx, task.Event.Body) // ctx ends when the lease is lost
			if err != nil {
				return contracts.Proposal{}, &client.Failure{Retryable: true, Class: contracts.FailedTimeout,
					Reason: "The model did not answer in time."}
			}
			return contracts.Proposal{
				ActionType:      "crm.contact.update",
				Target:          contracts.Target{System: "crm", RecordID: "c-1001"},
				ProposedChange:  draft,
				WorkflowVersion: "crm-enrichment@3",
			}, nil
		},
		Report: func(task *client.Task, err error) { fmt.Println(task.Run.IdempotencyKey, "was not submitted:", err) },
	})
	fmt.Println("stopped:", err)
	// Output:
	// the task is {"task":1}
	// stopped: <nil>
}

// askModel stands for a call of a model.
func askModel(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"fields": {"city": "Lisbon"}}`), nil
}

// A run can also be claimed by its event, by a program that has the event already.
func ExampleClient_Claim() {
	holdpoint := startHoldpoint(0)
	defer holdpoint.Close()
	c, err := client.New(client.Config{BaseURL: holdpoint.URL, APIKey: "hp_demo_key_for_local_use_only"})
	if err != nil {
		fmt.Println(err)
		return
	}
	event := client.Event{Key: "task-3", Body: json.RawMessage(`{"task_id": "3"}`)}
	task, err := c.Claim(context.Background(), "agent-drafts", event)
	var taken *client.TakenError
	if errors.As(err, &taken) {
		fmt.Println("another worker has it; ask again in", taken.RetryAfter)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer task.Close()

	draft, err := askModel(task.Context(), task.Event.Body)
	if err != nil {
		_, err = task.Fail(context.Background(), client.Failure{Retryable: true, Reason: "The model is busy."})
		fmt.Println(err)
		return
	}
	answer, err := task.Submit(context.Background(), contracts.Proposal{ActionType: "crm.contact.update",
		Target: contracts.Target{System: "crm", RecordID: "c-1001"}, ProposedChange: draft,
		WorkflowVersion: "crm-enrichment@3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Result)
	// Output: accepted
}
