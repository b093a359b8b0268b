package approval

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// watch answers a page that asks whether it still says what is. It keeps nothing of the session, so that a page which is left open
// does not keep its person signed in, and what is told once is left for the next page.
func (w *web) watch(look func(*http.Request, *identity) (etag string, now any, err error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.headers(rw.Header())
		ctx, err := w.loadSession(r)
		if err != nil {
			w.a.env.Log.Error("a session could not be read", "error", err)
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		who := w.visitor(ctx)
		if who == nil {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		etag, now, err := look(r.WithContext(ctx), who)
		if err != nil {
			rw.WriteHeader(w.failure(err).Status)
			return
		}
		rw.Header().Set("ETag", `"`+etag+`"`)
		if r.Header.Get("If-None-Match") == `"`+etag+`"` {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		text, _ := json.Marshal(now) // texts and numbers always marshal
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(text) // whoever asked is gone, and asks again
	}
}

// queueState is which lines the queue's page would have now.
func (w *web) queueState(r *http.Request, who *identity) (string, any, error) {
	v, err := w.queueOf(r, who)
	if err != nil {
		return "", nil, err
	}
	rows := v.marks()
	return v.digest(), map[string]any{"count": len(rows), "rows": rows}, nil
}

// cardState is what has become of one request, in words.
func (w *web) cardState(r *http.Request, who *identity) (string, any, error) {
	_, card, err := w.find(r, who)
	if err != nil {
		return "", nil, err
	}
	return cardMark(card), map[string]any{"text": became(card, strings.HasPrefix(r.Header.Get("If-None-Match"), `"pending.`))}, nil
}

// cardMark changes when the request has been decided, voted on, or looked at afterwards, or has run on.
func cardMark(card *ledger.Card) string {
	mark := fmt.Sprintf("%s.%d.%s.%s", stateNow(&card.ApprovalSummary), len(card.Cast), card.RunState, ledger.ExecutionStatus(card.Effects))
	if card.Glass != nil {
		mark += "." + card.Glass.Verdict
	}
	return url.PathEscape(mark)
}

// became says where a request stands, to somebody whose page showed it as waiting, or as decided already.
func became(card *ledger.Card, waited bool) string {
	state := stateNow(&card.ApprovalSummary)
	switch {
	case state == ledger.ApprovalPending:
		return "Somebody has voted on this request since it was shown: " + plural(approvals(card.Cast), "approval") + " by now."
	case !waited:
		return "There is news of this request."
	}
	var names []string
	for _, c := range card.Cast {
		names = append(names, plainly(c.ReviewerID))
	}
	if len(names) == 0 {
		return "This request does not wait any more: it is " + human(state) + "."
	}
	return "This request was decided elsewhere: " + human(state) + " by " + strings.Join(names, ", ") + "."
}
