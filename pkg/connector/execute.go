package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Result is what one attempt came to. Its texts are bounded and hold no secret and nothing of a body but ids.
type Result struct {
	Class             outcome.Class
	Sent              bool   // bytes of the request may have left
	HTTPStatus        int    // 0 where no answer came
	ExternalID        string // the provider's id of what was written
	RecordVersion     string // the record's new version, where the answer tells it
	ProviderRequestID string
	RetryAfter        time.Duration // what the provider asked for; 0 leaves it to the backoff
	Detail            string        // one line for operators
	Err               error         // what ended the attempt, so that callers know their gate's own errors; not for storing
	StartedAt         time.Time
	Duration          time.Duration
	// CredentialDropped means that the credential was refused and that the next call has another one (outcome.RefreshAllowed).
	CredentialDropped bool
	// Unfinished means that whoever made the call may still tell what it came to, so that this is not the last word on the
	// attempt. Only executors are like that: an HTTP call that has ended says no more.
	Unfinished bool
}

// Execute sends the request once. gate runs immediately before the first byte is written, after connecting and any TLS
// handshake; if it refuses, nothing is written and the class is not_sent. It runs at most once, must end by itself, and
// is required: nothing is sent without leave (D9, D15). Execute never returns while a first byte could still leave.
func (k *Connector) Execute(ctx context.Context, r *Request, gate func() error) Result {
	started := k.config.Clock()
	result := k.execute(ctx, r, gate)
	result.StartedAt = started
	result.Duration = k.config.Clock().Sub(started)
	return result
}

func (k *Connector) execute(ctx context.Context, r *Request, gate func() error) Result {
	op, err := k.operation(r.Operation)
	if err != nil {
		return notSent(err)
	}
	if gate == nil {
		return notSent(errors.New("no gate was given, and nothing is sent without one"))
	}
	write, err := k.outgoing(ctx, r)
	if err != nil {
		return notSent(err)
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	a := &attempt{ctx: ctx, gate: gate}
	answer, err := k.roundTrip(ctx, write, a)
	sent, refusal := a.finish()
	switch {
	case refusal != nil:
		return notSent(fmt.Errorf("stopped before the first byte: %w", refusal))
	case !sent && answer != nil:
		return notSent(fmt.Errorf("%w: it answered HTTP %d before it was asked", ErrUnavailable, answer.status))
	case !sent:
		return notSent(fmt.Errorf("%w: %w", ErrUnavailable, err))
	case answer == nil:
		return Result{Class: outcome.Ambiguous, Sent: true, Err: err, Detail: detail("no answer after sending: %v", err)}
	}
	result := op.classify(answer, k.config.Clock())
	if result.Class == outcome.Unauthorized && answer.status != http.StatusForbidden {
		result.CredentialDropped = k.credential.rejected(write)
	}
	return result
}

func notSent(err error) Result {
	return Result{Class: outcome.NotSent, Err: err, Detail: detail("not sent: %v", err)}
}

// outgoing checks that the request is as it was prepared and adds the credential.
func (k *Connector) outgoing(ctx context.Context, r *Request) (*http.Request, error) {
	if r.Sum() != r.Digest {
		return nil, errors.New("the stored request differs from its digest")
	}
	target, err := url.Parse(r.URL)
	if err != nil {
		return nil, errors.New("the stored request's URL cannot be read")
	}
	header := make(http.Header, len(r.Header)+1)
	for name, value := range r.Header {
		header.Set(name, value)
	}
	write, err := k.request(ctx, r.Method, target, header, r.Body)
	if err != nil {
		return nil, err
	}
	// Without GetBody, net/http cannot rewind the body and send it again.
	if len(r.Body) > 0 {
		write.Body = io.NopCloser(bytes.NewReader(r.Body))
		write.ContentLength = int64(len(r.Body))
	}
	return write, nil
}

// request is a request with the credential, for the connector's own origin only: a credential must not follow a stored
// request to where the connector used to point.
func (k *Connector) request(ctx context.Context, method string, target *url.URL, header http.Header, body []byte) (*http.Request, error) {
	if target.Scheme != k.base.Scheme || target.Host != k.base.Host {
		return nil, fmt.Errorf("the request was prepared for %s://%s, the connector now points to %s://%s; an operator must"+
			" decide", target.Scheme, target.Host, k.base.Scheme, k.base.Host)
	}
	r := &http.Request{
		Method: method, URL: target, Host: target.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return r, k.credential.authorize(ctx, r, body)
}

// answer is a response as far as it could be read.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	bodyErr error // the body is cut off, too large or unreadable
}

// errSwitched: what follows a 101 is not a body but the connection itself, and net/http ends no read of it with its context. Nobody
// asked for another protocol, so it is not read at all.
var errSwitched = errors.New("the server speaks another protocol from here on")

var errForeign = errors.New("the server had sent more than its last answer, which is no answer to this request")

// roundTrip sends once and reads the answer. A nil attempt is for requests that only read.
func (k *Connector) roundTrip(ctx context.Context, r *http.Request, a *attempt) (*answer, error) {
	var on *conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		on = info.Conn.(*conn)
		on.attempt.Store(a)
		on.listen()
	}}
	response, err := k.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if !on.answered() {
		_ = on.Close() // the real answer may still come, and must not be the next request's
		return nil, errForeign
	}
	got := &answer{status: response.StatusCode, header: response.Header}
	if response.StatusCode == http.StatusSwitchingProtocols {
		got.bodyErr = errSwitched
		return got, nil
	}
	got.body, got.bodyErr = readBody(response, k.maxResponse)
	for _, secret := range k.sent(r) {
		got.hide(secret)
	}
	return got, nil
}

func readBody(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength > limit {
		return nil, fmt.Errorf("an answer of %d bytes is over the limit of %d", response.ContentLength, limit)
	}
	var body bytes.Buffer
	if response.ContentLength > 0 {
		body.Grow(int(response.ContentLength) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(response.Body, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("the answer is over the limit of %d bytes", limit)
	}
	return body.Bytes(), err
}

// detail is one bounded line of printable text.
func detail(format string, args ...any) string { return printable(fmt.Sprintf(format, args...), 300) }

// printable makes text from outside safe for a log line or a page: no controls, and no more than limit bytes.
func printable(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x2028 && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
