package intake

import (
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// sources tells what the caller's tenant may hand in, from the configuration and the active policy alone.
func (d *httpDoor) sources(_ http.ResponseWriter, _ *http.Request, c *caller) reply {
	registry, problem := c.tenant.registered()
	if problem != nil {
		return refuse(problem)
	}
	list := &contracts.SourceList{Sources: make([]contracts.SourceInfo, 0, len(c.tenant.Sources)),
		ActionTypes: make([]contracts.ActionInfo, 0, len(registry.list))}
	for _, s := range c.tenant.Sources {
		list.Sources = append(list.Sources, sourceInfo(s))
	}
	for _, a := range registry.list {
		list.ActionTypes = append(list.ActionTypes, contracts.ActionInfo{ActionType: a.Type, Risk: a.Risk,
			Reversible: a.Reversible, Schema: a.Schema})
	}
	return reply{status: http.StatusOK, contentType: plainJSON, body: list, result: contracts.ResultAccepted}
}

func sourceInfo(s *config.Source) contracts.SourceInfo {
	key := s.ActiveRules().Key
	info := contracts.SourceInfo{Source: s.ID, Mode: s.Mode, Corrects: s.Corrects, Signed: s.Signature != nil,
		MaxBytes: s.MaxBytes, Schema: s.Schema,
		Key: contracts.SourceKey{Header: key.Header, CloudEvent: key.CloudEvent, Pointers: key.Pointers, Expression: key.CEL}}
	if s.Mode == config.ModeInline {
		info.Proposal = &s.Proposal
	}
	return info
}
