package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Kind names a way in which a provider misbehaves.
type Kind string

// The kinds of fault. "Accepted" means that the write is durable in the sandbox's ledger. On reads, the accept kinds
// act after the object was read. On mail, faults before acceptance act when a recipient is named (RCPT TO) and the
// others at the end of the message. A Status outside 400 to 599 is the reply code 451 there, RateLimit and Redirect are
// plain errors, and TruncateBody cuts the connection. Key and lookup faults mean nothing to mail and webhooks.
const (
	// RefuseConnection closes the HTTP listener and all idle connections for Duration, at once: dialling is refused. It
	// takes no Match.
	RefuseConnection Kind = "refuse_connection"
	// Delay waits Duration before accepting, with the idempotency key already taken. A caller that gives up is not
	// waited for: the write is accepted all the same.
	Delay Kind = "delay"

	HangBeforeAccept  Kind = "hang_before_accept"  // never answers; Duration, where given, bounds it, then a reset
	ResetBeforeAccept Kind = "reset_before_accept" // cuts the connection
	ErrorBeforeAccept Kind = "error_before_accept" // answers Status with Code and Message
	Redirect          Kind = "redirect"            // answers Status with Location
	RateLimit         Kind = "rate_limit"          // answers 429 with RetryAfter as it stands; "" sends no header

	Signal           Kind = "signal"             // posts what was accepted to URL before answering, and waits for the reply
	ErrorAfterAccept Kind = "error_after_accept" // accepts, then answers Status; Sticky stores it under the key
	AcceptThenHang   Kind = "accept_then_hang"   // accepts, then never answers; Duration bounds it, then a reset
	AcceptThenReset  Kind = "accept_then_reset"  // accepts, then cuts the connection
	TruncateBody     Kind = "truncate_body"      // accepts, then sends half of the announced body

	IgnoreIdempotencyKey Kind = "ignore_idempotency_key" // a repeated key writes again
	LookupLag            Kind = "lookup_lag"             // searches miss writes younger than Duration
	LookupEmpty          Kind = "lookup_empty"           // searches find nothing
	LookupDuplicate      Kind = "lookup_duplicate"       // searches return each match twice, under another id

	// How a write is told of, where its system tells of writes at all (Destination).
	WebhookNone       Kind = "webhook_none"       // it is not
	WebhookEarly      Kind = "webhook_early"      // before its answer, which waits for the webhook's
	WebhookLate       Kind = "webhook_late"       // Duration later
	WebhookRepeat     Kind = "webhook_repeat"     // Copies times, one after the other
	WebhookConcurrent Kind = "webhook_concurrent" // Copies times, all at once
	WebhookReorder    Kind = "webhook_reorder"    // that it is pending comes last
	WebhookForged     Kind = "webhook_forged"     // signed by somebody else
	WebhookStale      Kind = "webhook_stale"      // signed Duration ago
	WebhookStatus     Kind = "webhook_status"     // as Code, instead of succeeded
)

// Fault is what happens to a request that a rule matches.
type Fault struct {
	Kind       Kind     `json:"kind"`
	Duration   Duration `json:"duration,omitempty"`
	Status     int      `json:"status,omitempty"`
	Code       string   `json:"code,omitempty"`
	Message    string   `json:"message,omitempty"`
	Location   string   `json:"location,omitempty"`
	RetryAfter string   `json:"retry_after,omitempty"` // seconds, a date, or nonsense
	URL        string   `json:"url,omitempty"`
	Sticky     bool     `json:"sticky,omitempty"`
	Copies     int      `json:"copies,omitempty"`
}

// need is a field that a kind cannot do without.
type need struct {
	field string
	given func(*Fault) bool
}

var (
	needsDuration = need{"duration", func(f *Fault) bool { return f.Duration > 0 }}
	needsStatus   = need{"status between 200 and 599", func(f *Fault) bool { return f.Status >= 200 && f.Status <= 599 }}
	needsLocation = need{"location", func(f *Fault) bool { return f.Location != "" }}
	needsCopies   = need{"copies from 1 to 1000", func(f *Fault) bool { return f.Copies >= 1 && f.Copies <= 1000 }}
	needsCode     = need{"code", func(f *Fault) bool { return f.Code != "" }}
	needsURL      = need{"url, absolute http", func(f *Fault) bool {
		u, err := url.Parse(f.URL)
		return err == nil && u.Host != "" && strings.HasPrefix(u.Scheme, "http")
	}}
)

// kinds says what each kind needs.
var kinds = map[Kind][]need{
	RefuseConnection:     {needsDuration},
	Delay:                {needsDuration},
	HangBeforeAccept:     nil,
	ResetBeforeAccept:    nil,
	ErrorBeforeAccept:    {needsStatus},
	Redirect:             {needsStatus, needsLocation},
	RateLimit:            nil,
	Signal:               {needsURL},
	ErrorAfterAccept:     {needsStatus},
	AcceptThenHang:       nil,
	AcceptThenReset:      nil,
	TruncateBody:         nil,
	IgnoreIdempotencyKey: nil,
	LookupLag:            {needsDuration},
	LookupEmpty:          nil,
	LookupDuplicate:      nil,
	WebhookNone:          nil,
	WebhookEarly:         nil,
	WebhookLate:          {needsDuration},
	WebhookRepeat:        {needsCopies},
	WebhookConcurrent:    {needsCopies},
	WebhookReorder:       nil,
	WebhookForged:        nil,
	WebhookStale:         {needsDuration},
	WebhookStatus:        {needsCode},
}

func (f *Fault) validate() error {
	needs, known := kinds[f.Kind]
	if !known {
		return fmt.Errorf("fault kind %q is unknown; use one of %v", f.Kind, slices.Sorted(maps.Keys(kinds)))
	}
	var errs []error
	if f.Duration < 0 {
		errs = append(errs, fmt.Errorf("fault %s has a negative duration", f.Kind))
	}
	for _, n := range needs {
		if !n.given(f) {
			errs = append(errs, fmt.Errorf("fault %s needs %s", f.Kind, n.field))
		}
	}
	return errors.Join(errs...)
}

// problem is the error answer of the fault, with the given code where the rule names none.
func (f *Fault) problem(status int, code string) *problem {
	return &problem{status, cmp.Or(f.Code, code), cmp.Or(f.Message, "the fault plan answers here")}
}
