package world_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// printed names the fixture and the versions that it ran under.
func printed(t *testing.T, w *world.World, e world.Event) {
	t.Helper()
	record := w.Explain(e)
	require.NotEmpty(t, record.Decisions[0].Version)
	require.NotEmpty(t, record.Intents[0].Intent.WorkflowVersion)
	t.Logf("%s: workflow %s, policy %s", t.Name(), record.Intents[0].Intent.WorkflowVersion, record.Decisions[0].Version)
}

// TestApprovalFixtures are the stories of the human gate, each from an event to its end, on the whole system and before each panel.
func TestApprovalFixtures(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(*testing.T, *panel){
		"ApprovedOnce": approvedOnce, "RejectedWithReason": rejectedWithReason, "Expired": expired,
		"UnauthorisedReviewer": unauthorisedReviewer, "DuplicateCallback": duplicateCallback,
		"RacingApproveAndRejectFromTwoChannels": racingChannels, "TargetChangedAfterReview": targetChanged,
		"PolicyChangedAfterReview": policyChanged, "ProviderTimeoutBeforeReceipt": providerTimeout,
		"NotificationFailedWhileTheRecordStands": notificationFailed, "Repair": repaired,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range panels {
				t.Run(panels[i].name, func(t *testing.T) {
					t.Parallel()
					story(t, &panels[i])
				})
			}
		})
	}
}

func approvedOnce(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	asked := w.AwaitTold(event, contracts.TypeApprovalRequested).Data.(*contracts.ApprovalRequested)
	require.Equal(t, []string{contracts.RequestNew, "payment.refund"}, []string{asked.Kind, asked.ActionType})
	status, answer := p.finish(t, w, event, ledger.Approve, "The ticket shows a double charge.")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, ledger.VoteApproved, answer.Result)
	w.Await(event, contracts.StateCompleted)
	require.Len(t, w.Writes(event), 1)
	record := w.Explain(event)
	require.Equal(t, "rita@example.test", record.Run.RequestedBy, "who asked is kept (A5)")
	require.Equal(t, "demo", record.Run.SentBy, "and the API key that brought it in")
	reviews := record.Approvals[0].Reviews
	require.Len(t, reviews, len(p.first)+1)
	last := reviews[len(p.first)]
	require.Equal(t, world.Review{Decision: "approve", ReviewerID: p.as, IntentHash: last.IntentHash,
		Reason: "The ticket shows a double charge.", Channel: "api"}, last)
	var told []string
	for _, e := range w.AwaitToldAll(event, contracts.TypeApprovalDecided, len(reviews)) {
		data := e.Data.(*contracts.ApprovalDecided)
		require.Equal(t, data.ReviewerID == p.as, data.Final, "only the last vote decides")
		told = append(told, data.ReviewerID)
	}
	require.ElementsMatch(t, append(slices.Clone(p.first), p.as), told)
	printed(t, w, event)
}

func rejectedWithReason(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	last, card := p.begin(t, w, event)
	status, _ := p.decide(last, card, "", ledger.Reject, "")
	require.Equal(t, http.StatusUnprocessableEntity, status, "whoever asked is told why")
	status, _ = p.decide(last, card, "", ledger.Reject, "The charge was right.")
	require.Equal(t, http.StatusOK, status)
	w.Await(event, contracts.StateFailedTerminal)
	told := w.AwaitTold(event, contracts.TypeRunEnded).Data.(*contracts.RunEnded)
	require.Equal(t, ledger.OutcomeRejected, told.Outcome)
	require.Contains(t, told.Reason, "Rejected by "+p.as+": The charge was right.")
	passBy(w)
	require.Empty(t, w.Writes(event))
	require.Empty(t, w.Explain(event).Effects)
	printed(t, w, event)
}

