package sandbox

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// letter is one accepted message, as the journal keeps it.
type letter struct {
	ReceivedAt time.Time `json:"received_at"`
	From       string    `json:"from"` // of the envelope, as the recipients are
	To         []string  `json:"to"`
	MessageID  string    `json:"message_id,omitempty"` // as the header has it, angle brackets included
	Size       int       `json:"size"`                 // of Raw, in bytes
	Raw        []byte    `json:"raw"`                  // header and body as they arrived
}

// Mail is one message that the sandbox's mail server accepted.
type Mail struct {
	ID         uint64    `json:"id"`         // 1, 2, 3, … in order of arrival
	From       string    `json:"from"`       // sender of the envelope (RFC 5321 MAIL FROM); "" for a bounce
	To         []string  `json:"to"`         // accepted recipients of the envelope, blind copies included
	Subject    string    `json:"subject"`    // decoded (RFC 2047)
	MessageID  string    `json:"message_id"` // header field, angle brackets included; "" where there is none
	Text       string    `json:"text"`       // decoded text/plain part, else the source of another text part
	ReceivedAt time.Time `json:"received_at"`
}

// weight is about what a letter takes in memory.
func (l *letter) weight() int { return len(l.Raw) + 1024 }

// sentTo reports whether the address is among the recipients; "" is any. Case counts in neither part of an address,
// which is what people expect of a mailbox.
func (l *letter) sentTo(address string) bool {
	return address == "" || slices.ContainsFunc(l.To, func(to string) bool { return strings.EqualFold(to, address) })
}

func showMail(e entry[letter]) Mail {
	return Mail{
		ID: e.ID, From: e.Item.From, To: e.Item.To, Subject: subjectOf(e.Item.Raw), MessageID: e.Item.MessageID,
		Text: textOf(e.Item.Raw), ReceivedAt: e.Item.ReceivedAt,
	}
}

// listMail answers the messages to ?to= with an id above ?after=, oldest first, at once or when there are ?at_least= of
// them, within ?wait=.
func (s *Server) listMail(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	listArrived(s, w, r, s.inbox.mail, func(l *letter) bool { return l.sentTo(to) }, showMail)
}

// listArrived answers what a shelf holds, as listMail says.
func listArrived[T, V any](s *Server, w http.ResponseWriter, r *http.Request, from *shelf[T], match func(*T) bool,
	show func(entry[T]) V) {
	query := r.URL.Query()
	after, atLeast := uint64(max(0, number(query.Get("after")))), number(query.Get("at_least"))
	var found []entry[T]
	var err error
	s.wait(r, func() bool {
		found, err = from.find(after, match)
		return err != nil || len(found) >= atLeast
	})
	if err != nil {
		respond(w, http.StatusInternalServerError, unavailable(err).view())
		return
	}
	views := make([]V, 0, len(found))
	for _, e := range found {
		views = append(views, show(e))
	}
	respond(w, http.StatusOK, views)
}

// showSMTP tells where the mail server listens.
func (s *Server) showSMTP(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, map[string]string{"addr": s.SMTPAddr()})
}
