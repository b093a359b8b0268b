package approval

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// step is one line of the timeline: when, who, in plain words, and the facts behind it (O1).
type step struct {
	At     time.Time
	Actor  string
	What   string // words of ours alone
	Said   string // a reason or note of somebody's, "" where there is none
	Detail string // the facts as they are recorded
}

func stepsOf(steps []ledger.Step) []step {
	told := make([]step, len(steps))
	for i, s := range steps {
		f := factsIn(s.Facts)
		told[i] = step{At: s.At, Actor: actorName(s), What: wordsOf(s, f), Said: f.first("reason", "note", "detail", "evidence"),
			Detail: factsOf(s.Facts)}
	}
	return told
}

// actorName calls services by what they do.
func actorName(s ledger.Step) string {
	if name := actorNames[s.Actor]; name != "" {
		return name
	}
	if s.Actor == "" {
		return "the proposer"
	}
	return s.Actor
}

var actorNames = map[string]string{
	ledger.Intake: "intake", ledger.Policy: "the rules", ledger.Approval: "the approval service", ledger.Dispatcher: "the dispatcher",
	ledger.Reconciler: "the reconciler", ledger.Relay: "the relay", ledger.Operator: "an operator",
}

// facts are the members of a step's facts.
type facts map[string]any

func factsIn(raw json.RawMessage) facts {
	var f facts
	_ = json.Unmarshal(raw, &f) // null and what is no object have none
	return f
}

// text of a member, "" where it has none.
func (f facts) text(name string) string {
	if f[name] == nil || f[name] == "" {
		return ""
	}
	return fmt.Sprint(f[name])
}

func (f facts) first(names ...string) string {
	for _, name := range names {
		if said := f.text(name); said != "" {
			return said
		}
	}
	return ""
}

// targetWords are for reads of a target after a write.
var targetWords = map[string]string{
	string(connector.Matched): "Read the target: it holds what was written",
	string(connector.Differs): "Read the target: it does not hold what was written",
	string(connector.MovedOn): "Read the target: somebody else has changed it since",
}

// wordsOf says what a step was. What is not on the list is told by its name, so that nothing is left out.
func wordsOf(s ledger.Step, f facts) string {
	switch s.What {
	case ledger.StepPropose:
		return "Proposed the change" + ifSaid(", revision ", f.text("revision"))
	case ledger.StepTell:
		if f.text("kind") == ledger.NoticeBreakGlass {
			return "Told people that it was approved alone (break-glass)"
		}
		return "Told the reviewers of the " + human(f.text("kind"))
	case ledger.StepSend:
		return "Began attempt " + f.text("attempt") + " to carry it out"
	case ledger.StepAnswer:
		return "Attempt " + f.text("attempt") + " came to: " + human(f.text("class")) + statusWords(f.text("http_status")) + receiptWords(f)
	case ledger.StepLook:
		if words := targetWords[f.text("verdict")]; words != "" {
			return words
		}
		return "Looked whether it was done: " + human(f.text("verdict")) + receiptWords(f)
	case ledger.StepHear:
		return "Told by itself: " + human(f.text("status")) + ", which is " + human(f.text("state")) + receiptWords(f)
	case "authorize", "ask_human", "deny":
		return stepWords[s.What] + ifSaid(", by policy version ", brief(f.text("policy_version")))
	case "approve":
		if f.text("decision") == ledger.BreakGlass {
			return "Approved it alone (break-glass), and it is queued"
		}
	case "vote":
		return "Approved it; more people have to approve (" + f.text("votes") + " of " + f.text("quorum") + ")"
	}
	words, known := stepWords[s.What]
	if !known {
		words = strings.ToUpper(s.What[:min(1, len(s.What))]) + human(s.What[min(1, len(s.What)):])
	}
	return words + receiptWords(f)
}

func ifSaid(before, said string) string {
	if said == "" {
		return ""
	}
	return before + said
}

