package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// session is one run of the driver: what its parts share.
type session struct {
	opts  options
	ready ready
	flow  flow
	plan  plan
	run   string // names this run in every key
	start time.Time
	board *board
	tally *tally
	desk  *desk // nil where policy decides alone
}

// door delivers its queue and returns when every delivery was answered or given up.
type door interface {
	deliver(ctx context.Context) error
}

// drive runs one load from the ready file to the report. Progress goes to the writer.
func drive(ctx context.Context, opts options, progress io.Writer) (*report, error) {
	system, err := readReady(opts.readyFile)
	if err != nil {
		return nil, err
	}
	provider := sandbox.NewClient(system.SandboxURL)
	before, err := provider.Summary(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the sandbox before the load: %w", err)
	}
	watch, err := newWatch(ctx, system, flows[opts.flow])
	if err != nil {
		return nil, err
	}
	defer watch.close()
	s := newSession(opts, system)
	if s.flow.reviewed() {
		if s.desk, err = newDesk(ctx, s); err != nil {
			return nil, fmt.Errorf("let people decide: %w", err)
		}
	}
	defer s.desk.close()
	if err := watch.follow(s.board, s.desk); err != nil {
		return nil, err
	}
	if err := s.load(ctx, progress); err != nil {
		return nil, err
	}
	s.desk.close() // a run can end before the answer to its decision arrives
	s.desk.lookBack(ctx)
	verdict, err := s.verify(ctx, provider, before)
	if err != nil {
		return nil, err
	}
	return s.conclude(ctx, watch, verdict)
}

func newSession(opts options, system ready) *session {
	s := &session{
		opts: opts, ready: system, flow: flows[opts.flow], plan: newPlan(&opts), run: randomHex(4),
		start: time.Now(), tally: newTally(),
	}
	s.board = newBoard(s.run, s.plan.keys, s.start)
	return s
}

// load delivers everything and waits for the accepted runs to end.
func (s *session) load(ctx context.Context, progress io.Writer) error {
	doors, err := s.doors()
	if err != nil {
		return err
	}
	told, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.tell(told, progress)
	}()
	defer func() { stop(); <-ended }()
	group, inner := errgroup.WithContext(ctx)
	for _, d := range doors {
		group.Go(func() error { return d.deliver(inner) })
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return fmt.Errorf("deliver the load: %w", err)
	}
	return s.settle(ctx)
}

// doors makes the doors that the options name, each with its share of the plan.
func (s *session) doors() ([]door, error) {
	shares := []*queue{s.plan.sole()}
	if s.opts.door == doorBoth {
		shares = s.plan.halves()
	}
	var doors []door
	if s.opts.door != doorNATS {
		d, err := newHTTPDoor(s, shares[0])
		if err != nil {
			return nil, err
		}
		doors = append(doors, d)
	}
	if s.opts.door != doorHTTP {
		doors = append(doors, newNATSDoor(s, shares[len(shares)-1]))
	}
	return doors, nil
}

// settleEvery is how often the driver looks whether all runs have ended.
const settleEvery = 20 * time.Millisecond

// settle waits until every accepted run has ended, or until none has for the settle time.
func (s *session) settle(ctx context.Context) error {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	since := time.Since(s.start)
	for s.board.open() > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if idle := time.Since(s.start) - max(since, time.Duration(s.board.last.Load())); idle > s.opts.settle {
			return nil // the report shows what is open
		}
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}
