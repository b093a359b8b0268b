package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Destination is where a system tells of its writes by itself, in signed posts (Standard Webhooks 1.0).
type Destination struct {
	URL    string `json:"url"`    // "" tells nobody
	Secret string `json:"secret"` // whsec_ and the base64 of 24 to 64 bytes
}

func (d Destination) validate() error {
	if d.URL == "" {
		return nil
	}
	if !needsURL.given(&Fault{URL: d.URL}) {
		return fmt.Errorf("webhook needs %s", needsURL.field)
	}
	_, err := standardwebhooks.NewWebhook(d.Secret)
	return err
}

// forger is whose signature a forged webhook has.
const forger = "whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCwgbm90IG91cnM="

// toldTries is how often a webhook is posted that is not taken, after 200 ms, 400 ms, … It is lost after that, as after a restart.
const (
	toldTries = 8
	toldPause = 200 * time.Millisecond
)

// telling is how a write is told of.
type telling struct {
	none, early, atOnce, reordered, forged bool
	late, stale                            time.Duration
	copies                                 int
	status                                 string
}

// add has a fault change it; false where the fault is about something else.
func (t *telling) add(f *Fault) bool {
	switch f.Kind {
	case WebhookNone:
		t.none = true
	case WebhookEarly:
		t.early = true
	case WebhookLate:
		t.late = time.Duration(f.Duration)
	case WebhookRepeat, WebhookConcurrent:
		t.copies, t.atOnce = f.Copies, f.Kind == WebhookConcurrent
	case WebhookReorder:
		t.reordered = true
	case WebhookForged:
		t.forged = true
	case WebhookStale:
		t.stale = time.Duration(f.Duration)
	case WebhookStatus:
		t.status = f.Code
	default:
		return false
	}
	return true
}

// told is the body of a webhook. Told again, the same event of the same write has the same bytes.
type told struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	CreatedAt time.Time `json:"created_at"`
	Data      toldData  `json:"data"`
}

type toldData struct {
	ID        string `json:"id"` // the refund, or the change
	Reference string `json:"reference,omitempty"`
	Status    string `json:"status"`
	Version   string `json:"version,omitempty"`
}

func (w *Write) told(status string) told {
	id := w.ObjectID
	if w.UpdateID != "" {
		id = w.UpdateID
	}
	return told{ID: "evt_" + strconv.FormatUint(w.Seq, 10) + "_" + status, Type: w.System + "." + status, CreatedAt: w.Time,
		Data: toldData{ID: id, Reference: w.Reference, Status: status, Version: w.Version}}
}

// tell posts what became of a write, beside its answer, or before it where the plan says so.
func (s *Server) tell(w *Write, t telling) {
	to := s.destinationOf(w.System)
	if to.URL == "" || t.none {
		return
	}
	deliver := func() {
		s.pause(t.late)
		s.deliver(to, w, t, toldTries)
	}
	if t.early {
		deliver()
		return
	}
	s.tellings.Go(deliver)
}

// deliver posts the events of a write and returns the status of each answer, 0 where there was none.
func (s *Server) deliver(to Destination, w *Write, t telling, tries int) []int {
	status := "succeeded"
	if t.status != "" {
		status = t.status
	}
	events := []told{w.told(status)}
	for range t.copies - 1 {
		events = append(events, events[0])
	}
	if t.reordered {
		events = append(events, w.told("pending"))
	}
	statuses := make([]int, len(events))
	var posting sync.WaitGroup
	for i, event := range events {
		post := func() { statuses[i] = s.insist(to, event, t, tries) }
		if t.atOnce {
			posting.Go(post)
		} else {
			post()
		}
	}
	posting.Wait()
	return statuses
}

// insist posts until the event is taken or refused, as providers do.
func (s *Server) insist(to Destination, event told, t telling, tries int) (status int) {
	var err error
	for i := range tries {
		if i > 0 {
			s.pause(toldPause << (i - 1))
		}
		if s.stopping() {
			return status
		}
		if status, err = s.postTold(to, event, t); err == nil && status < 500 {
			break
		}
	}
	if err != nil || status >= 300 {
		s.cfg.Logger.Warn("a webhook was not taken", "event", event.ID, "url", to.URL, "status", status, "error", err)
	}
	return status
}

func (s *Server) postTold(to Destination, event told, t telling) (status int, err error) {
	body, err := json.Marshal(event)
	if err != nil {
		return 0, err
	}
	secret := to.Secret
	if t.forged {
		secret = forger
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return 0, err
	}
	at := time.Now().Add(-t.stale)
	signature, err := signer.Sign(event.ID, at, body)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, event.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	answer, err := s.signals.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	return answer.StatusCode, err
}

func (s *Server) destinationOf(system string) Destination {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.destinations[system]
}

func (s *Server) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// setWebhook changes whom a system tells of its writes.
func (s *Server) setWebhook(w http.ResponseWriter, r *http.Request) {
	changeSystem(s, w, r, "webhook", s.destinations, func(d *Destination, _ string) error { return d.validate() })
}

// tellAgain tells once more of the writes of a reference, with these faults, and answers the statuses of the receiver's answers.
func (s *Server) tellAgain(w http.ResponseWriter, r *http.Request) {
	var faults []Fault
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, controlBody)).Decode(&faults); err != nil {
		respond(w, http.StatusBadRequest, badRequest("faults: %v", err).view())
		return
	}
	var t telling
	for i := range faults {
		if err := faults[i].validate(); err != nil || !t.add(&faults[i]) {
			respond(w, http.StatusBadRequest, badRequest("fault %s is not about webhooks: %v", faults[i].Kind, err).view())
			return
		}
	}
	found, err := s.ledger.referenced(r.PathValue("reference"))
	if err != nil {
		respond(w, http.StatusInternalServerError, unavailable(err).view())
		return
	}
	statuses := []int{}
	for _, write := range found {
		statuses = append(statuses, s.deliver(s.destinationOf(write.System), write, t, 1)...)
	}
	respond(w, http.StatusOK, statuses)
}
