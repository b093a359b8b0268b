package client

import (
	"context"
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
)

// Sources tells what may be handed in: the tenant's sources, and the action types that a proposal may name. Needs the scope
// read.
func (c *Client) Sources(ctx context.Context) (*contracts.SourceList, error) {
	list := new(contracts.SourceList)
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/sources", header: http.Header{}, into: list}); err != nil {
		return nil, err
	}
	return list, nil
}