func statusWords(status string) string {
	if status == "" || status == "0" {
		return ""
	}
	return " (HTTP " + status + ")"
}

func receiptWords(f facts) string {
	return ifSaid("; the provider's receipt is ", f.text("external_id"))
}

// brief is the beginning of a digest, which is enough to tell two apart.
func brief(digest string) string {
	if len(digest) > 12 && strings.Trim(digest, "0123456789abcdef") == "" {
		return digest[:12]
	}
	return digest
}

// stepWords are the ledger's moves in plain words (pkg/ledger/moves.go).
var stepWords = map[string]string{
	"claim":               "Took the event up: its key is claimed, and no second delivery starts anything",
	"reclaim":             "Gave the work to another worker, because the lease had ended",
	"take":                "Gave the work to a worker",
	"renew":               "The worker works on",
	"submit":              "The worker handed its proposal in",
	"fail_retryable":      "The worker gave the work back, to be tried again",
	"fail_terminal":       "The worker gave up, and the run ended",
	"exhaust":             "Stopped: all attempts are used up",
	"conflict":            "The same key came again with another content, which changed nothing",
	"authorize":           "Let it be carried out without a person",
	"ask_human":           "Asked for a person's decision",
	"deny":                "Refused it, and the run ended",
	"approve":             "Approved it, and it is queued",
	"reject":              "Rejected it, and the run ended",
	"repair":              "Sent the proposal back to whoever made it, for a better one",
	"send_back":           "Sent the proposal back to whoever made it, for a better one",
	"put_back":            "The worker gave the work back, and another may bring the better proposal",
	"lapse":               "Nobody brought a better proposal in time, and the run ended",
	"take_back":           "Took it back before anything was sent, and the run ended",
	"judge_sample":        "Looked at it afterwards and said whether it was right",
	"judge_glass":         "Looked at what was approved alone and said whether it was right",
	"withdraw":            "Withdrew the request, and the run ended",
	"expire":              "Time ran out",
	"refuse_vote":         "Tried to decide and was turned away",
	"remind":              "Reminded those who were told",
	"escalate":            "More people may decide from now on",
	"succeed":             "It is done",
	"accept":              "The provider has accepted it and finishes it later",
	"retry":               "It was not carried out, and is tried again",
	"lose":                "The answer was lost: nobody knows yet whether it was done",
	"hold":                "Stopped: an operator has to look",
	"refuse":              "The provider refused it, and the run ended",
	"review":              "Sent back to people before anything was sent, because something has changed",
	"expire_lease":        "The sender fell silent: nobody knows yet whether it was done",
	"find":                "Found out that it was done",
	"verify":              "Was told that it is done; its target is read before that counts",
	"verify_found":        "Found out that it was done; its target is read before that counts",
	"confirm":             "Takes it as done",
	"mismatch":            "Held it, because the target does not hold what was written",
	"late_success":        "A former sender reported that it was done",
	"doubt":               "It may have been sent: nobody knows yet whether it was done",
	"retry_same_key":      "It is sent again under the same key, which the provider knows",
	"prove_absent":        "Found out that it was not done; it is tried again",
	"overdue":             "The provider has not finished it in time: its outcome is looked for",
	"report_success":      "The provider told that it was done",
	"report_failure":      "The provider told that it failed, and the run ended",
	"suspect":             "Stopped: the provider told that it was done though nothing was sent, and an operator has to look",
	"incident":            "Stopped: the provider has more than one of it, and an operator has to look",
	"confirm_done":        "Settled it as done",
	"confirm_not_done":    "Settled it as not done; it is tried again",
	"drop":                "Took it off the queue unsent, because something of an earlier stage failed",
	"dispute":             "Disputed the provider's answer",
	"give_up":             "Gave it up, and the run ended",
	"recall":              "Held it, because somebody has recalled its draft",
	"release":             "Let it go, because the recall of its draft was lifted",
	"propose_resolution":  "Says what became of it; another person has to confirm that",
	"withdraw_resolution": "Withdrew what was said to have become of it",
}
