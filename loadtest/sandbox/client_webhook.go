package sandbox

import (
	"context"
	"net/http"
	"net/url"
)

// SetWebhook changes whom a system (Payments or CRM) tells of its writes from now on.
func (c *Client) SetWebhook(ctx context.Context, system string, to Destination) error {
	return c.call(ctx, http.MethodPut, "/_sandbox/webhooks/"+system, to, nil)
}

// TellAgain has the sandbox tell once more of the writes of a reference, as the faults of webhooks say, each event posted once. It
// returns the receiver's HTTP statuses, 0 where there was no answer.
func (c *Client) TellAgain(ctx context.Context, reference string, faults ...Fault) ([]int, error) {
	if faults == nil {
		faults = []Fault{}
	}
	var statuses []int
	err := c.call(ctx, http.MethodPost, "/_sandbox/webhooks/told/"+url.PathEscape(reference), faults, into(&statuses))
	return statuses, err
}
