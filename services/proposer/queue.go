package proposer

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// Queue hands out a tenant's waiting runs under leases that it renews; *client.Client is one.
type Queue interface {
	// Work takes runs of the source until the context ends and gives each to the handler, whose context ends when the
	// run's lease is lost.
	Work(ctx context.Context, source string, config client.WorkConfig) error
}

// longestReason is how much of a reason is stored, in bytes.
const longestReason = 1900

// failure is one of the matrix's with its reason. Reasons are stored: they hold no credential, no host name and nothing
// that a model wrote but names of members.
func failure(f client.Failure, format string, args ...any) *client.Failure {
	f.Reason = clip(fmt.Sprintf(format, args...), longestReason)
	return &f
}

// unusable is the end of a run whose event lacks what the source's proposer is declared to read. No model is asked.
func unusable(format string, args ...any) *client.Failure {
	return failure(client.Failure{Invalid: true, Class: contracts.FailedInternal}, format, args...)
}