func expired(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	last, card := p.begin(t, w, event)
	w.Exec(`update approvals set decide_by = clock_timestamp()`)
	w.Await(event, contracts.StateFailedTerminal)
	require.Equal(t, ledger.OutcomeExpired, w.Explain(event).Run.Outcome)
	status, answer := p.decide(last, card, "", ledger.Approve, "too late")
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, ledger.VoteLate, answer.Result)
	require.Equal(t, ledger.ApprovalExpired, answer.Status)
	passBy(w)
	require.Empty(t, w.Writes(event))
	printed(t, w, event)
}

func unauthorisedReviewer(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	_, card := p.begin(t, w, event)
	approves := func(login string) int {
		status, _ := p.decide(w.SignIn(login), card, "", ledger.Approve, "why not")
		return status
	}
	require.Equal(t, http.StatusNotFound, approves(p.unseen), "to who may not see it, it does not exist")
	require.Equal(t, p.status, approves(p.seen))
	require.Equal(t, http.StatusForbidden, approves("rita"), "it is her own request")
	require.Equal(t, contracts.StateAwaitingHuman, w.State(event))
	refused := int64(1)
	if p.status == http.StatusForbidden {
		refused++
	}
	require.Equal(t, refused, w.Count(`select count(*) from audit_events where move = 'refuse_vote' and run_id = $1`, event.RunID()))
	require.EqualValues(t, len(p.first), w.Count(`select count(*) from reviews`))
	printed(t, w, event)
}

func duplicateCallback(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	last, card := p.begin(t, w, event)
	counts := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			status, _ := p.decide(last, card, "", ledger.Approve, "yes")
			mu.Lock()
			counts[status]++
			mu.Unlock()
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusConflict: 49}, counts)
	w.Await(event, contracts.StateCompleted)
	require.Len(t, w.Writes(event), 1)
	require.EqualValues(t, len(p.first)+1, w.Count(`select count(*) from reviews`))
	printed(t, w, event)
}

func racingChannels(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	token := mailed(t, w, p.byMail)
	_, card := p.begin(t, w, event)
	mail, queue := w.SignIn(p.byMail), w.SignIn(p.inQueue)
	var byMail, byQueue contracts.DecisionAnswer
	var both sync.WaitGroup
	both.Go(func() { _, byMail = p.decide(mail, card, token, ledger.Approve, "from the mail") })
	both.Go(func() { _, byQueue = p.decide(queue, card, "", ledger.Reject, "from the queue") })
	both.Wait()
	results := []string{byMail.Result, byQueue.Result}
	require.Contains(t, results, ledger.VoteLate, "one of them is told what stands")
	require.Equal(t, byMail.Status, byQueue.Status, "both are told the same state")
	w.Until("its end", func() bool {
		state := w.State(event)
		return state == contracts.StateCompleted || state == contracts.StateFailedTerminal
	})
	require.Len(t, w.Writes(event), map[string]int{ledger.ApprovalApproved: 1, ledger.ApprovalRejected: 0}[byMail.Status])
	require.Zero(t, w.Count(`select count(*) from approval_tokens where spent_at is null`))
	printed(t, w, event)
}

func targetChanged(t *testing.T, p *panel) {
	w := p.world(t, world.WithReplicas(ledger.Dispatcher, 0), world.WithConfig(leadsDecideContacts))
	event := w.Update()
	w.Post(event)
	w.Await(event, contracts.StateAwaitingHuman)
	status, answer := p.finish(t, w, event, ledger.Approve, "yes")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, ledger.VoteApproved, answer.Result)
	edit(t, w, event)
	w.Start(ledger.Dispatcher)
	w.Await(event, contracts.StateAwaitingHuman)
	record := w.Explain(event)
	require.Equal(t, []string{"approved", "pending"}, []string{record.Approvals[0].State, record.Approvals[1].State})
	requireReason(t, record.Approvals[1].Reasons, "target_changed", "at version 2; the proposal was made from version 1")
	require.Empty(t, w.Writes(event))
	status, _ = p.finish(t, w, event, ledger.Reject, "It is another contact now.")
	require.Equal(t, http.StatusOK, status)
	w.Await(event, contracts.StateFailedTerminal)
	require.Equal(t, ledger.EffectCancelled, w.Explain(event).Effects[0].State)
	require.Empty(t, w.Writes(event))
	printed(t, w, event)
}

