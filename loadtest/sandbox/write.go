package sandbox

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Write is one accepted write, as the ledger keeps it.
type Write struct {
	Seq            uint64    `json:"seq"` // 1, 2, 3, … in order of acceptance
	Time           time.Time `json:"time"`
	System         string    `json:"system"`
	Operation      string    `json:"operation"`
	Reference      string    `json:"reference,omitempty"` // the caller's operation id
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	ObjectID       string    `json:"object_id"`           // the refund or the contact
	UpdateID       string    `json:"update_id,omitempty"` // CRM: the id of this change
	Version        string    `json:"version,omitempty"`   // CRM: the version the contact got
	ExternalID     string    `json:"external_id,omitempty"`
	Place          string    `json:"place,omitempty"` // Slack: the channel; N8N and Receiver: the endpoint
	BodySHA256     string    `json:"body_sha256"`     // hex, over the body as it arrived
	RequestID      string    `json:"request_id"`

	Refund *Refund         `json:"refund,omitempty"`
	Fields json.RawMessage `json:"fields,omitempty"` // CRM and HubSpot: the fields this change set; Slack: the message
	// Replay is what a repeated key gets instead of the success: a provider that stores its first answer, a 500
	// included.
	Replay *Answer `json:"replay,omitempty"`

	commit *commit                       // nil for writes of a former process
	stands *Write                        // the write that has done already what this one asks for, so that it is none; nil as a rule
	answer func() (status int, view any) // of systems without keys, which give each answer once; nil for the others
}

// Refund is the body of a payments write.
type Refund struct {
	Amount    string `json:"amount"` // exact decimal as it was sent
	Currency  string `json:"currency"`
	PaymentID string `json:"payment_id"`
}

// Answer is an error answer that was stored under an idempotency key.
type Answer struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// durable blocks until the write is on disk. Everything that shows a write waits for it, reads included: a lookup must
// not find what a crash may still take away.
func (w *Write) durable() error { return w.commit.wait() }

// refundView is a refund as payments shows it.
type refundView struct {
	ID string `json:"id"`
	Refund
	Reference string    `json:"reference,omitempty"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

func (w *Write) refundView() refundView {
	return refundView{
		ID: w.ObjectID, Refund: *w.Refund, Reference: w.Reference, Status: "succeeded", CreatedAt: w.Time,
	}
}

// changeView answers a CRM write.
type changeView struct {
	ID         string `json:"id"` // the contact
	Version    string `json:"version"`
	UpdateID   string `json:"update_id"`
	ExternalID string `json:"external_id"`
	Reference  string `json:"reference,omitempty"`
}

// changeView gives an update its update id as external id, because that is the provider's own name for the change.
func (w *Write) changeView() changeView {
	view := changeView{
		ID: w.ObjectID, Version: w.Version, UpdateID: w.UpdateID, ExternalID: w.ExternalID, Reference: w.Reference,
	}
	if w.Operation == Update {
		view.ExternalID = w.UpdateID
	}
	return view
}

// updateView is a CRM write as a lookup shows it.
type updateView struct {
	ID        string    `json:"id"` // the update
	Reference string    `json:"reference"`
	ContactID string    `json:"contact_id"`
	Version   string    `json:"version"`
	AppliedAt time.Time `json:"applied_at"`
}

func (w *Write) updateView() updateView {
	return updateView{
		ID: w.UpdateID, Reference: w.Reference, ContactID: w.ObjectID, Version: w.Version, AppliedAt: w.Time,
	}
}

// numbered is an object id that no other write gets, also after a restart.
func numbered(prefix string, seq uint64) string { return prefix + strconv.FormatUint(seq, 10) }

// success is the status and body of the first answer to the write.
func (w *Write) success() (int, any) {
	switch {
	case w.answer != nil:
		return w.answer()
	case w.System == Receiver:
		return http.StatusAccepted, receiptView{w.ObjectID}
	case w.System == Payments:
		return http.StatusCreated, w.refundView()
	case w.Operation == Create:
		return http.StatusCreated, w.changeView()
	default:
		return http.StatusOK, w.changeView()
	}
}
