package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Bounds of what an executor says, in bytes, but for the seconds.
const (
	maxWords   = 16 << 10
	maxToken   = 512
	maxID      = 512
	maxDetail  = 2000
	maxSeconds = 24 * 60 * 60
)

// executorVerb is one thing that an executor may say.
type executorVerb struct {
	name    string
	members []string
	within  time.Duration // in which it is answered
	// handle answers at the replica that made the command; the call is nil where nothing waits any more.
	handle func(context.Context, *Dispatcher, *call, *words) (any, *contracts.Problem)
	// gone answers for a replica that cannot be reached.
	gone func(context.Context, *Dispatcher, *words) (any, *contracts.Problem)
}

// Leave is decided in a second at most, and a commit may have to wait for a Postgres that fails over.
var (
	leaveVerb = executorVerb{
		name: "leave", members: []string{"token"}, within: 2 * time.Second, handle: askLeave, gone: leaveOfNobody,
	}
	receiptVerb = executorVerb{
		name: "receipt", within: 10 * time.Second, handle: takeReceipt, gone: lateReceipt,
		members: []string{"token", "status", "external_id", "record_version", "detail", "retry_after_seconds"},
	}
)

// words are what an executor says about one attempt.
type words struct {
	tenant, connector string // of the subject, which the broker lets this tenant alone use (B7)
	text              []byte
	token             token
	receipt           connector.Receipt
}

// read reads the body strictly: what is misspelt must not be taken for left out.
func (w *words) read(verb *executorVerb) *contracts.Problem {
	if len(w.text) > maxWords {
		return contracts.NewProblem(contracts.CodeTooLarge, fmt.Sprintf("At most %d bytes are read.", maxWords))
	}
	body, err := canonical.Parse(w.text)
	if err != nil {
		return contracts.NewProblem(contracts.CodeMalformed, err.Error())
	}
	r := bodyReader{body: body, allowed: verb.members}
	r.known()
	text := r.text("token", maxToken)
	if slices.Contains(verb.members, "status") {
		w.receipt = r.receipt()
	}
	if r.problem != nil {
		return r.problem
	}
	if w.token, err = parseToken(text); err != nil {
		return foreignToken()
	}
	return nil
}

// bodyReader takes members out of a body and keeps the first complaint.
type bodyReader struct {
	body    canonical.Value
	allowed []string
	problem *contracts.Problem
}

func (r *bodyReader) fail(pointer, format string, args ...any) {
	if r.problem == nil {
		r.problem = contracts.NewProblem(contracts.CodeSchemaInvalid, "")
		r.problem.Errors = []contracts.FieldError{{Pointer: pointer, Detail: fmt.Sprintf(format, args...)}}
	}
}

func (r *bodyReader) known() {
	if r.body.Kind() != canonical.Object {
		r.fail("", "must be an object")
		return
	}
	for name := range r.body.Members() {
		if !slices.Contains(r.allowed, name) {
			r.fail("", "has the unknown member %q, allowed: %s", name, strings.Join(r.allowed, ", "))
		}
	}
}

// text is "" where the member is absent.
func (r *bodyReader) text(name string, longest int) string {
	v, found := r.body.Get(name)
	if !found {
		return ""
	}
	if v.Kind() != canonical.String || len(v.Text()) > longest || !utf8.ValidString(v.Text()) {
		r.fail("/"+name, "must be a text of at most %d bytes", longest)
		return ""
	}
	return v.Text()
}

func (r *bodyReader) receipt() connector.Receipt {
	receipt := connector.Receipt{
		Status: outcome.Class(r.text("status", maxID)), ExternalID: r.text("external_id", maxID),
		RecordVersion: r.text("record_version", maxID), Detail: r.text("detail", maxDetail),
	}
	if !slices.Contains(connector.Receipts, receipt.Status) {
		r.fail("/status", "is %q, allowed: %v", receipt.Status, connector.Receipts)
	}
	if v, found := r.body.Get("retry_after_seconds"); found {
		seconds, whole := v.Int64()
		if !whole || seconds < 0 || seconds > maxSeconds {
			r.fail("/retry_after_seconds", "must be a whole number from 0 to %d", maxSeconds)
		}
		receipt.RetryAfter = time.Duration(seconds) * time.Second
	}
	return receipt
}

// askLeave answers a request for leave.
func askLeave(_ context.Context, d *Dispatcher, c *call, _ *words) (any, *contracts.Problem) {
	if c == nil {
		return contracts.Leave{Reason: errOver.Error()}, nil
	}
	leave := c.ask()
	d.env.Log.Debug("an executor asked leave", "operation", c.token.operation, "attempt", c.token.attempt,
		"granted", leave.Granted, "reason", leave.Reason)
	return leave, nil
}

// leaveOfNobody refuses leave for a command whose maker is gone: only that one could know that it was not given before.
func leaveOfNobody(context.Context, *Dispatcher, *words) (any, *contracts.Problem) {
	return contracts.Leave{Reason: "the dispatcher that made the command is gone or cannot be reached"}, nil
}

// takeReceipt hands a receipt to the call that waits for it, and answers when it is stored.
func takeReceipt(ctx context.Context, d *Dispatcher, c *call, w *words) (any, *contracts.Problem) {
	if c == nil {
		return lateReceipt(ctx, d, w)
	}
	err := c.report(w.token, w.receipt)
	if err == errLate {
		return lateReceipt(ctx, d, w)
	}
	if err == nil {
		err = c.stored(ctx)
	}
	if err != nil {
		d.env.Log.Warn("a receipt was not recorded", "operation", w.token.operation, "attempt", w.token.attempt,
			"status", w.receipt.Status, "error", err)
		return nil, problemOf(err)
	}
	return contracts.Recorded{Recorded: true}, nil
}
