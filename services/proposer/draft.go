package proposer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// author fills in drafts: a model, or an agent.
type author interface {
	request(c *conversation) ([]byte, error)
	call(ctx context.Context, c *conversation, body []byte) result // once
	read(body []byte) (reply, result)                              // takes the text out of the answer to a call
}

// drafter makes the proposals of one source.
type drafter struct {
	draft   *config.Draft
	author  author
	answers *answers
	limits  limits
	matrix  map[class]row
	waits   map[class]*outcome.Backoff
	model   contracts.Model // what is recorded of every draft alike (M5)
	tally   *tally
	now     func() time.Time
	pause   func(context.Context, time.Duration) error
}

func newDrafter(t *config.Tenant, s *config.Source, tally *tally) (*drafter, error) {
	draft := s.Draft()
	answers, err := newAnswers(t, draft)
	if err != nil {
		return nil, err
	}
	d := &drafter{draft: draft, answers: answers, tally: tally, now: time.Now, pause: sleep}
	d.model.SchemaVersion = "sha256:" + canonical.Hash(answers.schema).String()
	if s.Agent != nil {
		err = d.byAgent(s.Agent)
	} else {
		err = d.byModel(s.Proposer)
	}
	if err != nil {
		return nil, err
	}
	d.waits, err = newWaits(d.matrix, d.limits)
	return d, err
}

func (d *drafter) byModel(p *config.Proposer) (err error) {
	d.matrix = matrix
	d.model.ProviderClass, d.model.Name, d.model.Revision = p.ProviderClass, p.Model, p.Revision
	d.model.PromptVersion = promptVersion(p.Prompt)
	d.limits = limits{timeout: p.Timeout, total: p.TotalTime, repairs: p.Repair, input: p.MaxInputBytes,
		output: p.MaxOutputTokens, tokens: int64(p.MaxTokens)}
	d.author, err = newModel(p, d.answers.schema, d.tally.log)
	return err
}

// sleep waits, or says that the context ended first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle holds one conversation about one run.
func (d *drafter) handle(ctx context.Context, t *client.Task) (contracts.Proposal, error) {
	m, err := d.gather(t.Event.Body)
	if err != nil {
		return contracts.Proposal{}, err
	}
	talk := &conversation{run: t.Run.RunID, records: m.records, back: t.SentBack}
	used := &spent{began: d.now(), fails: map[class]int{}}
	last := failed(refused, "")
	for {
		body, err := d.author.request(talk)
		if err != nil {
			return contracts.Proposal{}, failure(client.Failure{Class: contracts.FailedInternal}, "%v", err)
		}
		if why := d.exceeds(used, body); why != "" {
			return contracts.Proposal{}, d.giveUp(last, used, why)
		}
		said, r := d.ask(ctx, talk, body, m, used)
		switch {
		case ctx.Err() != nil: // ownership is lost, and what was answered is dropped: nobody may act on it
			return contracts.Proposal{}, stopped(ctx)
		case r.class == answered:
			return d.finish(said, m, used), nil
		}
		if err := d.prepare(ctx, talk, said, r, used); err != nil {
			return contracts.Proposal{}, err
		}
		last = r
	}
}

// errStopped is a draft whose run was lost, or whose time to finish was over when the service was stopped.
var errStopped = errors.New("the draft was stopped")

func stopped(ctx context.Context) error { return fmt.Errorf("%w: %w", errStopped, context.Cause(ctx)) }

// turn is what the author said, and what it drafted where that is valid.
type turn struct {
	reply

	draft *draftOf
}

// ask makes one call, judges it, and counts it.
func (d *drafter) ask(
	ctx context.Context, talk *conversation, body []byte, m *material, used *spent,
) (turn, result) {
	used.calls++
	var said turn
	r := d.author.call(ctx, talk, body)
	if r.class == answered {
		said.reply, r = d.author.read(r.body)
	}
	if r.class == answered {
		var errs []contracts.FieldError
		if said.draft, errs = d.answers.read(said.text, m.fixed); len(errs) > 0 {
			r = failed(invalid, "%s", list(errs))
		}
	}
	cost := d.cost(r.class, said.tokens, len(body))
	used.tokens += cost
	d.tally.call(ctx, r.class, cost)
	return said, r
}

// prepare gets ready for asking again, or gives the run up, as the matrix says (M4).
func (d *drafter) prepare(ctx context.Context, talk *conversation, said turn, r result, used *spent) error {
	used.fails[r.class]++
	rule := d.matrix[r.class]
	switch rule.again {
	case repaired:
		if used.fails[r.class] > d.limits.repairs {
			return d.giveUp(r, used, "")
		}
		talk.repair(said.text, r.detail)
		return nil
	case same:
		wait, ok := d.waits[r.class].Next(used.fails[r.class], d.now().Sub(used.began), r.retryAfter)
		if !ok {
			return d.giveUp(r, used, "")
		}
		if err := d.pause(ctx, wait); err != nil {
			return stopped(ctx)
		}
		return nil
	}
	return d.giveUp(r, used, "")
}

// giveUp is what becomes of the run after its last call.
func (d *drafter) giveUp(last result, used *spent, why string) *client.Failure {
	f := d.matrix[last.class].then
	f.RetryAfter = min(last.retryAfter, longestRetryAfter)
	switch {
	case used.calls == 0:
		return failure(f, "nobody was asked: %s", why)
	case why != "":
		why = "; " + why
	}
	return failure(f, "after %d calls: %s%s", used.calls, last.detail, why)
}

// finish says who drafted, and by which of our texts (M5).
func (d *drafter) finish(said turn, m *material, used *spent) contracts.Proposal {
	p := said.draft.complete(m.proposal)
	drafter := d.model
	drafter.Name = cmp.Or(said.model, drafter.Name)
	drafter.Revision = cmp.Or(drafter.Revision, said.fingerprint)
	drafter.Attempts, drafter.Validation = used.calls, contracts.ValidationValid
	if used.fails[invalid] > 0 {
		drafter.Validation = contracts.ValidationRepaired
	}
	p.Model = &drafter
	return p
}
