package dispatcher

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/connector"
)

// States of a call. It moves forward only:
//
//	offered ── first request for leave ──> asking ── the gate agrees ──> granted ── receipt, or too late ──> over
//	   │                                      └───── the gate refuses ──> over
//	   └── a receipt, no request in time, or a stop ──> over
//
// The gate is asked at most once, and from over nothing can be granted any more.
type callState int

const (
	offered callState = iota
	asking
	granted
	over
)

// Reasons for which leave is refused.
var (
	errGiven     = errors.New("leave was given already")
	errOver      = errors.New("the command is over")
	errUnasked   = errors.New("nobody asked leave in time")
	errStopping  = errors.New("the dispatcher stops, and nobody had asked leave")
	errUnchecked = errors.New("the check before leave failed")
)

// call is one attempt at the executors of a connector: the same contract as an HTTP call, with the gate right before the
// write, only that another program does the writing.
type call struct {
	tenant, connector string
	token             token
	gate              func() error
	reportWithin      time.Duration

	mu       sync.Mutex
	state    callState
	leave    string            // the secret that came with leave
	refusal  error             // why it was over without leave
	decided  chan struct{}     // closed when the gate has answered
	result   *connector.Result // what was reported
	reported chan struct{}     // closed when result is set
	recorded chan struct{}     // closed when the attempt's outcome was stored, or could not be
	err      error             // why it could not; set before recorded is closed
}

func newCall(tenant, connector string, t token, reportWithin time.Duration, gate func() error) *call {
	return &call{
		tenant: tenant, connector: connector, token: t, gate: gate, reportWithin: reportWithin,
		decided: make(chan struct{}), reported: make(chan struct{}), recorded: make(chan struct{}),
	}
}

// wait is what the call came to. It returns when nothing can be granted any more, and what was granted has been reported
// or is too late.
func (c *call) wait(leaveWithin time.Duration, halt <-chan struct{}) connector.Result {
	c.awaitLeave(leaveWithin, halt)
	c.mu.Lock()
	waits := c.state == granted && c.result == nil
	c.mu.Unlock()
	if waits {
		timer := time.NewTimer(c.reportWithin)
		defer timer.Stop()
		select {
		case <-c.reported:
		case <-timer.C:
		}
	}
	return c.end()
}

// awaitLeave returns when leave was given or refused, or none can be given any more.
func (c *call) awaitLeave(within time.Duration, halt <-chan struct{}) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	var asked bool
	select {
	case <-c.decided:
	case <-c.reported:
	case <-timer.C:
		asked = c.withdraw(errUnasked)
	case <-halt:
		asked = c.withdraw(errStopping)
	}
	if asked {
		<-c.decided // the gate ends by itself
	}
}

// withdraw ends the offer, unless somebody has asked leave.
func (c *call) withdraw(why error) (asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == offered {
		c.state, c.refusal = over, why
		return false
	}
	return c.state == asking
}

// end is the result, after which a receipt comes too late.
func (c *call) end() connector.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasGranted := c.state == granted
	c.state = over
	switch {
	case c.result != nil:
		return *c.result
	case wasGranted:
		return connector.Silent(c.reportWithin)
	}
	return connector.NotSent(c.refusal)
}

// ask answers a request for leave. The first one asks the gate.
func (c *call) ask() contracts.Leave {
	err := c.begin()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return contracts.Leave{Reason: err.Error()}
	}
	t := c.token
	t.leave = c.leave
	return contracts.Leave{
		Granted: true, Token: t.String(), BeginWithinMS: int(sendWithin.Milliseconds()),
		ReportWithinMS: int(c.reportWithin.Milliseconds()),
	}
}

func (c *call) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == offered:
		c.state = asking
		return nil
	case c.state == over && c.refusal != nil:
		return fmt.Errorf("%w: %w", errOver, c.refusal)
	case c.state == over:
		return errOver
	}
	return errGiven
}

// check asks the gate. One that panics refuses.
func (c *call) check() (err error) {
	err = errUnchecked
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.state, c.leave = granted, rand.Text()
		if err != nil {
			c.state, c.refusal = over, fmt.Errorf("stopped before it began: %w", err)
		}
		close(c.decided)
	}()
	err = c.gate()
	return err
}
