package approval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// refusal is why somebody may not decide, or not like this. It is a result: recorded, counted and told.
type refusal struct {
	Code   string
	Detail string // for the person
}

func (r *refusal) Error() string { return r.Detail }

// Codes of refusals; the API's problems have the same.
const (
	codeSignInAgain = "sign_in_again"  // the claims are too old to read roles from
	codeStepUp      = "step_up"        // the action asks for a more recent sign-in
	codeDisabled    = "disabled"       // the configuration has the person disabled
	codeSecond      = "second_account" // the configuration knows the person by another account
	codeWrongRole   = "wrong_role"     // no role of the audience
	codeUnqualified = "not_qualified"  // not the qualified professional that the action asks for (P5)
	codeOwnRequest  = "own_request"    // separation of duties
	codeRemoved     = "removed"        // the action or its source is not configured any more
	codeNoRounds    = "no_rounds"      // it was sent back as often as it may be
	codeNotYourLink = "not_your_link"  // the link was sent to somebody else
	codeReason      = "reason_missing" // a reason has to be typed
	codeReasonLong  = "reason_too_long"
	codeBadDecision = "bad_decision"
	codeNoGlass     = "no_break_glass"  // nobody may approve it alone, or nobody has
	codeOwnGlass    = "own_break_glass" // whoever approved alone does not judge it
	codeNotByLink   = "not_by_link"     // no link lets somebody approve alone (A2)
)

// longestReason is in characters, as the ledger stores it.
const longestReason = 2000

// want is a decision that somebody asks to make.
type want struct {
	Decision  string
	Reason    string
	Recipient string // of the link that led here: channel and address, "" without a link
	Link      bool   // a link's token came with it, whosever it is
	Together  bool   // with decisions about other requests
}

// approves reports whether the decision lets something be sent.
func (w want) approves() bool { return w.Decision == ledger.Approve || w.Decision == ledger.BreakGlass }

var decisions = []string{ledger.Approve, ledger.Reject, ledger.SendBack, ledger.BreakGlass}

// mayDecide says whether a person may make a decision, or why not. Everything is looked at when the decision is made, not when
// the page was shown (A4). The precedence is:
//
//  1. what the provider said is too old to go by;
//  2. the person is disabled;
//  3. no role of the audience, of their own or of somebody they decide for, and to approve alone none of their own that lets them;
//     not qualified; or a second account of somebody;
//  4. an approval of their own request, or of that of who they decide for, alone or not; rejecting it is always theirs;
//  5. an approval of what the configuration does not have any more;
//  6. sending back what was sent back as often as it may be;
//  7. the link was another person's, or any link where they approve alone;
//  8. the sign-in is too long ago for this action;
//  9. the reason is missing.
func (t *tenant) mayDecide(who *identity, card *ledger.Card, w want, rolesMaxAge time.Duration) *refusal {
	rule := t.termsOf(card)
	switch {
	case !slices.Contains(decisions, w.Decision):
		return &refusal{codeBadDecision, "A decision is " + strings.Join(decisions[:3], ", ") + " or " + decisions[3] + "."}
	case w.Together && w.Decision == ledger.BreakGlass:
		return &refusal{codeBadDecision, "Nobody approves alone for several requests at once: open each."}
	}
	if card.Now.Sub(who.ClaimsAt) > rolesMaxAge {
		return &refusal{codeSignInAgain, fmt.Sprintf("Sign in again: roles are read from a sign-in that is at most %s old.", rolesMaxAge)}
	}
	if who.disabled(t) {
		return &refusal{codeDisabled, "You may not decide any more. Ask whoever keeps Holdpoint's configuration."}
	}
	if w.Decision == ledger.BreakGlass {
		if _, no := t.breaks(who, card); no != nil {
			return no
		}
		rule = rule.alone(t.breakGlass(card.ActionType))
	} else if len(t.capacities(who, card)) == 0 {
		return wrongRole(card)
	}
	if rule.Profession != "" && !slices.Contains(t.QualificationsOf(who.person(t), who.Claims), rule.Profession) {
		return &refusal{codeUnqualified, "This needs somebody qualified in: " + rule.Profession + "."}
	}
	if p := who.secondAccount(t); p != nil {
		return &refusal{codeSecond, "Holdpoint knows " + p.ID + " by another account. Sign in with that one, or ask whoever keeps " +
			"Holdpoint's configuration."}
	}
	if w.approves() && t.asked(who, card) {
		return &refusal{codeOwnRequest, "You asked for this, or corrected it, so somebody else has to approve it. You may reject it."}
	}
	if _, no := t.capacityFor(who, card, w.Decision); no != nil {
		return no
	}
	if w.approves() && (t.action(card.ActionType) == nil || t.sources[card.Source] == nil) {
		return &refusal{codeRemoved, "The configuration does not have this action, or this source, any more, so nobody can say what " +
			"approving it takes. You may reject it."}
	}
	if w.Decision == ledger.SendBack && !t.revisions(card).Left(card.Revision) {
		return &refusal{codeNoRounds, "It was sent back as often as it may be. You may approve or reject it."}
	}
	if !t.sentTo(who, w.Recipient) {
		return &refusal{codeNotYourLink, "This link was sent to somebody else. Decide from your own queue."}
	}
	if w.Link && w.Decision == ledger.BreakGlass {
		return &refusal{codeNotByLink, "No link lets anybody approve alone: a message may be read by others. Decide from your own queue."}
	}
	if rule.RecentSignIn > 0 && card.Now.Sub(who.SignedInAt) > rule.RecentSignIn {
		return &refusal{codeStepUp, fmt.Sprintf("Prove again who you are: this needs a sign-in within the last %s.", rule.RecentSignIn)}
	}
	return rule.checkReason(w)
}

