package approval

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// desk settles what could not be settled by reading, under the operator's Postgres role: the approval's own cannot make these moves
// (D1).
type desk struct {
	ledger *ledger.Ledger
	pool   *pgxpool.Pool
}

// deskConns are enough for people: each resolution is one short transaction.
const deskConns = 2

// openDesk is nil where there is no login to do it under.
func openDesk(ctx context.Context, url string) (*desk, error) {
	if url == "" {
		return nil, nil
	}
	pool, err := postgres.Open(ctx, postgres.PoolConfig{URL: url, Role: "holdpoint_" + ledger.Operator, MaxConns: deskConns,
		ApplicationName: "holdpoint-approval-desk"})
	if err != nil {
		return nil, fmt.Errorf("HOLDPOINT_APPROVAL_OPERATOR_DATABASE_URL: %w", err)
	}
	l, err := ledger.New(ledger.Config{Pool: pool, Service: ledger.Operator})
	return &desk{l, pool}, err
}

func (d *desk) close() {
	if d != nil {
		d.pool.Close()
	}
}

const (
	// deskUnknownFor is how long the reconciler has before what is unknown is somebody's: it has asked the provider seven times by then.
	deskUnknownFor = time.Minute
	// longestID of a provider, in characters.
	longestID = 500
	// recentResolver is how long ago the sign-in of somebody may be who has an irreversible action sent again, where the action says
	// nothing.
	recentResolver = 15 * time.Minute
)

// resolvers are the roles of which one settles effects of a type.
func (t *tenant) resolvers(actionType string) []string {
	if action := t.action(actionType); action != nil {
		return action.Resolve.By()
	}
	return []string{roleOperator}
}

// resolves reports whether a person may see and settle effects of a type.
func (t *tenant) resolves(who *identity, actionType string) bool {
	return !who.disabled(t) && who.holds(t, t.resolvers(actionType))
}

// deskScopes are what a person may see of all desks; none where there is none for them.
func (a *Approval) deskScopes(who *identity) []ledger.DeskScope {
	var scopes []ledger.DeskScope
	for _, id := range slices.Sorted(maps.Keys(a.tenants)) {
		t := a.tenant(id)
		if who.disabled(t) {
			continue
		}
		if who.holds(t, []string{roleOperator}) {
			scopes = append(scopes, ledger.DeskScope{TenantID: id})
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(t.actions)) {
			if t.resolves(who, kind) {
				scopes = append(scopes, ledger.DeskScope{TenantID: id, ActionType: kind})
			}
		}
	}
	return scopes
}

// deskCase reads one effect that the person may settle. To anybody else it does not exist.
func (a *Approval) deskCase(ctx context.Context, who *identity, operationID string) (*tenant, *ledger.DeskCase, error) {
	c, err := a.env.Ledger.DeskCase(ctx, operationID)
	if err != nil {
		return nil, nil, err
	}
	t := a.tenant(c.TenantID)
	if t == nil || !t.resolves(who, c.ActionType) {
		return nil, nil, ledger.ErrNoOperation
	}
	return t, c, nil
}

// ownerOf is who answers for an action type, "" where the configuration does not have it any more.
func (t *tenant) ownerOf(actionType string) string {
	if action := t.action(actionType); action != nil {
		return action.Owner
	}
	return ""
}

// takesTwo reports whether another person has to confirm that the effect was not done.
func (t *tenant) takesTwo(c *ledger.DeskItem) bool {
	return outcome.TakesTwo(t.action(c.ActionType), t.Operation(c.Connector, c.Operation), c.MaybeSent, c.FirstSentAt, c.Now)
}

// resolution is what a person says of an effect, as a channel received it.
type resolution struct {
	CommandID  uuid.UUID
	Move       string // one of the ledger's, or withdraw
	ExternalID string
	Evidence   string
	Reason     string
	Seen       string    // of the case, as the person was shown it
	Proposal   uuid.UUID // that is confirmed or withdrawn, uuid.Nil for a resolution of their own
	PageDigest []byte    // of the page, nil through the API
}

// withdrawProposal is the move that takes a proposal back.
const withdrawProposal = "withdraw"

