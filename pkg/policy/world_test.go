package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// anyFields accepts every object, so that a test reaches the rules with whatever it likes.
const anyFields = `{"type": "object"}`

const strictSchema = `{
	"type": "object", "additionalProperties": false, "required": ["amount"],
	"properties": {
		"amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 9007199254740993, "multipleOf": 0.01},
		"currency": {"enum": ["EUR", "USD"]},
		"note": {"type": "string", "maxLength": 5},
		"code": {"type": "string", "pattern": "^[A-Z]+$"},
		"mail": {"type": "string", "format": "email"},
		"fields": {"type": "object", "additionalProperties": false, "properties": {"a/b": {"type": "integer", "minimum": 2}}}
	}
}`

// testingT is what tests, benchmarks and property checks share.
type testingT interface {
	require.TestingT
	Helper()
}

// world is a tenant with one reversible action type, and an input that nothing speaks against.
type world struct {
	t      testingT
	tenant *config.Tenant
	action *config.Action
	input  Input
}

func newWorld(t testingT) *world {
	t.Helper()
	action := &config.Action{
		Type: "crm.contact.update", Schema: []byte(anyFields), Risk: config.RiskLow, Reversible: true, Category: "crm_change",
		Thresholds: map[string]string{"limit": "1000.00", "ratio": "0.25"},
		Evidence:   []config.EvidenceRule{{Source: "crm", MaxAge: 24 * time.Hour}},
	}
	return &world{
		t: t,
		tenant: &config.Tenant{ID: "demo", WorkflowVersions: []string{"crm-enrichment@3"}, PolicyVersion: "v1",
			Actions: []*config.Action{action}},
		action: action,
		input: Input{
			ActionType: action.Type, Target: Target{"crm", "c-1"}, CurrentVersion: "7", WorkflowVersion: "crm-enrichment@3",
			ProposedChange: parse(t, `{"amount": 10}`),
			Evidence:       []Evidence{{Source: "crm", Version: "7", ObservedAt: noon.Add(-time.Hour)}},
			Now:            noon,
		},
	}
}

func parseNumber(t testingT, text string) canonical.Value {
	v, err := canonical.NewNumber(text)
	require.NoError(t, err)
	return v
}

func parse(t testingT, text string) canonical.Value {
	t.Helper()
	v, err := canonical.Parse([]byte(text))
	require.NoError(t, err)
	return v
}

// rule adds one; its id is the route with its number.
func (w *world) rule(route, when string) *config.Rule {
	id := fmt.Sprintf("%s-%d", strings.ReplaceAll(route, "_", "-"), len(w.tenant.Rules)+1)
	r := &config.Rule{ID: id, Action: "*", When: when, Route: route, Reason: "Because of " + id + ".",
		Pos: config.Position{File: "policy.yaml", Line: 3, Column: 11}}
	w.tenant.Rules = append(w.tenant.Rules, r)
	return r
}

func (w *world) change(text string) { w.input.ProposedChange = parse(w.t, text) }

func (w *world) engine() *Engine {
	w.t.Helper()
	e, err := New(w.tenant)
	require.NoError(w.t, err)
	return e
}

func (w *world) decide() Decision {
	w.t.Helper()
	return w.engine().Decide(w.input)
}

// requireRoute checks the route and the codes of the reasons.
func (w *world) requireRoute(route string, codes ...string) Decision {
	w.t.Helper()
	d := w.decide()
	require.Equal(w.t, route, d.Route, "reasons: %v", d.Reasons)
	require.Equal(w.t, codes, d.Codes(), "reasons: %v", d.Reasons)
	return d
}
