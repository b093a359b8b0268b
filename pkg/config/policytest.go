package config

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// PolicyTest is one intent with the decision that is expected about it (P7). It decides nothing; package policy
// compares.
type PolicyTest struct {
	Name            string
	At              time.Time // what the clock says
	ActionType      string
	System          string // of the target
	RecordID        string
	ProposedChange  canonical.Value
	CurrentVersion  string
	WorkflowVersion string
	Uncertainty     string
	Evidence        []CitedEvidence
	Expect          ExpectedDecision
	Pos             Position
}

// CitedEvidence is what a proposal says that it read.
type CitedEvidence struct {
	Source, Version, URL string
	ObservedAt           time.Time
}

// ExpectedDecision is compared with a decision, each part where it is given.
type ExpectedDecision struct {
	Route   string
	Rules   []string // ids of all that matched or could not be evaluated, in the order of the file; nil is not compared
	Reasons []string // distinct codes, in their order; nil is not compared
}

func (d *declared) readPolicyTests(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("tests") {
		target := part.needObject("target")
		test := &PolicyTest{
			Name:            part.id("name", slug),
			At:              part.time("at"),
			ActionType:      part.text("action"),
			System:          target.text("system"),
			RecordID:        target.text("record_id"),
			ProposedChange:  part.json("proposed_change"),
			CurrentVersion:  part.optText("current_version"),
			WorkflowVersion: part.optText("workflow_version"),
			Uncertainty:     part.oneOf("uncertainty", "", "low", "medium", "high"),
			Evidence:        readCited(part),
			Expect:          readExpected(part),
			Pos:             part.pos,
		}
		target.close()
		unique(seen, part, "name", test.Name)
		part.close()
		d.PolicyTests = append(d.PolicyTests, test)
	}
}

func readCited(o *object) []CitedEvidence {
	var list []CitedEvidence
	for _, part := range o.objects("evidence") {
		list = append(list, CitedEvidence{Source: part.text("source"), Version: part.text("version"),
			URL: part.optText("url"), ObservedAt: part.time("observed_at")})
		part.close()
	}
	return list
}

func readExpected(o *object) ExpectedDecision {
	part := o.needObject("expect")
	expected := ExpectedDecision{
		Route:   part.oneOf("route", RouteAuto, RouteHumanReview, RouteRepair, RouteReject),
		Rules:   part.texts("rules", nil),
		Reasons: part.texts("reasons", nil),
	}
	for _, name := range []string{"rules", "reasons"} {
		if part.take(name) != nil && len(part.items(name)) == 0 { // would look like a comparison, and be none
			part.fail(name, "must list at least one; leave it out to compare none")
		}
	}
	part.close()
	return expected
}

// time is a moment that has to be written down.
func (o *object) time(name string) time.Time {
	if o.take(name) == nil {
		o.fail(name, "is missing; it must be a time such as 2026-12-01T12:00:00Z")
		return time.Time{}
	}
	text, _ := textOf(o.take(name))
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
	if err != nil {
		o.fail(name, "must be a time such as 2026-12-01T12:00:00Z, found %s", describe(o.take(name)))
	}
	return at
}

// json reads an object of any members, with numbers as they are written.
func (o *object) json(name string) canonical.Value {
	node := o.take(name)
	if _, mapping := node.(*ast.MappingNode); !mapping {
		o.fail(name, "must be a mapping of names to values, found %s", describe(node))
		return canonical.Value{}
	}
	data, err := json.Marshal(o.treeOf(name, node, func(Position, string, string) {}))
	if err != nil {
		o.fail(name, "cannot be written as JSON: %v", err)
		return canonical.Value{}
	}
	value, err := canonical.Parse(data)
	if err != nil {
		o.fail(name, "cannot be represented faithfully: %v", err)
	}
	return value
}