func policyChanged(t *testing.T, p *panel) {
	w, event := p.waiting(t, world.WithReplicas(ledger.Dispatcher, 0))
	_, answer := p.finish(t, w, event, ledger.Approve, "yes")
	require.Equal(t, ledger.VoteApproved, answer.Result)
	w.Configure(func(c *config.Config) {
		c.Tenants[0].Rules = append(c.Tenants[0].Rules, &config.Rule{ID: "freeze", Action: "payment.refund", When: "true",
			Route: config.RouteReject, Reason: "Refunds are frozen."})
	})
	w.Start(ledger.Dispatcher)
	w.Await(event, contracts.StateAwaitingHuman)
	record := w.Explain(event)
	requireReason(t, record.Approvals[1].Reasons, "rule_matched", "Refunds are frozen.")
	passBy(w)
	require.Empty(t, w.Writes(event))
	printed(t, w, event)
}

func providerTimeout(t *testing.T, p *panel) {
	w, event := p.waiting(t)
	w.Fault(sandbox.Rule{Match: sandbox.Match{Reference: event.OperationID(), Nth: 1}, Fault: sandbox.Fault{Kind: sandbox.AcceptThenHang}})
	_, answer := p.finish(t, w, event, ledger.Approve, "yes")
	require.Equal(t, ledger.VoteApproved, answer.Result)
	w.Await(event, contracts.StateCompleted)
	effect := w.Explain(event).Effects[0]
	require.Equal(t, "ambiguous", world.Calls(effect.Attempts)[0].Class)
	require.Equal(t, "found", effect.Lookups[len(effect.Lookups)-1].Verdict)
	require.Len(t, w.Writes(event), 1)
	printed(t, w, event)
}

func notificationFailed(t *testing.T, p *panel) { // A1
	w := p.world(t)
	w.Fault(sandbox.Rule{Match: sandbox.Match{System: sandbox.Mailbox, PerReference: true, Nth: 1},
		Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 451}},
		sandbox.Rule{Match: sandbox.Match{System: sandbox.Webhooks}, Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500}})
	event := w.Refund("250.00")
	w.Post(event)
	w.Await(event, contracts.StateAwaitingHuman)
	for _, to := range []string{"nora", "sam"} {
		require.NotEmpty(t, mailed(t, w, to), "told at the second attempt")
	}
	record := w.Explain(event)
	require.Len(t, record.Approvals, 1, "a repeated notification makes no second request")
	require.Equal(t, "pending", record.Approvals[0].State)
	_, answer := p.finish(t, w, event, ledger.Approve, "yes")
	require.Equal(t, ledger.VoteApproved, answer.Result, "the hook that never worked is in nobody's way")
	w.Await(event, contracts.StateCompleted)
	printed(t, w, event)
}

func repaired(t *testing.T, p *panel) {
	w := p.world(t, world.WithConfig(func(c *config.Config) {
		c.Tenants[0].Rules = append(c.Tenants[0].Rules, &config.Rule{ID: "say-more", Action: "payment.refund", When: "true",
			Route: config.RouteRepair, Reason: "Name the ticket in the refund."})
	}))
	event := w.Refund("50.00")
	w.Post(event)
	back := w.AwaitTold(event, contracts.TypeRunSentBack).Data.(*contracts.RunSentBack)
	require.Equal(t, []any{1, "policy"}, []any{back.IntentRevision, back.SentBy})
	require.Contains(t, back.Reason, "Name the ticket in the refund.")
	worker := w.Worker()
	better := w.Refund("60.00").Body.(map[string]any)["proposal"]
	require.Equal(t, contracts.ResultAccepted, worker.Propose(event, worker.Take(event.Source), better).Result)
	w.Await(event, contracts.StateFailedTerminal) // one better proposal is taken, and this rule wants yet another
	told := w.AwaitTold(event, contracts.TypeRunEnded).Data.(*contracts.RunEnded)
	require.Equal(t, ledger.OutcomeInvalid, told.Outcome)
	require.Contains(t, told.Reason, "Name the ticket in the refund.")
	require.Empty(t, w.Explain(event).Approvals, "nobody is asked about what its sender has to mend")
	printed(t, w, event)
}

