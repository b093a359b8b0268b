package policy

import (
	"os"
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
			a.applyRules(new(Decision), &variables{in: &in, action: a, size: 300})
		}
	})
}
