package contracts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// What Decode's errors wrap. None of them goes away by itself: a consumer parks the message with the text as reason.
var (
	ErrMalformed      = errors.New("malformed event")
	ErrUnknownType    = errors.New("unknown event type")
	ErrUnknownVersion = errors.New("unknown version of a known event type")
)

// registry makes the empty data of every type and version that this release reads.
var registry = map[string]func() Data{
	TypeIntentSubmitted:   func() Data { return new(IntentSubmitted) },
	TypeEffectRequested:   func() Data { return new(EffectRequested) },
	TypeEffectCommand:     func() Data { return new(EffectCommand) },
	TypeRunAccepted:       func() Data { return new(RunAccepted) },
	TypeRunAwaitingHuman:  func() Data { return new(RunAwaitingHuman) },
	TypeRunSentBack:       func() Data { return new(RunSentBack) },
	TypeRunCompleted:      func() Data { return new(RunCompleted) },
	TypeRunEnded:          func() Data { return new(RunEnded) },
	TypeRunConflict:       func() Data { return new(RunConflict) },
	TypeRunRefused:        func() Data { return new(RunRefused) },
	TypeApprovalDecided:   func() Data { return new(ApprovalDecided) },
	TypeApprovalRequested: func() Data { return new(ApprovalRequested) },
}

// Decode reads an event in structured CloudEvents JSON; e.Data is a pointer to one of this package's data types.
// Unknown members are skipped (see the package's story on versions). Everything else is strict: names match in exact
// letter case and appear once, required members are there, closed lists hold, and the envelope's source and subject
// agree with the data. Errors wrap ErrMalformed, ErrUnknownType or ErrUnknownVersion.
func Decode(data []byte) (Event, error) {
	if !json.Valid(data) || !utf8.Valid(data) {
		return Event{}, fmt.Errorf("%w: not JSON in UTF-8", ErrMalformed)
	}
	var env envelope
	if err := read(data, env.fields()); err != nil {
		return Event{}, fmt.Errorf("%w: envelope: %w", ErrMalformed, err)
	}
	empty, ok := registry[env.kind]
	if !ok {
		return Event{}, unknown(env.kind)
	}
	content := empty()
	if err := read(env.data, content.fields()); err != nil {
		return Event{}, fmt.Errorf("%w: data of %s: %w", ErrMalformed, env.kind, err)
	}
	at, err := time.Parse(time.RFC3339Nano, env.time)
	if err != nil {
		return Event{}, fmt.Errorf("%w: time %q is not RFC 3339", ErrMalformed, env.time)
	}
	event, err := New(Meta{ID: env.id, Time: at.UTC(), TraceParent: env.traceParent}, content)
	if err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if env.source != event.Source() || env.subject != event.Subject() {
		return Event{}, fmt.Errorf("%w: source %q and subject %q must be %q and %q as in the data",
			ErrMalformed, env.source, env.subject, event.Source(), event.Subject())
	}
	return event, nil
}

type envelope struct {
	spec, id, source, kind, subject, time, contentType, traceParent string

	data json.RawMessage
}

func (e *envelope) fields() []field {
	return []field{
		{name: "specversion", into: &e.spec, allowed: []string{"1.0"}},
		{name: "id", into: &e.id},
		{name: "source", into: &e.source},
		{name: "type", into: &e.kind},
		{name: "subject", into: &e.subject},
		{name: "time", into: &e.time},
		{name: "datacontenttype", into: &e.contentType, optional: true, allowed: []string{"application/json"}},
		{name: "traceparent", into: &e.traceParent, optional: true},
		{name: "data", into: &e.data},
	}
}

// unknown tells a type nobody knows from a version that another release writes.
func unknown(kind string) error {
	if name, _, ok := cutVersion(kind); ok {
		for known := range registry {
			if base, _, _ := cutVersion(known); base == name {
				return fmt.Errorf("%w: %q; this release reads %s", ErrUnknownVersion, kind, known)
			}
		}
	}
	return fmt.Errorf("%w: %q", ErrUnknownType, kind)
}

func cutVersion(kind string) (name, version string, ok bool) {
	i := strings.LastIndex(kind, ".v")
	if i < 0 {
		return kind, "", false
	}
	return kind[:i], kind[i+2:], true
}