// leadsDecideContacts sends every change of a contact to the support leads.
func leadsDecideContacts(c *config.Config) {
	t := c.Tenants[0]
	for _, a := range t.Actions {
		if a.Type == "crm.contact.update" {
			a.Audience = []string{"support-lead"}
		}
	}
	t.Rules = append(t.Rules, &config.Rule{ID: "ask", Action: "crm.contact.update", When: "true", Route: config.RouteHumanReview,
		Reason: "Leads look at contacts."})
}

// TestExecuteBy: an approval that was not carried out in time goes back to people (A14), who may approve it again.
func TestExecuteBy(t *testing.T) {
	t.Parallel()
	w, event := panels[0].waiting(t, world.WithReplicas(ledger.Dispatcher, 0))
	nora := w.SignIn("nora")
	_, answer := nora.Decide(event, ledger.Approve, "yes")
	require.Equal(t, ledger.VoteApproved, answer.Result)
	w.Exec(`update effects set execute_by = clock_timestamp()`)
	w.Await(event, contracts.StateAwaitingHuman)
	requireReason(t, w.Explain(event).Approvals[1].Reasons, "execute_by_passed", "nothing was sent")
	_, answer = nora.Decide(event, ledger.Approve, "still yes")
	require.Equal(t, ledger.VoteApproved, answer.Result)
	w.Start(ledger.Dispatcher)
	w.Await(event, contracts.StateCompleted)
	require.Len(t, w.Writes(event), 1)
	require.Len(t, w.Explain(event).Effects, 1, "the same row was authorized again (D2)")
}

// TestReviewUnderMisfortune is the journey through people while the wires fail and the services fall over.
func TestReviewUnderMisfortune(t *testing.T) {
	t.Parallel()
	for name, luck := range map[string]world.Luck{
		"MessagesAreDuplicatedDroppedAndReordered": {Duplicate: 0.2, Drop: 0.05, Reorder: 0.2},
		"ConnectionsAreCut":                        {CutBroker: 60, CutDatabase: 40, Cuts: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.WithLuck(luck))
			decideAll(t, w, func(int) {})
		})
	}
	t.Run("ApprovalServiceCrashes", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		decideAll(t, w, func(i int) {
			if i%4 == 3 {
				w.Crash(ledger.Approval)
				w.Start(ledger.Approval)
			}
		})
	})
}

// decideAll takes refunds through people, approving two of three, and holds the sandbox's ledger against it.
func decideAll(t *testing.T, w *world.World, between func(i int)) {
	t.Helper()
	const refunds = 12
	nora := w.SignIn("nora")
	var events []world.Event
	for range refunds {
		events = append(events, w.Refund("250.00"))
	}
	stored := w.Depart(events)
	for i, e := range events {
		w.Await(e, contracts.StateAwaitingHuman)
		decision, want := ledger.Approve, 1
		if i%3 == 2 {
			decision, want = ledger.Reject, 0
		}
		nora.Decide(e, decision, "decided under misfortune")
		between(i)
		w.Until("the end of "+e.Key, func() bool {
			state := w.State(e)
			return state == contracts.StateCompleted || state == contracts.StateFailedTerminal
		})
		require.Len(t, w.Writes(e), want, decision)
	}
	stored()
	require.EqualValues(t, refunds, w.Count(`select count(*) from reviews`))
	w.Until("every notification", func() bool {
		return w.Count(`select count(*) from notifications where state = 'waiting'`) == 0
	})
}
