package bus

import (
	"context"
	"fmt"
)

// Request asks whoever answers on a subject, and waits for the answer until the context ends. The error is nats' "no
// responders available" at once where nobody listens. It is for requests between our own services: who answers is trusted.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	msg, err := c.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", subject, plainly(err))
	}
	return msg.Data, nil
}
