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

// drafter makes the proposals of one source.
type drafter struct {
	declared *config.Proposer
	model    *model
	answers  *answers
	form     *form
	waits    map[class]*outcome.Backoff
	prompt   string // its version
	schema   string // likewise
	tally    *tally
	now      func() time.Time
	pause    func(context.Context, time.Duration) error
}

func newDrafter(t *config.Tenant, s *config.Source, tally *tally) (*drafter, error) {
	p := s.Proposer
	model, err1 := newModel(p, tally.log)
	answers, err2 := newAnswers(t, p)
	waits, err3 := newWaits(p)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	form, err := newForm(p, answers.schema)
	if err != nil {
		return nil, err
	}
	return &drafter{
		declared: p, model: model, answers: answers, form: form, waits: waits, prompt: promptVersion(p.Prompt),
		schema: "sha256:" + canonical.Hash(answers.schema).String(), tally: tally, now: time.Now, pause: sleep,
	}, nil
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

// draft holds one conversation about one run.
func (d *drafter) draft(ctx context.Context, t *client.Task) (contracts.Proposal, error) {
	m, err := d.gather(t.Event.Body)
	if err != nil {
		return contracts.Proposal{}, err
	}
	shown, err := d.declared.Prompt.Render(m.records)
	if err != nil {
		return contracts.Proposal{}, failure(client.Failure{Class: contracts.FailedInternal},
			"the prompt cannot be filled in: %v", err)
	}
	talk := &conversation{prompt: shown}
	used := &spent{began: d.now(), fails: map[class]int{}}
	last := failed(refused, "")
	for {
		body, err := d.form.request(talk)
		if err != nil {
			return contracts.Proposal{}, err
		}
		if why := d.exceeds(used, body); why != "" {
			return contracts.Proposal{}, d.giveUp(last, used, why)
		}
		said, r := d.ask(ctx, body, m, used)
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

// turn is what a model said, and what it drafted where that is valid.
type turn struct {
	reply

	draft *draftOf
}

// ask makes one call, judges it, and counts it.
func (d *drafter) ask(ctx context.Context, body []byte, m *material, used *spent) (turn, result) {
	used.calls++
	var said turn
	r := d.model.call(ctx, body)
	if r.class == answered {
		said.reply, r = readReply(r.body)
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
	rule := matrix[r.class]
	switch rule.again {
	case repaired:
		if used.fails[r.class] > d.declared.Repair {
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
	f := matrix[last.class].then
	f.RetryAfter = min(last.retryAfter, longestRetryAfter)
	switch {
	case used.calls == 0:
		return failure(f, "the model was not asked: %s", why)
	case why != "":
		why = "; " + why
	}
	return failure(f, "after %d calls of the model: %s%s", used.calls, last.detail, why)
}

// finish says which model drafted what, and by which of our texts (M5).
func (d *drafter) finish(said turn, m *material, used *spent) contracts.Proposal {
	p := said.draft.complete(m.proposal)
	p.Model = &contracts.Model{
		ProviderClass: d.declared.ProviderClass, Name: cmp.Or(said.model, d.declared.Model),
		Revision:      cmp.Or(d.declared.Revision, said.fingerprint),
		PromptVersion: d.prompt, SchemaVersion: d.schema, Attempts: used.calls, Validation: contracts.ValidationValid,
	}
	if used.fails[invalid] > 0 {
		p.Model.Validation = contracts.ValidationRepaired
	}
	return p
}
