package world_test

import (
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// panel is who decides in a fixture, and by what rules (A16, A18).
type panel struct {
	name  string
	rules func(*config.Tenant) // who must approve, of every action that support leads decide
	batch bool                 // decisions are made many to a call
	first []string             // whose approvals do not suffice yet, in their order
	last  string               // whose approval is the one that was missing
	as    string               // the reviewer that the record has for it
	// byMail approves by the link of a mail while inQueue rejects.
	byMail, inQueue string
	// unseen has no say and sees nothing; seen may look, and is refused with the status.
	unseen, seen string
	status       int
}

// panels are the ways in which people release something. Each fixture runs before all of them.
var panels = []panel{
	{name: "OneReviewer", rules: func(*config.Tenant) {}, last: "nora", as: "nora", byMail: "nora", inQueue: "sam",
		unseen: "carl", seen: "otto", status: http.StatusForbidden},
	{name: "Quorum", rules: func(t *config.Tenant) {
		roleOf(t, "support-lead").Claims = map[string][]string{"groups": {"support-leads", "sales-ops"}} // dora is the third
		leadsReview(t, func(r *config.ReviewRule) { r.Quorum = 2 })
	}, first: []string{"sam"}, last: "nora", as: "nora", byMail: "nora", inQueue: "dora",
		unseen: "carl", seen: "otto", status: http.StatusForbidden},
	{name: "Delegation", rules: func(t *config.Tenant) {
		roleOf(t, "support-lead").Members = []string{"nora", "sam"}
		t.Delegations = []*config.Delegation{{From: "nora", To: "carl", Starts: time.Now().Add(-time.Hour), Ends: time.Now().Add(time.Hour),
			Reason: "Leave."}}
	}, last: "carl", as: "carl for nora", byMail: "sam", inQueue: "carl",
		unseen: "dora", seen: "otto", status: http.StatusForbidden},
	{name: "Stages", rules: func(t *config.Tenant) {
		leadsReview(t, func(r *config.ReviewRule) {
			r.Stages = []config.Stage{{Groups: []config.Group{{Role: "support-lead", Approvals: 1}}},
				{Groups: []config.Group{{Role: "operator", Approvals: 1}}}}
		})
		for _, a := range t.Actions {
			if slices.Contains(a.Audience, "support-lead") {
				a.Audience = []string{"support-lead", "operator"}
			}
		}
		mail := t.Channels[0]
		mail.Roles, mail.Email.To = append(mail.Roles, "operator"), append(mail.Email.To, "otto@example.test")
	}, first: []string{"nora"}, last: "otto", as: "otto", byMail: "otto", inQueue: "sam",
		unseen: "carl", seen: "sam", status: http.StatusConflict}, // a lead has approved; another one is not needed
	{name: "Batch", rules: func(*config.Tenant) {}, batch: true, last: "nora", as: "nora", byMail: "nora", inQueue: "sam",
		unseen: "carl", seen: "otto", status: http.StatusForbidden},
}

func roleOf(t *config.Tenant, name string) *config.Role {
	i := slices.IndexFunc(t.Roles, func(r *config.Role) bool { return r.Name == name })
	return t.Roles[i]
}

// leadsReview changes the review of whatever support leads decide.
func leadsReview(t *config.Tenant, change func(*config.ReviewRule)) {
	for _, a := range t.Actions {
		if slices.Contains(a.Audience, "support-lead") {
			change(&a.Review)
		}
	}
}

// world starts one in which the panel's rules hold.
func (p *panel) world(t *testing.T, options ...world.Option) *world.World {
	t.Helper()
	return world.New(t, append(options, world.WithConfig(func(c *config.Config) { p.rules(c.Tenants[0]) }))...)
}

// waiting posts a refund over the threshold and waits until people are asked.
func (p *panel) waiting(t *testing.T, options ...world.Option) (*world.World, world.Event) {
	t.Helper()
	w := p.world(t, options...)
	event := w.Refund("250.00")
	require.Nil(t, w.Post(event).Problem)
	w.Await(event, contracts.StateAwaitingHuman)
	return w, event
}

// decide makes a decision in the panel's way.
func (p *panel) decide(r *world.Reviewer, card contracts.ApprovalCard, token, decision, reason string) (int, contracts.DecisionAnswer) {
	if p.batch {
		return r.DecideInBatch(card, token, decision, reason)
	}
	return r.DecideWith(card, token, decision, reason)
}

// begin has all approve but the last, which moves nothing, and returns the last one's sign-in and what they are shown.
func (p *panel) begin(t *testing.T, w *world.World, e world.Event) (*world.Reviewer, contracts.ApprovalCard) {
	t.Helper()
	for _, login := range p.first {
		one := w.SignIn(login)
		status, answer := p.decide(one, one.Card(e), "", ledger.Approve, "one of them")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, ledger.VoteCounted, answer.Result)
		require.Equal(t, contracts.StateAwaitingHuman, w.State(e))
	}
	last := w.SignIn(p.last)
	return last, last.Card(e)
}

// finish has the last one decide, after the others.
func (p *panel) finish(t *testing.T, w *world.World, e world.Event, decision, reason string) (int, contracts.DecisionAnswer) {
	t.Helper()
	last, card := p.begin(t, w, e)
	return p.decide(last, card, "", decision, reason)
}

// mailed is the token of the link that somebody was sent.
func mailed(t *testing.T, w *world.World, login string) string {
	t.Helper()
	mails, err := w.Sandbox.AwaitMail(t.Context(), login+"@example.test", 1)
	require.NoError(t, err)
	return regexp.MustCompile(`/l/([A-Za-z0-9_-]{43})`).FindStringSubmatch(mails[0].Text)[1]
}
