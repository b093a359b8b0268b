package approval

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"
)

// nextPage leads to the request that waits for the person the longest, other than one.
func (w *web) nextPage(r *http.Request, who *identity) *reply {
	not, _ := uuid.Parse(r.URL.Query().Get("not")) // what is no id is nothing to leave out
	next, _, err := w.waiting(r.Context(), who, not)
	if err != nil {
		return w.failure(err)
	}
	return seeOther(next)
}

// waiting is where the next request is that waits for the person, other than one, and how many do, in words; the queue, and "",
// where none does.
func (w *web) waiting(ctx context.Context, who *identity, not uuid.UUID) (path, count string, err error) {
	rows, more, err := w.look(ctx, who, asked{}, "pending", lookedAt)
	if err != nil {
		return "", "", err
	}
	mine, _ := sift(slices.DeleteFunc(rows, func(row queueRow) bool { return row.ApprovalID == not }))
	if len(mine) == 0 {
		return "/", "", nil
	}
	if count = fmt.Sprint(len(mine)); more {
		count = "at least " + count
	}
	return "/approvals/" + mine[0].ApprovalID.String(), count, nil
}

// tellNext puts the way to the next request beside what is told on the next page. That it cannot be found now is no reason not
// to tell of a decision.
func (w *web) tellNext(ctx context.Context, who *identity, kind, said string, not uuid.UUID) {
	f := flash{Kind: kind, Text: said}
	switch _, count, err := w.waiting(ctx, who, not); {
	case err != nil:
		w.a.env.Log.Warn("the next request cannot be named now", "error", err)
	case count == "":
		f.Link, f.Label = "/", "Nothing else waits for you"
	default:
		f.Link, f.Label = "/next?"+url.Values{"not": {not.String()}}.Encode(), "Next request ("+count+" waiting)"
	}
	w.keepFlash(ctx, f)
}
