package sandbox

import (
	"net/http"
	"regexp"
	"time"
)

// Hook is one webhook that the sandbox received, playing an integrator's endpoint.
type Hook struct {
	ID         uint64    `json:"id,omitempty"` // 1, 2, 3, … in order of arrival; repeats of one event included
	Name       string    `json:"name"`         // of the endpoint, from the path
	ReceivedAt time.Time `json:"received_at"`
	// Header holds Webhook-Id, Webhook-Timestamp, Webhook-Signature (standardwebhooks.com) and Content-Type, as far as
	// they were sent. With Body it is what a signature is checked against.
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"` // as it arrived; JSON writes it in base64
}

// hookHeaders are the header fields that are kept.
var hookHeaders = []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Content-Type"}

var hookName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// weight is about what a hook takes in memory.
func (h *Hook) weight() int {
	bytes := len(h.Body) + 1024
	for _, values := range h.Header {
		for _, value := range values {
			bytes += len(value)
		}
	}
	return bytes
}

// receiveHook stores a webhook under the endpoint's name and answers 204 once it is on disk. A rule's reference is the
// Webhook-Id here.
func receiveHook(x *exchange) {
	if !x.readBody() {
		return
	}
	hook := Hook{Name: x.r.PathValue("name"), Header: http.Header{}, Body: x.body}
	if !hookName.MatchString(hook.Name) {
		x.refuse(badRequest("an endpoint's name has 1 to 100 letters, digits, dots, dashes and underscores"))
		return
	}
	for _, field := range hookHeaders {
		if values := x.r.Header.Values(field); len(values) > 0 {
			hook.Header[field] = values
		}
	}
	x.refer(hook.Header.Get("Webhook-Id"))
	if x.begin() {
		x.pause()
		x.storeHook(hook)
	}
}

func (x *exchange) storeHook(hook Hook) {
	hook.ReceivedAt = x.server.cfg.Now().UTC()
	id, err := x.server.inbox.hooks.put(hook)
	if err != nil {
		x.refuse(unavailable(err))
		return
	}
	hook.ID = id
	x.server.signal(x.plan.signals, x.call.reference, hook)
	if x.plan.after != nil {
		x.finish(http.StatusOK, hook) // a body to cut short; the other faults do not look at it
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

func showHook(e entry[Hook]) Hook {
	e.Item.ID = e.ID
	return e.Item
}

// listHooks answers the webhooks of the endpoint ?name= in the way of listMail.
func (s *Server) listHooks(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	match := func(h *Hook) bool { return name == "" || h.Name == name }
	listArrived(s, w, r, s.inbox.hooks, match, showHook)
}
