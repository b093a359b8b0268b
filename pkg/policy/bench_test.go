package policy

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

var exampleFiles = os.DirFS("../../deploy/config/example")

func BenchmarkDecide(b *testing.B) {
	loaded, err := config.LoadEnv(exampleFiles, func(string) (string, bool) { return "", false })
	require.NoError(b, err)
	engine, err := New(loaded.Tenants[0])
	require.NoError(b, err)
	in := Input{ActionType: "crm.contact.update", Target: Target{"crm", "c-1"}, CurrentVersion: "7",
		ProposedChange:  parse(b, `{"fields": {"phone": "+49 30 1234567", "city": "Berlin"}}`),
		WorkflowVersion: "crm-enrichment@3", Now: noon,
		Evidence: []Evidence{{Source: "crm", Version: "7", ObservedAt: noon.Add(-time.Hour)}}}
	require.Equal(b, config.RouteAuto, engine.Decide(in).Route)

	b.Run("All", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			engine.Decide(in)
		}
	})
	b.Run("SchemaAlone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			engine.actions[in.ActionType].schema.Check(in.ProposedChange)
		}
	})
	b.Run("RulesAlone", func(b *testing.B) {
		a := engine.actions[in.ActionType]
		b.ReportAllocs()
		for b.Loop() {
			a.applyRules(new(Decision), newVariables(a, &in, 300))
		}
	})
}

// BenchmarkFiftyRules decides under a file of fifty rules: ten for each of four types and ten for all, so that twenty
// are evaluated, and then all fifty for one type. The aim is 50,000 decisions a second on one core.
func BenchmarkFiftyRules(b *testing.B) {
	conditions := []string{
		`proposed_change.amount > decimal("%d.00")`,
		`decimal(proposed_change.amount) > decimal(thresholds.limit) * %d`,
		`proposed_change.currency == "X%d"`,
		`proposed_change.currency in ["USD", "GBP", "X%d"]`,
		`has(proposed_change.note) && proposed_change.note.contains("word %d")`,
		`proposed_change.amount > %d && proposed_change.currency != "EUR"`,
		`!evidence.exists(e, e.source == "crm" && e.version != "v%d")`,
		`target.system == "crm-%d" || action.risk == "high"`,
		`workflow_version.startsWith("flow-%d@") && proposed_change.amount > thresholds.limit`,
		`has(proposed_change.fields.email) ? proposed_change.fields.email.endsWith("@x%d.example") : false`,
	}
	setup := func(b *testing.B, spread bool, schema string) (*Engine, Input) {
		b.Helper()
		w := newWorld(b)
		types := []string{w.action.Type}
		for _, name := range []string{"payment.refund", "account.close", "message.send"} {
			other := *w.action
			other.Type = name
			w.tenant.Actions = append(w.tenant.Actions, &other)
			types = append(types, name)
		}
		w.action.Schema = []byte(schema)
		for i := range 50 {
			r := w.rule(config.RouteReject, fmt.Sprintf(conditions[i%len(conditions)], 100000+i))
			r.Action = types[0]
			if spread && i < 40 {
				r.Action = types[i/10]
			} else if spread {
				r.Action = "*"
			}
		}
		w.rule(config.RouteAuto, "proposed_change.amount < thresholds.limit").Action = types[0]
		w.change(`{"amount": 99.50, "currency": "EUR", "note": "short", "fields": {"city": "Berlin", "phone": "+49 30 1234567"}}`)
		e := w.engine()
		require.Equal(b, config.RouteAuto, e.Decide(w.input).Route, "%v", e.Decide(w.input).Reasons)
		return e, w.input
	}
	for _, tc := range []struct {
		name   string
		spread bool
		schema string
	}{
		{"OverFourTypes", true, benchSchema},
		{"OverFourTypesWithHardlyASchema", true, anyFields},
		{"AllForOneType", false, benchSchema},
	} {
		b.Run(tc.name, func(b *testing.B) {
			e, in := setup(b, tc.spread, tc.schema)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				e.Decide(in)
			}
			b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds(), "decisions/cpu-s")
		})
	}
}

// cpuTime is what this process has used of all cores: a machine with other work to do tells nothing by the clock.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

const benchSchema = `{
	"type": "object", "additionalProperties": false, "required": ["amount", "currency"],
	"properties": {
		"amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
		"currency": {"enum": ["EUR", "USD", "GBP"]},
		"note": {"type": "string", "maxLength": 200},
		"fields": {"type": "object", "additionalProperties": false, "properties": {
			"city": {"type": "string"}, "phone": {"type": "string"}, "email": {"type": "string"}}}
	}
}`
