package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// profile is an operation's declaration in the form of which the digest is taken. It is written by hand, and leaves out what is not
// set, so that a setting that a later release brings does not make every check stale.
type profile struct {
	Kind              string              `json:"kind,omitempty"`
	Method            string              `json:"method,omitempty"`
	Path              string              `json:"path,omitempty"`
	Body              any                 `json:"body,omitempty"`
	IdempotencyHeader string              `json:"idempotency_header,omitempty"`
	KeyWindow         string              `json:"key_window,omitempty"`
	KeyMargin         string              `json:"key_margin,omitempty"`
	Replays           bool                `json:"replays,omitempty"`
	Conditional       *profileConditional `json:"conditional,omitempty"`
	Success           profileSuccess      `json:"success"`
	Refused           []int               `json:"refused,omitempty"`
	BusyStatuses      []int               `json:"busy_statuses,omitempty"`
	InProgressCode    string              `json:"in_progress_code,omitempty"`
	KeyReusedCode     string              `json:"key_reused_code,omitempty"`
	ErrorCode         string              `json:"error_code,omitempty"`
	RefusedCodes      []string            `json:"refused_codes,omitempty"`
	BusyCodes         []string            `json:"busy_codes,omitempty"`
	UnauthorizedCodes []string            `json:"unauthorized_codes,omitempty"`
	ReceiptVersion    string              `json:"receipt_version,omitempty"`
	RequestIDHeader   string              `json:"request_id_header,omitempty"`
	Lookup            *profileLookup      `json:"lookup,omitempty"`
	Read              *profileRead        `json:"read,omitempty"`
	Mail              *profileMail        `json:"mail,omitempty"`
}

type profileMail struct {
	To      []string `json:"to,omitempty"`
	Cc      []string `json:"cc,omitempty"`
	ReplyTo string   `json:"reply_to,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Text    string   `json:"text,omitempty"`
	HTML    string   `json:"html,omitempty"`
}

type profileConditional struct {
	Header string `json:"header,omitempty"`
	Value  string `json:"value,omitempty"`
}

type profileSuccess struct {
	Statuses     []int             `json:"statuses,omitempty"`
	Pending      []int             `json:"pending,omitempty"`
	ExternalID   string            `json:"external_id,omitempty"`
	Where        *profileCondition `json:"where,omitempty"`
	PendingWhere *profileCondition `json:"pending_where,omitempty"`
}

type profileCondition struct {
	Pointer string `json:"pointer"`
	Equals  any    `json:"equals"`
}

type profileLookup struct {
	Path       string `json:"path,omitempty"`
	Items      string `json:"items,omitempty"`
	ExternalID string `json:"external_id,omitempty"`
	Match      string `json:"match,omitempty"`
	Version    string `json:"version,omitempty"`
	IndexLag   string `json:"index_lag,omitempty"`
	Conclusive bool   `json:"conclusive,omitempty"`
}

type profileRead struct {
	Path       string            `json:"path,omitempty"`
	Version    string            `json:"version,omitempty"`
	Values     *string           `json:"values,omitempty"` // "" is the whole answer, nil is none
	Fields     map[string]string `json:"fields,omitempty"`
	Unverified bool              `json:"unverified,omitempty"`
}

func profileOf(op *Operation) profile {
	p := profile{
		Kind: op.Kind, Method: op.Method, Path: op.Path, Body: op.Body, IdempotencyHeader: op.IdempotencyHeader,
		KeyWindow: written(op.KeyWindow), KeyMargin: written(op.KeyMargin), Replays: op.Replays,
		Success: profileSuccess{op.Success.Statuses, op.Success.Pending, op.Success.ExternalID, conditionOf(op.Success.Where),
			conditionOf(op.Success.PendingWhere)},
		Refused: op.Refused, BusyStatuses: op.BusyStatuses, InProgressCode: op.InProgressCode, KeyReusedCode: op.KeyReusedCode,
		ErrorCode: op.ErrorCode, RefusedCodes: op.RefusedCodes, BusyCodes: op.BusyCodes, UnauthorizedCodes: op.UnauthorizedCodes,
		ReceiptVersion: op.ReceiptVersion, RequestIDHeader: op.RequestIDHeader,
	}
	if c := op.Conditional; c != nil {
		p.Conditional = &profileConditional{c.Header, c.Value}
	}
	if l := op.Lookup; l != nil {
		p.Lookup = &profileLookup{l.Path, l.Items, l.ExternalID, l.Match, l.Version, written(l.IndexLag), l.Conclusive}
	}
	if r := op.Read; r != nil {
		p.Read = &profileRead{r.Path, r.Version, r.Values, r.Fields, r.Unverified}
	}
	if m := op.Mail; m != nil {
		p.Mail = &profileMail{m.To, m.Cc, m.ReplyTo, m.Subject, m.Text, m.HTML}
	}
	return p
}

func conditionOf(c *Condition) *profileCondition {
	if c == nil {
		return nil
	}
	return &profileCondition{c.Pointer, c.Equals}
}

// digestOf is the hex SHA-256 of the operation's declaration as canonical JSON (RFC 8785). Where the system is does not count: a
// check of its test account is one of it.
func digestOf(op *Operation) (string, error) {
	text, err := json.Marshal(profileOf(op))
	if err != nil {
		return "", err
	}
	value, err := canonical.Parse(text)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(value.AppendCanonical(nil))
	return hex.EncodeToString(sum[:]), nil
}

// written is a duration as a setting has it, "" where there is none.
func written(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
