package intake

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// BenchmarkAdmit is what a door does for one event besides its transport: read, key, hash, validate, build the intent.
func BenchmarkAdmit(b *testing.B) {
	cfg, err := config.Load(deploy.Example())
	require.NoError(b, err)
	t, err := newTenant(cfg.Tenants[0])
	require.NoError(b, err)
	known, err := newRegistry(cfg.Tenants[0])
	require.NoError(b, err)
	t.policy = func() (*registry, error) { return known, nil }
	raw := []byte(`{"event_id":"e-1","proposal":{"action_type":"crm.contact.update","target":{"system":"crm",` +
		`"record_id":"c-1"},"proposed_change":{"fields":{"city":"Lisbon"}},"current_version":"7","evidence":[` +
		`{"source":"crm","version":"7","observed_at":"2026-12-01T11:00:00Z"}],"workflow_version":"crm-enrichment@3"}}`)
	headers := headers{"Idempotency-Key": {"k"}, "Content-Type": {"application/json"}, "User-Agent": {"agent/1"},
		"Authorization": {"Bearer x"}, "Content-Length": {"300"}, "Accept-Encoding": {"gzip"}}
	b.ReportAllocs()
	for b.Loop() {
		_, problem := t.admit(t.sources["crm-enrichment"], &delivery{raw: raw, headers: headers})
		if problem != nil {
			b.Fatal(problem)
		}
	}
}
