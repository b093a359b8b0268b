package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// SMTPAddr asks for the host:port on which the sandbox takes mail. There is no authentication and no TLS.
func (c *Client) SMTPAddr(ctx context.Context) (string, error) {
	var at struct{ Addr string }
	err := c.call(ctx, http.MethodGet, "/_sandbox/smtp", nil, into(&at))
	return at.Addr, err
}

// Mail returns the messages to this address, or to anybody where it is "", oldest first, as far as the sandbox still
// holds them in memory: the newest 2,000 messages and 64 MiB.
func (c *Client) Mail(ctx context.Context, to string) ([]Mail, error) { return c.AwaitMail(ctx, to, 0) }

// AwaitMail waits until at least n messages to this address are there and returns them all. It returns an error with the
// number that there are when the context ends first, or after a minute.
func (c *Client) AwaitMail(ctx context.Context, to string, n int) ([]Mail, error) {
	return awaitArrived[Mail](ctx, c, "/_sandbox/mail", url.Values{"to": {to}}, n)
}

// Hooks returns the webhooks that the endpoint /hooks/{name} received, or any endpoint where name is "", oldest first,
// within the same bounds as Mail.
func (c *Client) Hooks(ctx context.Context, name string) ([]Hook, error) {
	return c.AwaitHooks(ctx, name, 0)
}

// AwaitHooks waits until the endpoint has received at least n webhooks, in the way of AwaitMail.
func (c *Client) AwaitHooks(ctx context.Context, name string, n int) ([]Hook, error) {
	return awaitArrived[Hook](ctx, c, "/_sandbox/hooks", url.Values{"name": {name}}, n)
}

func awaitArrived[V any](ctx context.Context, c *Client, path string, query url.Values, n int) ([]V, error) {
	query.Set("at_least", strconv.Itoa(n))
	query.Set("wait", longestWait.String())
	var found []V
	err := c.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, into(&found))
	if err == nil && len(found) < n {
		err = fmt.Errorf("sandbox holds %d of %s?%s where %d are awaited", len(found), path, query.Encode(), n)
	}
	return found, err
}
