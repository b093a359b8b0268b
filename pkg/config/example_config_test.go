package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const exampleDir = "../../deploy/config/example"

func TestTheExampleConfigurationLoads(t *testing.T) {
	t.Setenv("HOLDPOINT_SANDBOX_URL", "http://127.0.0.1:18080/")
	loaded, err := config.LoadDir(exampleDir)
	require.NoError(t, err)
	require.Len(t, loaded.Tenants, 1)
	demo := loaded.Tenants[0]

	require.Equal(t, "demo", demo.ID)
	require.Equal(t, []string{"crm-enrichment@3", "support-refunds@2", "contact-notes@1", "order-desk@1"}, demo.WorkflowVersions)
	key := sha256.Sum256([]byte("hp_demo_key_for_local_use_only"))
	require.Equal(t, []config.APIKey{{Name: "demo", SHA256: hex.EncodeToString(key[:]),
		Scopes: []string{"publish", "work", "read"}}}, demo.APIKeys)

	require.Len(t, demo.Sources, 11)
	require.Equal(t, config.KeyRule{Header: "Idempotency-Key"}, demo.Sources[0].ActiveRules().Key)
	require.Equal(t, "/proposal", demo.Sources[0].Proposal)
	require.Equal(t, config.HashRule{Exclude: []string{"/delivered_at"}}, demo.Sources[1].ActiveRules().Hash)
	require.Equal(t, config.Lease{Duration: 30 * time.Second, MaxLifetime: 10 * time.Minute}, demo.Sources[2].Lease)

	refund := demo.Action("payment.refund")
	require.False(t, refund.Reversible)
	require.Equal(t, map[string]string{"needs_lead": "100.00", "refused": "5000.00"}, refund.Thresholds)
	require.Equal(t, []string{"support-lead"}, refund.Audience)
	require.Equal(t, 4*time.Hour, refund.DecideWithin)
	require.Equal(t, time.Hour, refund.ExecuteWithin)
	require.Equal(t, config.ReviewRule{Quorum: 1, TypedReason: true, RecentSignIn: 15 * time.Minute, RemindBefore: time.Hour},
		refund.Review)
	require.Equal(t, config.ReviewRule{Quorum: 1, RemindBefore: 6 * time.Hour}, demo.Action("crm.contact.update").Review)
	require.Equal(t, "/requested_by", demo.Sources[1].Requester)
	require.Empty(t, demo.Sources[0].Requester)

	crm := demo.Connectors[0]
	require.Equal(t, "http://127.0.0.1:18080", crm.BaseURL)
	require.Equal(t, []string{"127.0.0.1:18080"}, crm.AllowedHosts)
	update := crm.Operations[0]
	require.Equal(t, map[string]any{"reference": "${operation_id}", "fields": "${proposed_change.fields}"}, update.Body)
	require.Equal(t, `"${current_version}"`, update.Conditional.Value)
	require.Equal(t, 2*time.Second, update.Lookup.IndexLag)
	require.True(t, update.Lookup.Conclusive)
	require.False(t, update.IdempotentCreate())
	require.True(t, demo.Connectors[1].Operations[0].IdempotentCreate())

	require.Len(t, demo.PolicyVersion, 64)
	require.Len(t, loaded.Version, 64)
	require.Equal(t, "tenants/demo/policy.yaml", demo.Rules[0].Pos.File)
}

func TestTheExampleConfigurationHasAHumanGate(t *testing.T) {
	t.Parallel()
	loaded, err := newWorld(t).load()
	require.NoError(t, err)
	demo := loaded.Tenants[0]

	for _, id := range []string{"rita", "nora", "sam", "otto", "carl"} {
		person := demo.PersonBySubject("", id)
		require.NotNil(t, person, id)
		require.Equal(t, id, person.ID)
		require.Equal(t, id+"@example.test", person.Email)
		require.False(t, person.Disabled)
	}
	require.Equal(t, "rita", demo.PersonByAlias("rita@helpdesk.example.test").ID)
	require.Equal(t, []string{"sales-operations", "support-lead"}, demo.RolesOf(map[string]any{"groups": []any{"support-leads"}}))

	require.Equal(t, []*config.Channel{
		{ID: "support-mail", Kind: config.ChannelEmail, Roles: []string{"support-lead"}, Timeout: 10 * time.Second,
			Email: &config.Email{Server: "127.0.0.1:7077", From: "holdpoint@example.test",
				To: []string{"nora@example.test", "sam@example.test"}, TLS: config.TLSNone}},
		{ID: "help-desk", Kind: config.ChannelWebhook, Timeout: 10 * time.Second,
			Webhook: &config.Webhook{URL: "http://127.0.0.1:7080/hooks/help-desk", AllowedHosts: []string{"127.0.0.1:7080"},
				Secret: "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk="}},
	}, demo.Channels)
}