var resolutions = []string{"confirm_done", "confirm_not_done", "dispute", "give_up", withdrawProposal}

// mayResolve says why a person may not settle the effect, or not like this. Everything is looked at when it is done, not when the page
// was shown (A4). The precedence is:
//
//  1. what the provider said is too old to go by;
//  2. no role that settles it, or a second account of somebody;
//  3. to confirm another's proposal: their own, of any account, or a run that they asked for (A5);
//  4. the sign-in is too long ago to have such an action sent again;
//  5. the reason, the provider's id or the address of the evidence is missing or wrong.
func (a *Approval) mayResolve(who *identity, t *tenant, c *ledger.DeskCase, r *resolution) *refusal {
	if !slices.Contains(resolutions, r.Move) {
		return &refusal{codeBadDecision, "A resolution is " + strings.Join(resolutions, ", ") + "."}
	}
	if no := a.fresh(who, c.Now); no != nil {
		return no
	}
	if !t.resolves(who, c.ActionType) {
		return &refusal{codeWrongRole, "This is settled by " + strings.Join(t.resolvers(c.ActionType), " or ") + ", which is no role of yours."}
	}
	if who.secondAccount(t) != nil {
		return &refusal{codeSecond, "Holdpoint knows you by another account. Sign in with that one."}
	}
	if r.Proposal != uuid.Nil && r.Move != withdrawProposal {
		if no := t.mayConfirm(who, c); no != nil {
			return no
		}
	}
	if limit := t.recentFor(c.ActionType); r.Move == "confirm_not_done" && limit > 0 && c.Now.Sub(who.SignedInAt) > limit {
		return &refusal{codeStepUp, fmt.Sprintf("Prove again who you are: to have this sent again needs a sign-in within the last %s.", limit)}
	}
	return r.check()
}

// mayConfirm says why the person is not the second one who confirms what is proposed.
func (t *tenant) mayConfirm(who *identity, c *ledger.DeskCase) *refusal {
	p := c.Proposal()
	if p != nil && (who.Issuer == p.Issuer && who.Subject == p.Subject || who.id(t) == p.By || who.answersTo(t, p.By)) {
		return &refusal{codeOwnRequest, "You proposed this, so another person has to confirm it. You may withdraw it."}
	}
	card := &ledger.Card{ApprovalSummary: ledger.ApprovalSummary{RequestedBy: c.RequestedBy}, SentBy: c.SentBy}
	if c.CorrectedBy != "" {
		card.Corrects = &ledger.CorrectionView{By: c.CorrectedBy}
	}
	if t.asked(who, card) {
		return &refusal{codeOwnRequest, "You asked for this, or corrected it, so somebody else has to confirm that it is sent again."}
	}
	return nil
}

// recentFor is how long ago the sign-in of somebody may be who has an action sent again, 0 where it does not matter: what is done twice
// and cannot be undone is the harm that the operator's word can do.
func (t *tenant) recentFor(actionType string) time.Duration {
	action := t.action(actionType)
	switch {
	case action == nil:
		return recentResolver
	case action.Reversible && action.Risk != config.RiskHigh:
		return 0
	}
	return cmp.Or(action.Review.RecentSignIn, recentResolver)
}

func (r *resolution) check() *refusal {
	switch {
	case r.Move == withdrawProposal:
		return nil
	case r.Move == "confirm_done" && !says(r.ExternalID):
		return &refusal{codeReason, "Give the provider's id of what was done: it is the evidence."}
	case utf8.RuneCountInString(r.ExternalID) > longestID:
		return &refusal{codeReasonLong, fmt.Sprintf("The provider's id is longer than %d characters.", longestID)}
	case r.Evidence != "" && (webAddress(r.Evidence) == "" || len(r.Evidence) > longestReason):
		return &refusal{codeReason, "The evidence is the http or https address of what shows it, or is left out."}
	}
	return checkWhy(r.Reason, "Say what you found out and where, in your own words.")
}

// codeNoDesk refuses a resolution where this service has no login to make it under.
const codeNoDesk = "no_desk"

