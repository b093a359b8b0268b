package sandbox

import (
	"net/http"
	"time"
)

// duplicateSuffix marks the second id under which lookup_duplicate shows a match.
const duplicateSuffix = "_duplicate"

// itemsView is what every search answers.
type itemsView struct {
	Items []any `json:"items"`
}

// refer sets the caller's reference from the body, which goes before the header.
func (x *exchange) refer(reference string) {
	if reference != "" {
		x.call.reference = reference
	}
}

func (x *exchange) personality() Personality { return x.server.personalityOf(x.call.system) }

// search answers the writes of the system with the asked reference, as far as its index shows them.
func (x *exchange) search(view func(w *Write, copied bool) any) {
	x.refer(x.r.URL.Query().Get("reference"))
	if x.call.reference == "" {
		x.refuse(badRequest("a search needs ?reference="))
		return
	}
	x.answerSearch(view, func() ([]*Write, error) {
		return x.server.ledger.find(Filter{Reference: x.call.reference, System: x.call.system})
	})
}

func (x *exchange) answerSearch(view func(w *Write, copied bool) any, find func() ([]*Write, error)) {
	if items, ok := x.matches(view, find); ok {
		x.finish(http.StatusOK, itemsView{items})
	}
}

// matches are what a search shows; false where it has been answered otherwise.
func (x *exchange) matches(view func(w *Write, copied bool) any, find func() ([]*Write, error)) ([]any, bool) {
	if !x.begin() {
		return nil, false
	}
	x.pause()
	if x.personality().NoLookup {
		x.refuse(&problem{http.StatusNotImplemented, "lookup_unsupported", "this provider has no search"})
		return nil, false
	}
	found, err := find()
	if err != nil {
		x.refuse(unavailable(err))
		return nil, false
	}
	items := []any{}
	for _, w := range x.visible(found) {
		items = append(items, view(w, false))
		if x.plan.duplicate {
			items = append(items, view(w, true))
		}
	}
	return items, true
}

// visible leaves out what a lagging index does not show yet.
func (x *exchange) visible(found []*Write) []*Write {
	lag := max(time.Duration(x.personality().IndexLag), x.plan.lag)
	now := x.server.cfg.Now()
	var seen []*Write
	for _, w := range found {
		if !x.plan.empty && now.Sub(w.Time) >= lag {
			seen = append(seen, w)
		}
	}
	return seen
}
