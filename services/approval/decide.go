package approval

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// ballot is a decision as a channel received it.
type ballot struct {
	CommandID  uuid.UUID
	Tenant     *tenant
	Card       *ledger.Card
	Decision   string
	Reason     string
	Shown      canonical.Digest // the intent hash that the person was shown
	PageDigest []byte           // of the page, nil through the API
	Seen       ledger.Readings  // what the page showed of the targets, nil where it showed nothing
	Token      string           // that led here, "" where none did
	Together   bool             // with decisions about other requests
}

// decide makes one decision for a person, whatever the channel: first whether they may, then the ledger's transaction (A7). A
// refusal is audited; nothing moves by it.
func (a *Approval) decide(ctx context.Context, who *identity, b ballot) (ledger.Voted, error) {
	w := want{Decision: b.Decision, Reason: b.Reason, Link: b.Token != "", Together: b.Together}
	var hash []byte
	if b.Token != "" {
		hash = tokenHash(b.Token)
		token, err := a.env.Ledger.FindToken(ctx, hash)
		switch {
		case errors.Is(err, ledger.ErrNoToken) || (err == nil && token.ApprovalID != b.Card.ApprovalID):
			// The ledger looks again under the lock, after the state of the approval: who lost a race is told who won.
		case err != nil:
			return ledger.Voted{}, err
		default:
			w.Recipient = token.Recipient
		}
	}
	if no := b.Tenant.mayDecide(who, b.Card, w, a.settings.RolesMaxAge); no != nil {
		a.refused(ctx, who, &b, no)
		return ledger.Voted{}, no
	}
	right, no := b.Tenant.capacityFor(who, b.Card, b.Decision)
	if no != nil {
		return ledger.Voted{}, no // mayDecide has said so, on the same card
	}
	rule := b.Tenant.termsOf(b.Card)
	actions, err := intent.ReadActions(b.Card.Canonical, b.Card.IntentHash)
	if err != nil {
		return ledger.Voted{}, fmt.Errorf("read the intent of approval %s: %w", b.Card.ApprovalID, err)
	}
	vote := ledger.Vote{
		CommandID: b.CommandID, TenantID: b.Card.TenantID, RunID: b.Card.RunID, ApprovalID: b.Card.ApprovalID,
		Decision: b.Decision, Reason: strings.TrimSpace(b.Reason), Channel: who.Channel, Shown: b.Shown, PageDigest: b.PageDigest, Seen: b.Seen,
		Token: hash, Terms: rule.Kept, Quorum: rule.Least, Reviewer: b.Tenant.reviewer(who, right),
		Revisions: b.Tenant.revisions(b.Card),
	}
	for _, s := range actions {
		vote.Effects, vote.Draws = append(vote.Effects, s.Effect(b.Tenant.Tenant)), append(vote.Draws, a.draws(b.Tenant, s)...)
	}
	if b.Decision == ledger.BreakGlass {
		vote.Glass = a.glass(b.Tenant, b.Card)
	}
	voted, err := a.votes.Do(ctx, vote)
	if err != nil {
		return ledger.Voted{}, err
	}
	if b.Decision == ledger.BreakGlass && voted.Result == ledger.VoteApproved {
		a.env.Log.Warn("somebody approved alone (break-glass)", "tenant", b.Card.TenantID, "approval", b.Card.ApprovalID, "run", b.Card.RunID,
			"by", vote.Reviewer.ID, "review_within", vote.Glass.ReviewWithin)
	}
	a.decisions.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", b.Card.TenantID),
		attribute.String("decision", b.Decision), attribute.String("result", voted.Result), attribute.String("channel", who.Channel)))
	return voted, nil
}

// draws are what the effect takes of its action type's limits. A person has seen what it is, so that one which cannot be counted is
// not stopped by that.
func (a *Approval) draws(t *tenant, s *intent.Snapshot) []ledger.Draw {
	action := t.action(s.ActionType)
	if action == nil {
		return nil
	}
	draws, err := s.Draws(action)
	if err != nil {
		a.env.Log.Warn("an approved effect cannot be counted against a limit", "tenant", t.ID, "key", s.RunKey, "error", err)
	}
	return draws
}

