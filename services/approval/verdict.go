package approval

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// verdict is what a person says of what was done without them, as a channel received it: a sample of what a rule let act (P4), or what
// somebody approved alone (A16).
type verdict struct {
	CommandID  uuid.UUID
	SampleID   uuid.UUID // uuid.Nil of what was approved alone
	Verdict    string
	Reason     string
	PageDigest []byte // of the page, nil through the API
}

// known refuses what is neither right nor wrong.
func (v *verdict) known() *refusal {
	if v.Verdict != ledger.VerdictRight && v.Verdict != ledger.VerdictWrong {
		return &refusal{codeBadDecision, "A verdict is right or wrong."}
	}
	return nil
}

// said wants a reason where it was wrong; missing is what else the person is told.
func (v *verdict) said(missing string) *refusal {
	switch {
	case v.Verdict == ledger.VerdictWrong:
		return checkWhy(v.Reason, missing)
	case utf8.RuneCountInString(strings.TrimSpace(v.Reason)) > longestReason:
		return tooLong()
	}
	return nil
}

// standsVerdict says that another verdict stands.
func standsVerdict(by, verdict string) string {
	return by + " has said " + verdict + " already; that stands."
}

// onPage takes the page that the person was shown last into the verdict, or says why that was not what they judge. hash is of what
// they judge now.
func (v *verdict) onPage(page shown, found bool, hash string) (problem string) {
	switch {
	case !found || page.Hash != hash:
		return "This is not the page that you were shown last. Nothing was recorded: look at it as it is now."
	case page.Cut && v.Verdict == ledger.VerdictRight:
		return "A value was not shown whole. Nothing was recorded: open the full values first."
	}
	return ""
}

// notRecorded tells why somebody may not, on the page that they come from, which keeps what was typed.
func (w *web) notRecorded(err error, here string, page func(status int, problem string) *reply) *reply {
	var no *refusal
	if !errors.As(err, &no) {
		return w.failure(err)
	}
	status := http.StatusForbidden
	switch no.Code {
	case codeSignInAgain:
		return tell(http.StatusForbidden, notice{Heading: "Sign in again", Text: no.Detail + " Nothing was recorded yet.",
			Link: signInPath(here, false), Label: "Sign in again"})
	case codeReason, codeReasonLong, codeBadDecision:
		status = http.StatusUnprocessableEntity
	}
	return page(status, no.Detail+" Nothing was recorded.")
}
