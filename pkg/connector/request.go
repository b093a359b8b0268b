package connector

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Request is a write, ready to be sent. It is stored with the effect and sent again only as it is, so that a retry under
// the same idempotency key can never carry other parameters. It holds no credential.
type Request struct {
	Operation string            `json:"operation"`
	Method    string            `json:"method"`
	URL       string            `json:"url"`
	Header    map[string]string `json:"header"`
	Body      []byte            `json:"body"` // canonical JSON, or nothing
	Digest    canonical.Digest  `json:"digest"`
}

// Prepare builds the request for an approved action. It reads nothing and sends nothing. An error means that the intent
// does not fit the declared templates: no retry can help.
func (k *Connector) Prepare(_ context.Context, op Operation) (*Request, error) {
	declared, err := k.operation(op.Name)
	if err != nil {
		return nil, err
	}
	r, err := declared.request(&op)
	if err != nil {
		return nil, fmt.Errorf("prepare %s of connector %q: %w", op.Name, k.declared.ID, err)
	}
	if k.declared.Signing.Set() {
		if err := r.setHeader(standardwebhooks.HeaderWebhookID, op.OperationID); err != nil {
			return nil, fmt.Errorf("prepare %s of connector %q: %w", op.Name, k.declared.ID, err)
		}
	}
	r.URL = k.base.String() + r.URL
	r.Digest = r.Sum()
	return r, nil
}

// request builds everything but the base of the URL.
func (o *operation) request(op *Operation) (*Request, error) {
	path, err := o.path.renderPath(op)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	r := &Request{Operation: op.Name, Method: o.declared.Method, URL: path, Header: map[string]string{
		"Accept": "application/json", "User-Agent": "holdpoint",
	}}
	if o.body != nil {
		body, err := o.body.render(op)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		r.Body = body.AppendCanonical(nil)
		r.Header["Content-Type"] = "application/json"
	}
	if name := o.declared.IdempotencyHeader; name != "" {
		if err := r.setHeader(name, op.IdempotencyKey); err != nil {
			return nil, err
		}
	}
	if conditional := o.declared.Conditional; conditional != nil && conditional.Header != "" {
		value, err := o.conditional.render(op, func(s string) string { return s })
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", conditional.Header, err)
		}
		return r, r.setHeader(conditional.Header, value)
	}
	return r, nil
}

func (r *Request) setHeader(name, value string) error {
	if !validHeaderValue(value) {
		return fmt.Errorf("header %s: its value must be printable ASCII and not empty", name)
	}
	r.Header[textproto.CanonicalMIMEHeaderKey(name)] = value
	return nil
}

// Sum is the SHA-256 over everything that is sent, each part but the body with its length in front. Execute compares it with Digest.
func (r *Request) Sum() canonical.Digest {
	buf := make([]byte, 0, 512+len(r.Body))
	add := func(part string) {
		buf = append(strconv.AppendInt(buf, int64(len(part)), 10), ':')
		buf = append(buf, part...)
	}
	add("holdpoint-request-1")
	add(r.Operation)
	add(r.Method)
	add(r.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		add(name)
		add(r.Header[name])
	}
	add("") // no header has an empty name, so this ends them
	return sha256.Sum256(append(buf, r.Body...))
}

// validHeaderName follows RFC 9110's token, and leaves out the headers that this package sets itself.
func validHeaderName(name string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if digit := c >= '0' && c <= '9'; !letter && !digit && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	reserved := []string{"Authorization", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Content-Type"}
	return name != "" && !slices.Contains(reserved, textproto.CanonicalMIMEHeaderKey(name))
}

func validHeaderValue(value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return value != "" && value == strings.TrimSpace(value)
}