func wrongRole(card *ledger.Card) *refusal {
	return &refusal{codeWrongRole, "This is decided by " + strings.Join(card.Audience, " or ") + ", which is no role of yours."}
}

func (rule terms) checkReason(w want) *refusal {
	reason := strings.TrimSpace(w.Reason)
	switch {
	case utf8.RuneCountInString(reason) > longestReason:
		return tooLong()
	case says(reason):
		return nil
	case w.Decision == ledger.SendBack:
		return &refusal{codeReason, "Say what has to be better: whoever proposed it is told."}
	case w.Decision == ledger.Reject:
		return &refusal{codeReason, "Say why: whoever asked is told, and the run ends with it."}
	case w.Decision == ledger.BreakGlass:
		return &refusal{codeReason, "Say why it cannot wait for the others: they look at it afterwards."}
	case rule.TypedReason:
		return &refusal{codeReason, "Say why, in your own words: this action asks for a typed reason."}
	}
	return nil
}

// says reports whether a text has anything that can be seen.
func says(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsSpace(r) && !unseen(r) })
}

func tooLong() *refusal {
	return &refusal{codeReasonLong, fmt.Sprintf("The reason is longer than %d characters.", longestReason)}
}

// asked reports whether the person asked for the action, corrected it, or answers for the program that did (A5).
func (t *tenant) asked(who *identity, card *ledger.Card) bool {
	if who.answersTo(t, card.RequestedBy) || card.Corrects != nil && who.answersTo(t, card.Corrects.By) {
		return true
	}
	p := who.person(t)
	return p != nil && p.ID == t.owners[card.SentBy]
}

// mayWithdraw reports whether the person may take the request back: whoever asked, whoever answers for the program that did, and
// operators; nobody who is disabled.
func (t *tenant) mayWithdraw(who *identity, card *ledger.Card) bool {
	if who.disabled(t) {
		return false
	}
	p := who.person(t)
	return who.holds(t, []string{roleOperator}) || who.is(t, card.RequestedBy) || (p != nil && p.ID == t.owners[card.SentBy])
}

// sentTo reports whether a link's recipient may be the person. An address that belongs to nobody in particular, such as a
// team's mailbox, is everybody's.
func (t *tenant) sentTo(who *identity, recipient string) bool {
	_, address, _ := strings.Cut(recipient, " ")
	owner := t.PersonByAlias(address)
	if address == "" || owner == nil {
		return true
	}
	mine := who.person(t)
	return mine != nil && mine.ID == owner.ID
}

// authority is what the decision relied on, as it is stored with it (A4).
func (t *tenant) authority(who *identity, c capacity) []byte {
	facts := map[string]any{
		"roles": who.roles(t), "qualifications": t.QualificationsOf(who.person(t), who.Claims), "issuer": who.Issuer,
		"subject": who.Subject, "name": who.Name, "email": who.Email,
		"signed_in_at": who.SignedInAt, "claims_at": who.ClaimsAt, "configuration_person": personID(who.person(t)),
		"claims": t.roleClaims(who.Claims),
	}
	if c.For != nil {
		facts["for"] = map[string]any{"person": c.For.ID, "roles": c.Roles, "starts": c.By.Starts, "ends": c.By.Ends, "reason": c.By.Reason}
	}
	text, _ := json.Marshal(facts) // strings and times always marshal
	return text
}

// roleClaims are the claims that roles are read from, and no others.
func (t *tenant) roleClaims(claims map[string]any) map[string]any {
	kept := map[string]any{}
	for _, role := range t.Roles {
		for name := range role.Claims {
			if value, ok := claims[name]; ok {
				kept[name] = value
			}
		}
	}
	return kept
}

func personID(p *config.Person) string {
	if p == nil {
		return ""
	}
	return p.ID
}
