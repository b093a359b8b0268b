package approval

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// apiDesk lists what waits for an operator, narrowed by the query as the page is: kind, connector, tenant, sort, after.
func (a *Approval) apiDesk(w http.ResponseWriter, r *http.Request, who *identity) {
	q := deskAskOf(r.URL.Query())
	f, ok := q.filter(a.deskScopes(who))
	switch {
	case !ok:
		a.problem(w, contracts.CodeBadQuery, "after must be the next of a page before.")
		return
	case len(a.deskScopes(who)) == 0:
		a.problem(w, contracts.CodeForbidden, "Effects are settled by "+roleOperator+", or by a role that the action type names; none is yours.")
		return
	}
	sums, err := a.env.Ledger.DeskSums(r.Context(), f)
	if err != nil {
		a.failed(w, err)
		return
	}
	list, err := a.env.Ledger.Desk(r.Context(), f)
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.DeskList{Sums: make([]contracts.DeskSum, len(sums)), Items: []contracts.DeskItem{}}
	for i, s := range sums {
		answer.Sums[i] = contracts.DeskSum{TenantID: s.TenantID, Kind: s.Kind, ActionType: s.ActionType, Connector: s.Connector,
			Owner: a.tenant(s.TenantID).ownerOf(s.ActionType), Count: s.Count, Oldest: s.Oldest, Amount: s.Amount, Currency: s.Currency}
	}
	if len(list) > listedOnPage {
		list = list[:listedOnPage]
		answer.Next = deskMark(list[listedOnPage-1].Mark())
	}
	for i := range list {
		answer.Items = append(answer.Items, a.deskItem(&list[i]))
	}
	a.answer(w, http.StatusOK, answer)
}

func (a *Approval) deskItem(i *ledger.DeskItem) contracts.DeskItem {
	return contracts.DeskItem{OperationID: i.OperationID(), TenantID: i.TenantID, RunID: i.RunID.String(), IdempotencyKey: i.Key,
		CorrelationID: i.CorrelationID, ActionType: i.ActionType, Connector: i.Connector, Operation: i.Operation,
		Target: contracts.ApprovalTarget{System: i.TargetSystem, RecordID: i.TargetRecord}, Owner: a.tenant(i.TenantID).ownerOf(i.ActionType),
		Kind: i.Kind, State: i.State, HoldReason: i.HoldReason, Seen: i.Seen(), Since: i.Since, ExecuteBy: i.ExecuteBy, Attempts: i.Attempts,
		Lookups: i.Lookups, LastClass: i.LastClass, LastDetail: i.LastDetail, LastVerdict: i.LastVerdict, ExternalID: i.ExternalID,
		MaybeSent: i.MaybeSent, FirstSentAt: orNone(i.FirstSentAt), Amount: i.Amount, Currency: i.Currency}
}

func orNone(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

func (a *Approval) apiDeskCase(w http.ResponseWriter, r *http.Request, who *identity) {
	t, c, err := a.deskCase(r.Context(), who, r.PathValue("operation"))
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.DeskCase{DeskItem: a.deskItem(&c.DeskItem), RequestedBy: c.RequestedBy, IntentHash: c.IntentHash.String(),
		Intent: c.Canonical, RunState: c.RunState, SecondPerson: t.takesTwo(&c.DeskItem),
		AttemptsMade: make([]contracts.DeskAttempt, len(c.Tried)), LookupsMade: make([]contracts.DeskLookup, len(c.Looks)),
		ResolutionsMade: make([]contracts.DeskResolution, len(c.Resolutions))}
	for i, t := range c.Tried {
		answer.AttemptsMade[i] = contracts.DeskAttempt(t)
	}
	for i, l := range c.Looks {
		answer.LookupsMade[i] = contracts.DeskLookup(l)
	}
	for _, e := range c.Told {
		answer.ProviderEvents = append(answer.ProviderEvents, contracts.DeskEvent(e))
	}
	for i := range c.Resolutions {
		answer.ResolutionsMade[i] = *resolutionOf(&c.Resolutions[i])
	}
	a.answer(w, http.StatusOK, answer)
}

func resolutionOf(v *ledger.ResolutionView) *contracts.DeskResolution {
	if v == nil {
		return nil
	}
	return &contracts.DeskResolution{ResolutionID: v.ID.String(), Move: v.Move, By: v.By, Reason: v.Reason, ExternalID: v.ExternalID,
		Evidence: v.Evidence, Channel: v.Channel, ProposedAt: v.ProposedAt, LapsesAt: v.LapsesAt, WithdrawnAt: v.WithdrawnAt,
		WithdrawnBy: text0(v.WithdrawnBy), SecondPerson: text0(v.Second), SecondReason: text0(v.SecondSaid), MadeAt: v.MadeAt}
}

// apiResolve settles an effect. The Idempotency-Key header, where it is sent, makes a repeated call the same resolution.
func (a *Approval) apiResolve(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.ResolutionRequest
	if !a.read(w, r, maxBody, &body) {
		return
	}
	t, c, err := a.deskCase(r.Context(), who, r.PathValue("operation"))
	if err != nil {
		a.failed(w, err)
		return
	}
	said := resolution{CommandID: commandID(r, who, c.RunID), Move: body.Move, ExternalID: body.ExternalID, Evidence: body.Evidence,
		Reason: body.Reason, Seen: body.Seen}
	if body.ProposalID != "" {
		said.Proposal, err = uuid.Parse(body.ProposalID)
	}
	if err != nil || body.Seen == "" {
		a.problem(w, contracts.CodeSchemaInvalid, "seen must be what the case says, and proposal_id one of its resolutions.")
		return
	}
	done, err := a.resolve(r.Context(), who, t, c, said)
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.ResolutionAnswer{OperationID: c.OperationID(), Resolution: done.Result, State: done.State, HoldReason: done.HoldReason,
		ExternalID: done.ExternalID, Stands: resolutionOf(done.Stands)}
	if done.Made() || done.Result == ledger.ResolvedProposed {
		a.answer(w, http.StatusOK, answer)
		return
	}
	p := contracts.NewProblem(contracts.CodeNotDecided, whyUnresolved(&done))
	a.write(w, p.Status, contracts.ProblemContentType, struct {
		*contracts.Problem
		contracts.ResolutionAnswer
	}{p, answer})
}
