package connector

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// ErrNotDeclared means that the connector declares no such way of reading for the operation.
var ErrNotDeclared = errors.New("not declared for this operation")

// ReadTarget reads the target's current version before a write (D4). found is false where the target does not exist (404
// or 410). The error is ErrNotDeclared where the operation has no read.
func (k *Connector) ReadTarget(ctx context.Context, op Operation) (version string, found bool, err error) {
	_, version, found, err = k.readTarget(ctx, op)
	return version, found, err
}

// readTarget gives the whole answer besides.
func (k *Connector) readTarget(ctx context.Context, op Operation) (body canonical.Value, version string, found bool, err error) {
	declared, err := k.operation(op.Name)
	if err != nil {
		return body, "", false, err
	}
	fail := func(err error) (canonical.Value, string, bool, error) {
		return canonical.Value{}, "", false, fmt.Errorf("read the target of %s from connector %q: %w", op.Name, k.declared.ID, err)
	}
	if declared.declared.Read == nil {
		return fail(ErrNotDeclared)
	}
	a, err := k.get(ctx, declared.read, &op)
	switch {
	case err != nil:
		return fail(err)
	case a.status == http.StatusNotFound || a.status == http.StatusGone:
		return canonical.Value{}, "", false, nil
	case a.status == http.StatusTooManyRequests || a.status >= 500:
		return fail(fmt.Errorf("%w: HTTP %d", ErrUnavailable, a.status))
	case a.status != http.StatusOK:
		return fail(fmt.Errorf("HTTP %d", a.status))
	}
	if body, err = a.json(); err != nil {
		return fail(err)
	}
	if version = text(body, declared.declared.Read.Version); version == "" {
		return fail(fmt.Errorf("the answer has no version at %q", declared.declared.Read.Version))
	}
	return body, version, true, nil
}

// Verdict is what a lookup came to.
type Verdict string

// The verdicts.
const (
	Found   Verdict = "found"   // exactly one
	Absent  Verdict = "absent"  // a good answer without a match; proof only where Conclusive, after the index lag (R2, R8)
	Unclear Verdict = "unclear" // nothing can be concluded
	Several Verdict = "several" // an incident; never "the newest"
)

// LookupResult is what a lookup found. Its texts are bounded and hold nothing of a body but ids.
type LookupResult struct {
	Verdict       Verdict
	ExternalID    string
	RecordVersion string
	Evidence      string // one line: the status, the count of matches and the SHA-256 of the body
	// Conclusive says that the connector declares this verdict to be proof: always for found, for absent as declared.
	Conclusive bool
	StartedAt  time.Time
	Duration   time.Duration
}

// Reconcile looks for the effect of an operation. It only reads. All that can go wrong is an unclear verdict, with the
// reason as evidence.
func (k *Connector) Reconcile(ctx context.Context, op Operation) LookupResult {
	started := k.config.Clock()
	result := k.reconcile(ctx, op)
	result.StartedAt = started
	result.Duration = k.config.Clock().Sub(started)
	return result
}

func (k *Connector) reconcile(ctx context.Context, op Operation) LookupResult {
	declared, err := k.operation(op.Name)
	if err != nil {
		return unclear("%v", err)
	}
	if declared.declared.Lookup == nil {
		return unclear("lookup: %v", ErrNotDeclared)
	}
	a, err := k.get(ctx, declared.lookup, &op)
	if err != nil {
		return unclear("lookup failed: %v", err)
	}
	return judge(declared.declared.Lookup, &op, a)
}

func unclear(format string, args ...any) LookupResult {
	return LookupResult{Verdict: Unclear, Evidence: detail(format, args...)}
}

// get reads. Like writes, it follows no redirect. Where a credential was refused that the connector can get anew, it asks once more
// with another: reading again harms nobody.
func (k *Connector) get(ctx context.Context, path template, op *Operation) (*answer, error) {
	rendered, err := path.renderPath(op)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(k.base.String() + rendered)
	if err != nil {
		return nil, fmt.Errorf("the path %q makes no URL", rendered)
	}
	a, renewed, err := k.getOnce(ctx, target, op)
	if renewed {
		a, _, err = k.getOnce(ctx, target, op)
	}
	return a, err
}

// getOnce reports besides whether another credential takes the place of one that was refused.
func (k *Connector) getOnce(ctx context.Context, target *url.URL, op *Operation) (a *answer, renewed bool, err error) {
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"holdpoint"}}
	if k.declared.Signing.Set() {
		header.Set(standardwebhooks.HeaderWebhookID, cmp.Or(op.OperationID, rand.Text())) // a reading has no operation
	}
	r, err := k.request(ctx, http.MethodGet, target, header, nil)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	if a, err = k.roundTrip(ctx, r, nil); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return a, a.status == http.StatusUnauthorized && k.credential.rejected(r), nil
}
