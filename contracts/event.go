package contracts

import (
	"errors"
	"fmt"
	"time"
)

// sourcePrefix comes before the tenant in the CloudEvents source.
const sourcePrefix = "/holdpoint/"

// ContentType is the media type of an encoded event (CloudEvents 1.0, JSON format, structured mode).
const ContentType = "application/cloudevents+json"

// Meta is what the envelope says besides the data.
type Meta struct {
	ID          string    // UUIDv7, minted by whoever commits the event; consumers deduplicate by it (B2)
	Time        time.Time // the database's clock at commit
	TraceParent string    // W3C Trace Context; "" where the event is not traced
}

// Data is the content of an event of one type and version. Only this package implements it.
type Data interface {
	// Type is the CloudEvents type, version included.
	Type() string
	// BusSubject is the NATS subject that the event is published on.
	BusSubject() string

	tenant() string
	about() string // the CloudEvents subject: the run id, or the source where there is no run
	fields() []field
}

// Event is an envelope with its data. Make one with New or Decode.
type Event struct {
	Meta
	Data Data
}

// New makes an event. It errors where the id is not a UUIDv7, the time is missing, or a member that the type's schema
// requires is empty or outside its closed list; each of these is a fault of the caller.
func New(meta Meta, data Data) (Event, error) {
	var errs []error
	if !isUUIDv7(meta.ID) {
		errs = append(errs, fmt.Errorf("id %q is not a lower-case UUIDv7", meta.ID))
	}
	if meta.Time.IsZero() {
		errs = append(errs, errors.New("time is missing"))
	}
	if err := check(data.fields()); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Event{}, fmt.Errorf("making event %s: %w", data.Type(), err)
	}
	if !isTraceParent(meta.TraceParent) {
		meta.TraceParent = "" // Trace Context 4.3: a value that cannot be read is as if absent
	}
	return Event{Meta: meta, Data: data}, nil
}

// Source is the CloudEvents source: "/holdpoint/<tenant>".
func (e Event) Source() string { return sourcePrefix + e.Data.tenant() }

// Subject is the CloudEvents subject: the run id, or the source's id for an event that became no run.
func (e Event) Subject() string { return e.Data.about() }

// isUUIDv7 checks the canonical text form of RFC 9562, version 7.
func isUUIDv7(s string) bool {
	if len(s) != 36 || s[14] != '7' {
		return false
	}
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
			continue
		}
		if !isHex(s[i]) {
			return false
		}
	}
	return s[19] == '8' || s[19] == '9' || s[19] == 'a' || s[19] == 'b'
}

// isTraceParent checks the shape of version 00: 2-32-16-2 hexadecimal digits.
func isTraceParent(s string) bool {
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	for i := range len(s) {
		if i != 2 && i != 35 && i != 52 && !isHex(s[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
