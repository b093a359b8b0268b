package config_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// newAgentWorld is the example with a source whose proposals an agent drafts.
func newAgentWorld(t *testing.T) *world {
	t.Helper()
	w := newProposerWorld(t)
	w.replaceLast("sources.yaml",
		"    proposer:\n      base_url: https://models.example.com/v1/\n      api_key_env: MODEL_KEY\n",
		"    agent:\n      webhook: {url: https://agents.example.com/drafts, secret_env: AGENT_SECRET}\n")
	w.replaceLast("sources.yaml", "      prompt: drafted.tmpl\n", "")
	return w
}

func TestAgents(t *testing.T) {
	t.Parallel()

	t.Run("TheRestHasDefaults", func(t *testing.T) {
		t.Parallel()
		loaded, err := newAgentWorld(t).load()
		require.NoError(t, err)
		sources := loaded.Tenants[0].Sources
		source := sources[len(sources)-1]
		require.Equal(t, &config.Agent{
			Webhook: &config.Webhook{URL: "https://agents.example.com/drafts", SecretEnv: "AGENT_SECRET",
				AllowedHosts: []string{"agents.example.com"}},
			ProviderClass: "openai_compatible", Model: "some-model", Timeout: time.Minute, TotalTime: 4 * time.Minute,
			MaxInputBytes: 64 << 10, Concurrency: 4, Draft: noteDraft(),
		}, source.Agent)
		require.Same(t, &source.Agent.Draft, source.Draft())
	})

	for _, tc := range []refusal{
		{"NoWebhook", "sources.yaml", "webhook: {url: https://agents.example.com/drafts, secret_env: AGENT_SECRET}", "# none",
			"webhook is missing"},
		{"NoSecret", "sources.yaml", ", secret_env: AGENT_SECRET", "", "webhook must have exactly one of secret, secret_env"},
		{"APrompt", "sources.yaml", "model: some-model", "prompt: drafted.tmpl\n      model: some-model",
			"prompt is not a known setting here"},
		{"ACallLongerThanTheLease", "sources.yaml", "model: some-model", "model: some-model\n      total_time: 10m",
			"total_time is 10m0s, which must be shorter than the lease's max_lifetime, 10m0s"},
		{"AnActionTypeThatIsNotRegistered", "sources.yaml", "[crm.contact.update]", "[crm.contact.delete]",
			`action_types has "crm.contact.delete"`},
		{"AnInlineSource", "sources.yaml", "  - id: drafted\n    mode: worker", "  - id: drafted\n    mode: inline",
			"agent is for mode worker"},
	} {
		t.Run(tc.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			w := newAgentWorld(t)
			w.replaceLast(tc.file, tc.old, tc.new)
			_, err := w.load()
			require.ErrorContains(t, err, "1 to mend:\ntenants/demo/sources.yaml:")
			require.ErrorContains(t, err, tc.says)
		})
	}

	t.Run("AProposerBesideItIsRefused", func(t *testing.T) {
		t.Parallel()
		w := newProposerWorld(t)
		_, agent, _ := strings.Cut(string(newAgentWorld(t).fs[demo+"sources.yaml"].Data), "    agent:")
		text := append(w.fs[demo+"sources.yaml"].Data, "    agent:"+agent...)
		w.fs[demo+"sources.yaml"] = &fstest.MapFile{Data: text}
		_, err := w.load()
		require.ErrorContains(t, err, "agent and proposer are both set")
	})
}
