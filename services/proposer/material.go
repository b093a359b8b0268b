package proposer

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// material is what an event gives to a proposal: what the model is shown, and what it may not choose.
type material struct {
	records  string             // JSON object of the declared records by name: all that goes out of an event (M1)
	fixed    []canonical.Member // of the proposed change
	proposal contracts.Proposal // all but the change, the assumptions, the uncertainty and the model
}

// gather takes the declared parts out of the event.
func (d *drafter) gather(body json.RawMessage) (*material, error) {
	event, err := canonical.Parse(body)
	if err != nil {
		return nil, unusable("the event cannot be read: %v", err)
	}
	g := gatherer{event: event}
	m := &material{}
	records := g.records(d.draft.Records)
	for _, f := range d.draft.Fixed {
		m.fixed = append(m.fixed, canonical.Member{Name: f.Member, Value: g.need("fixed."+f.Member, f.Pointer)})
	}
	m.proposal = contracts.Proposal{
		Target: contracts.Target{System: d.draft.Target.System,
			RecordID: g.text("target.record_id", d.draft.Target.RecordID, longestText)},
		CurrentVersion:  g.optText("current_version", d.draft.CurrentVersion, longestText),
		Evidence:        g.evidence(d.draft.Evidence, records),
		WorkflowVersion: d.draft.WorkflowVersion,
	}
	if g.err != nil {
		return nil, g.err
	}
	m.records = records.String()
	return m, nil
}

// gatherer reads an event by pointers and keeps the first thing that is wrong.
type gatherer struct {
	event canonical.Value
	err   error
}

func (g *gatherer) fail(format string, args ...any) {
	if g.err == nil {
		g.err = unusable(format, args...)
	}
}

func (g *gatherer) need(what, pointer string) canonical.Value {
	v, ok := g.event.Pointer(pointer)
	if !ok {
		g.fail("the event has nothing at %s, which the source's proposer reads as %s", pointer, what)
	}
	return v
}

// How long an id or version and how long a link of a proposal may be, in bytes (proposal.v1.json).
const (
	longestText = 256
	longestLink = 2048
)

// text is an id or version: a text or a number, as it stands.
func (g *gatherer) text(what, pointer string, limit int) string {
	v := g.need(what, pointer)
	text := v.Text()
	if plain := v.Kind() == canonical.String || v.Kind() == canonical.Number; !plain || text == "" || len(text) > limit {
		g.fail("the event's %s, which the source's proposer reads as %s, must be a text or number of 1 to %d bytes",
			pointer, what, limit)
	}
	return text
}

func (g *gatherer) optText(what, pointer string, limit int) string {
	if pointer == "" {
		return ""
	}
	return g.text(what, pointer, limit)
}

func (g *gatherer) records(rules []config.RecordRule) canonical.Value {
	var members []canonical.Member
	for _, r := range rules {
		if _, found := g.event.Pointer(r.Pointer); !found && r.Optional {
			continue
		}
		members = append(members, canonical.Member{Name: r.Name, Value: g.need("record "+r.Name, r.Pointer)})
	}
	object, err := canonical.NewObject(members...)
	if err != nil {
		g.fail("the records of the event cannot be put together: %v", err)
	}
	return object
}

// evidence cites what the model was shown. The times and versions are the event's, never the model's.
func (g *gatherer) evidence(rules []config.CitationRule, records canonical.Value) []contracts.Evidence {
	var items []contracts.Evidence
	for _, r := range rules {
		item := contracts.Evidence{Source: r.Source}
		item.URL = g.optText("the link of evidence from "+r.Source, r.URL, longestLink)
		if r.Version != "" {
			item.Version = g.text("the version of evidence from "+r.Source, r.Version, longestText)
		} else if record, found := records.Get(r.Record); found {
			item.Version = fmt.Sprintf("sha256:%s", canonical.Hash(record))
		} else {
			continue // an optional record that is not there is not cited; policy may miss it
		}
		at, err := time.Parse(time.RFC3339, g.text("the time of evidence from "+r.Source, r.ObservedAt, longestText))
		if err != nil {
			g.fail("the event's %s must be an RFC 3339 time, such as 2026-11-29T09:30:00Z", r.ObservedAt)
		}
		item.ObservedAt = at
		items = append(items, item)
	}
	return items
}
