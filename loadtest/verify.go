package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// checkBatch is how many references the sandbox is asked about at once.
const checkBatch = 50_000

// verdict is what the sandbox's own ledger says about this load.
type verdict struct {
	writes          int // accepted by the sandbox since before the load
	duplicateWrites int // of these, beyond the first for one operation
	missing         int // accepted runs without an accepted write, rejected ones aside
	forbidden       int // writes for runs that a person rejected
}

// verify asks the sandbox about every accepted run.
func (s *session) verify(ctx context.Context, provider *sandbox.Client, before sandbox.Summary) (verdict, error) {
	operations, without, err := s.operations(ctx)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{missing: without}
	for len(operations) > 0 {
		n := min(checkBatch, len(operations))
		check, err := provider.Check(ctx, operations[:n])
		if err != nil {
			return verdict{}, fmt.Errorf("ask the sandbox which writes are missing: %w", err)
		}
		v.missing += check.Missing
		operations = operations[n:]
	}
	after, err := provider.Summary(ctx)
	if err != nil {
		return verdict{}, fmt.Errorf("ask the sandbox after the load: %w", err)
	}
	v.writes = after.Writes - before.Writes
	v.duplicateWrites = after.DuplicateWrites - before.DuplicateWrites
	if s.flow.reviewed() {
		v.forbidden, err = s.forbidden(ctx, provider)
	}
	return v, err
}

// forbidden counts the refunds of payments whose request was rejected, whatever reference they were made under (A9).
func (s *session) forbidden(ctx context.Context, provider *sandbox.Client) (int, error) {
	writes, err := provider.Writes(ctx, sandbox.Filter{System: sandbox.Payments})
	if err != nil {
		return 0, fmt.Errorf("ask the sandbox for its refunds: %w", err)
	}
	n, prefix := 0, strings.ReplaceAll(paymentPrefix, runHole, s.run)
	for _, w := range writes {
		digits, ours := strings.CutPrefix(w.Refund.PaymentID, prefix)
		key, err := strconv.Atoi(digits)
		if ours && err == nil && key < len(s.board.entries) && s.board.entries[key].decided.Load() == rejected {
			n++
		}
	}
	return n, nil
}

// operations returns the operation ids of all accepted runs that nobody rejected, and how many of these runs have none.
// The events name most; intake is asked for the rest.
func (s *session) operations(ctx context.Context) (known []string, without int, err error) {
	var mu sync.Mutex
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(8)
	client := &http.Client{Timeout: answerTimeout}
	defer client.CloseIdleConnections()
	for i := range s.board.entries {
		run, operation := s.board.entries[i].run.Load(), s.board.entries[i].operation.Load()
		if run == nil || s.board.entries[i].decided.Load() == rejected {
			continue
		}
		if operation != nil && *operation != "" {
			mu.Lock()
			known = append(known, *operation)
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			ids, err := s.effects(inner, client, *run)
			mu.Lock()
			defer mu.Unlock()
			known = append(known, ids...)
			if len(ids) == 0 {
				without++
			}
			return err
		})
	}
	err = group.Wait()
	return known, without, err
}

// effects asks intake for the operation ids of a run.
func (s *session) effects(ctx context.Context, client *http.Client, runID string) ([]string, error) {
	url := strings.TrimSuffix(s.ready.IntakeURL, "/") + "/v1/runs/" + runID
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for run %s: %w", runID, err)
	}
	req.Header.Set("Authorization", "Bearer "+s.ready.APIKey)
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for run %s: %w", runID, err)
	}
	defer resp.Body.Close()
	var run contracts.Answer
	if err := json.NewDecoder(resp.Body).Decode(&run); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for run %s: %s, %v", runID, resp.Status, err)
	}
	var ids []string
	for _, effect := range run.Effects {
		ids = append(ids, effect.OperationID)
	}
	return ids, nil
}

// conclude adds everything up.
func (s *session) conclude(ctx context.Context, w *watch, v verdict) (*report, error) {
	elapsed := time.Duration(s.board.last.Load())
	r := &report{session: s, verdict: v, fired: s.board.fired(), elapsed: elapsed, unreadable: w.unreadable.Load()}
	r.count(s.tally, s.board, w.latencies())
	r.review(s.desk, s.board)
	if !s.opts.skipPostgresOnly {
		r.compare(postgresOnly(ctx, s.ready.DatabaseURL, s.flow.reviewed()))
	}
	r.judge()
	return r, nil
}