// resolve settles an effect for a person, or has it wait for a second one. What is withdrawn is answered as made.
func (a *Approval) resolve(ctx context.Context, who *identity, t *tenant, c *ledger.DeskCase, r resolution) (ledger.Resolved, error) {
	no := a.mayResolve(who, t, c, &r)
	if no == nil && a.desk == nil {
		no = &refusal{codeNoDesk, "This installation settles effects by the command line alone: holdpoint resolve " + c.OperationID()}
	}
	if no != nil {
		a.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", t.ID), attribute.String("code", no.Code)))
		a.env.Log.Warn("a resolution was refused", "tenant", t.ID, "operation", c.OperationID(), "by", who.id(t), "code", no.Code)
		return ledger.Resolved{}, no
	}
	if r.Move == withdrawProposal {
		return a.withdrawProposal(ctx, who, t, c, r.Proposal)
	}
	done, err := a.desk.ledger.Resolve(ctx, ledger.Resolution{CommandID: r.CommandID, EffectKey: c.EffectKey, Move: r.Move,
		ExternalID: strings.TrimSpace(r.ExternalID), Evidence: r.Evidence, Reason: strings.TrimSpace(r.Reason), Seen: r.Seen,
		By: t.reviewer(who, capacity{}), Channel: who.Channel, PageDigest: r.PageDigest, Confirms: r.Proposal,
		TwoPeople: r.Move == "confirm_not_done" && t.takesTwo(&c.DeskItem)})
	if err != nil {
		return done, err
	}
	if done.Made() {
		a.env.WakeRelay()
		a.env.Log.Warn("an effect was settled by hand", "tenant", t.ID, "operation", c.OperationID(), "move", r.Move, "by", who.id(t))
	}
	return done, nil
}

func (a *Approval) withdrawProposal(ctx context.Context, who *identity, t *tenant, c *ledger.DeskCase, proposal uuid.UUID) (
	ledger.Resolved, error) {
	done := ledger.Resolved{Result: ledger.ResolvedNoProposal, State: c.State, HoldReason: c.HoldReason, ExternalID: c.ExternalID}
	gone, err := a.desk.ledger.WithdrawResolution(ctx, c.EffectKey, proposal, who.id(t))
	if gone {
		done.Result = ledger.ResolvedMade
	}
	return done, err
}

// whyUnresolved tells somebody whose resolution did not settle the effect what stands.
func whyUnresolved(r *ledger.Resolved) string {
	switch r.Result {
	case ledger.ResolvedWaits:
		return "Another proposal waits for a second person: " + toldOf(r.Stands) + ". Confirm it, or withdraw it first."
	case ledger.ResolvedNoProposal:
		return "There is no such proposal any more: it was withdrawn or has lapsed, or the effect has changed since."
	case ledger.ResolvedSamePerson:
		return "Whoever proposed it does not confirm it: another person has to."
	case ledger.ResolvedChanged:
		return "The effect has changed since you were shown it: it is " + stateWords(r) + ". Look at it again."
	case ledger.ResolvedNeverResent:
		return "The provider says that it is done, and its target does not hold it, so it is never sent again. Confirm it done, dispute it " +
			"or give it up, and put the target right by a correction."
	}
	stands := "It is settled already: it is " + stateWords(r)
	if r.Stands != nil {
		stands += ", after " + toldOf(r.Stands)
	}
	return stands + ". Nothing was changed by you."
}

func stateWords(r *ledger.Resolved) string {
	words := human(r.State)
	if r.HoldReason != "" {
		words += " (" + human(r.HoldReason) + ")"
	}
	if r.ExternalID != "" {
		words += ", and the provider calls it " + r.ExternalID
	}
	return words
}

// toldOf is one resolution in words: what, by whom and when.
func toldOf(v *ledger.ResolutionView) string {
	if v == nil {
		return "nothing that is recorded"
	}
	by, at := v.By, v.ProposedAt
	if v.Second != nil {
		by += " and " + *v.Second
	}
	if v.MadeAt != nil {
		at = *v.MadeAt
	}
	return human(v.Move) + " by " + by + " at " + at.UTC().Format(time.RFC1123)
}