// refused keeps who was turned away, and why. That an attempt could not be recorded does not let it through.
func (a *Approval) refused(ctx context.Context, who *identity, b *ballot, no *refusal) {
	a.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", b.Card.TenantID), attribute.String("code", no.Code)))
	a.env.Log.Warn("a decision was refused", "tenant", b.Card.TenantID, "approval", b.Card.ApprovalID, "reviewer", who.id(b.Tenant),
		"code", no.Code)
	decision := b.Decision
	if no.Code == codeBadDecision {
		decision = "" // of whatever length: it is nobody's word but the caller's
	}
	err := a.env.Ledger.RecordRefusal(ctx, ledger.Refused{TenantID: b.Card.TenantID, RunID: b.Card.RunID, ApprovalID: b.Card.ApprovalID,
		By: who.id(b.Tenant), Issuer: who.Issuer, Subject: who.Subject, Decision: decision, Code: no.Code, Channel: who.Channel})
	if err != nil {
		a.env.Log.Error("a refused decision could not be recorded", "approval", b.Card.ApprovalID, "error", err)
	}
}

// tokenHash is how the ledger knows a token (A2).
func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// visible reports whether a person may see an approval: its audience and who decides for one of it, operators of the tenant, whoever
// may approve it alone, and whoever asked; nobody who is disabled.
func (t *tenant) visible(who *identity, card *ledger.ApprovalSummary) bool {
	if who.disabled(t) {
		return false
	}
	if glass := t.breakGlass(card.ActionType); glass != nil && who.holds(t, glass.Roles) {
		return true
	}
	return who.holds(t, card.Audience) || who.holds(t, []string{roleOperator}) || who.is(t, card.RequestedBy) ||
		t.actsFor(who, card.Audience, card.Now)
}

// roleOperator may see every approval of the tenant and withdraw one; it decides only where it is in the audience.
const roleOperator = config.RoleOperator

// cardFor reads an approval that the person may see. To anybody else it does not exist.
func (a *Approval) cardFor(ctx context.Context, who *identity, id uuid.UUID) (*tenant, *ledger.Card, error) {
	card, err := a.env.Ledger.Card(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	t := a.tenant(card.TenantID)
	if t == nil || !t.visible(who, &card.ApprovalSummary) && !t.looksAt(who, card) {
		return nil, nil, ledger.ErrNoApproval
	}
	return t, card, nil
}

// looksAt reports whether the card was approved alone and the person is of those who look at it afterwards, whatever the configuration
// lets by now.
func (t *tenant) looksAt(who *identity, card *ledger.Card) bool {
	return card.Glass != nil && !who.disabled(t) && who.holds(t, card.Glass.Audience)
}

// withdraw takes a request back: whoever asked may, and an operator.
func (a *Approval) withdraw(ctx context.Context, who *identity, t *tenant, card *ledger.Card, reason string) (ledger.Voted, error) {
	b := ballot{Tenant: t, Card: card, Decision: "withdraw"}
	switch {
	case card.Now.Sub(who.ClaimsAt) > a.settings.RolesMaxAge:
		return ledger.Voted{}, &refusal{codeSignInAgain, "Sign in again: roles are read from a recent sign-in."}
	case !t.mayWithdraw(who, card):
		no := &refusal{codeWrongRole, "Whoever asked for this may withdraw it, and an operator."}
		a.refused(ctx, who, &b, no)
		return ledger.Voted{}, no
	case !says(reason):
		return ledger.Voted{}, &refusal{codeReason, "Say why: the run ends with it."}
	case utf8.RuneCountInString(strings.TrimSpace(reason)) > longestReason:
		return ledger.Voted{}, tooLong()
	}
	return a.env.Ledger.Withdraw(ctx, ledger.Withdrawal{TenantID: card.TenantID, RunID: card.RunID, ApprovalID: card.ApprovalID,
		By: who.id(t), Reason: strings.TrimSpace(reason)})
}
