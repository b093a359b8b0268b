package connector

import (
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Receipt is what an executor reports of one attempt. Its texts come from outside.
type Receipt struct {
	Status        outcome.Class
	ExternalID    string
	RecordVersion string
	Detail        string
	RetryAfter    time.Duration
}

// Receipts are the classes that an executor can know. in_progress_at_provider is not among them: an executor that waits for
// its own provider has nothing to report yet.
var Receipts = []outcome.Class{
	outcome.Succeeded, outcome.Accepted, outcome.Refused, outcome.NotSent, outcome.RejectedBusy, outcome.VersionConflict,
	outcome.Unauthorized, outcome.KeyReused, outcome.Ambiguous,
}

// Result is what the receipt means. leave says whether leave to write was given. An executor that says that it wrote nothing
// is believed, and so is one that says that it wrote without leave: the write is there.
func (r Receipt) Result(leave bool) Result {
	result := Result{
		Class: r.Status, Sent: r.Status.MaybeSent() || (leave && r.Status != outcome.NotSent),
		ExternalID: printable(r.ExternalID, maxID), RecordVersion: printable(r.RecordVersion, maxID),
		Unfinished: r.Status == outcome.Accepted || r.Status == outcome.Ambiguous,
	}
	if r.Status == outcome.NotSent || r.Status == outcome.RejectedBusy {
		result.RetryAfter = r.RetryAfter
	}
	said := fmt.Sprintf("the executor reported %s", r.Status)
	if !leave && r.Status.MaybeSent() {
		said += " without having asked leave"
	}
	if r.Detail != "" {
		said += ": " + r.Detail
	}
	result.Detail = detail("%s", said)
	return result
}

// Silent is the result of an attempt whose executor was given leave and has not reported within so long.
func Silent(within time.Duration) Result {
	return Result{Class: outcome.Ambiguous, Sent: true, Unfinished: true,
		Detail: detail("leave was given, and the executor did not report within %s", within)}
}

// NotSent is the result of an attempt in which nothing was written, and nothing can be any more.
func NotSent(err error) Result { return notSent(err) }
