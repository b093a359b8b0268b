package intake

import (
	"mime"
	"net/textproto"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// delivery is one event, or one call, as a door received it.
type delivery struct {
	raw     []byte
	headers headers
	sentBy  string          // the name of the API key; "" over NATS, where the subject names the tenant alone
	genuine bool            // its signature was verified
	taken   time.Time       // when the broker took it, by the broker's clock; zero is now
	body    canonical.Value // of raw, once it was read
}

// takenAt is when the delivery came in. A message may have waited in its stream, which must not make its signature stale.
func (d *delivery) takenAt() time.Time {
	if d.taken.IsZero() {
		return time.Now()
	}
	return d.taken
}

// headers are all values of each name. Names are spelt as net/http does (Content-Type), whatever case they were sent
// in.
type headers map[string][]string

// newHeaders respells names. net/http has done it already.
func newHeaders(sent map[string][]string) headers {
	h := make(headers, len(sent))
	for name, values := range sent {
		name = textproto.CanonicalMIMEHeaderKey(name)
		h[name] = append(h[name], values...)
	}
	return h
}

// one is the value of a name that may be there once, and how often it is there. Space around it is no part of it: HTTP
// drops that, NATS does not, and both doors must read the same key.
func (h headers) one(name string) (value string, times int) {
	values := h[name]
	if len(values) != 1 {
		return "", len(values)
	}
	return strings.Trim(values[0], " \t"), 1
}

// maxHeaderBytes bounds the headers of one event on every door. HTTP lets 36 KiB through and JetStream 64 KiB, but nothing else
// bounds those in a batch.
const maxHeaderBytes = 48 << 10

func (h headers) size() (n int64) {
	for name, values := range h {
		for _, value := range values {
			n += int64(len(name) + len(value))
		}
	}
	return n
}

// stored are the headers as they are kept with the original (K12): several values as one list, and no secrets.
func (h headers) stored() map[string]string {
	kept := make(map[string]string, len(h))
	for name, values := range h {
		lower, secret := storedName(name)
		switch {
		case secret:
		case len(values) == 1:
			kept[lower] = values[0]
		default:
			kept[lower] = strings.Join(values, ", ")
		}
	}
	return kept
}

// parked are the headers of a message that is kept for an operator. A header that was there several times gets another
// name: replayed as it is, a list of two keys must not become one key.
func (h headers) parked() map[string]string {
	kept := make(map[string]string, len(h))
	for name, values := range h {
		if _, secret := storedName(name); secret {
			continue
		}
		if len(values) > 1 {
			name = "Repeated-" + name
		}
		kept[name] = strings.Join(values, ", ")
	}
	return kept
}

// commonNames are headers that most requests have and that hold no secret, with the names that they are stored under.
var commonNames = map[string]string{
	"Accept": "accept", "Accept-Encoding": "accept-encoding", "Content-Length": "content-length",
	"Content-Type": "content-type", "Idempotency-Key": "idempotency-key", "Traceparent": "traceparent",
	"User-Agent": "user-agent", "Holdpoint-Reply": "holdpoint-reply", "Nats-Msg-Id": "nats-msg-id",
}

// secretParts tell a header with a secret by its name.
var secretParts = []string{
	"authorization", "cookie", "token", "secret", "passw", "credential", "jwt", "api-key", "apikey", "access-key",
	"private-key", "subscription-key", "functions-key", "session", "callback",
}

func storedName(name string) (lower string, secret bool) {
	if lower := commonNames[name]; lower != "" {
		return lower, false
	}
	lower = strings.ToLower(name)
	dashed := strings.ReplaceAll(lower, "_", "-")
	for _, part := range secretParts {
		if strings.Contains(dashed, part) {
			return "", true
		}
	}
	for word := range strings.SplitSeq(dashed, "-") {
		if word == "auth" {
			return "", true
		}
	}
	return lower, false
}

// sound is text that the ledger and events take: NATS lets any bytes through.
func sound(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// longestDetail bounds what people are told of one problem, in bytes: it may name what was sent.
const longestDetail = 500

func clip(s string) string {
	if s = sound(s); len(s) <= longestDetail {
		return s
	}
	end := longestDetail
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

const plainJSON = "application/json"

// checkContentType takes JSON in any spelling. A message need not say what it is.
func (d *delivery) checkContentType() *contracts.Problem {
	if problem := d.checkEncoding(); problem != nil {
		return problem
	}
	switch sent := d.contentType(); {
	case len(d.headers["Content-Type"]) > 1:
		return newProblem(contracts.CodeUnsupportedMediaType,
			"There is more than one content type; send application/json.")
	case sent == plainJSON || isJSON(mediaType(sent)):
		return nil
	default:
		return newProblemf(contracts.CodeUnsupportedMediaType,
			"The content type is %q; send application/json in UTF-8, one event at a time.", sent)
	}
}

// checkEncoding refuses what would have to be unpacked first: a small body may unpack to a huge one.
func (d *delivery) checkEncoding() *contracts.Problem {
	if encodings := d.headers["Content-Encoding"]; len(encodings) > 0 && strings.Join(encodings, "") != "identity" {
		return newProblem(contracts.CodeUnsupportedMediaType, "Compressed bodies are not accepted; send plain JSON.")
	}
	return nil
}

// contentType is what the body is said to be.
func (d *delivery) contentType() string {
	value, times := d.headers.one("Content-Type")
	if times == 0 || value == "" {
		return plainJSON
	}
	return value
}

// mediaType is the type in a content type without its parameters, or "" where it cannot be read as UTF-8.
func mediaType(contentType string) string {
	kind, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	if err != nil || charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return ""
	}
	return kind
}

// isJSON also takes application/cloudevents+json and its like, but no batch: a batch is not one event.
func isJSON(kind string) bool {
	return kind == plainJSON || strings.HasSuffix(kind, "+json") && kind != cloudEventsBatch
}

// traceParent is the trace that the delivery belongs to, or "" where there is none that can be read (W3C Trace Context
// 4.3).
func (d *delivery) traceParent() string {
	value, _ := d.headers.one("Traceparent")
	if len(value) != 55 || strings.Trim(value, "0123456789abcdef-") != "" {
		return ""
	}
	return value
}
