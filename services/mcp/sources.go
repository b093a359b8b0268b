package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/contracts"
)

// offered is what a model may propose. It is told as JSON: schemas are read best as they are.
type offered struct {
	*contracts.SourceList
	Next string `json:"next"`
}

const offeredNext = "Choose the source that fits and call " + toolPropose + ` with an event of its schema. With mode "inline" the ` +
	"proposal goes where \"proposal\" points; with mode \"worker\" somebody else drafts it, and the event is the material. " +
	"A source with \"signed\" is for its own sender, and not for you."

// sources is list_sources.
func (c *toolCall) sources(ctx context.Context) (answer, error) {
	if err := c.arguments(&struct{}{}); err != nil {
		return nil, err
	}
	api, err := c.server.api(c.CallToolRequest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	list, err := api.Sources(ctx)
	if err != nil {
		return nil, err
	}
	return &offered{list, offeredNext}, nil
}

func (o *offered) result() *sdk.CallToolResult {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}, StructuredContent: o}
}
