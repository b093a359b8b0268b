package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	missing         int // accepted runs without an accepted write
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
	return v, nil
}

// operations returns the operation ids of all accepted runs, and how many of these runs have none. The events name
// most; intake is asked for the rest.
func (s *session) operations(ctx context.Context) (known []string, without int, err error) {
	var mu sync.Mutex
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(8)
	client := &http.Client{Timeout: answerTimeout}
	defer client.CloseIdleConnections()
	for i := range s.board.entries {
		run, operation := s.board.entries[i].run.Load(), s.board.entries[i].operation.Load()
		if run == nil {
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
	if !s.opts.skipPostgresOnly {
		r.compare(postgresOnly(ctx, s.ready.DatabaseURL))
	}
	r.judge()
	return r, nil
}
