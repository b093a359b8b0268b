package config_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const (
	proposerPrompt = "tenants/demo/prompts/drafted.tmpl"
	proposerSource = `
  - id: drafted
    mode: worker
    lease: {duration: 30s, max_lifetime: 10m}
    rules: [{version: 1, key: {header: Idempotency-Key}}]
    proposer:
      base_url: https://models.example.com/v1/
      api_key_env: MODEL_KEY
      provider_class: openai_compatible
      model: some-model
      action_types: [crm.contact.update]
      workflow_version: crm-enrichment@3
      records:
        - {name: note, pointer: /note}
      evidence:
        - {source: crm, version: /contact/version, observed_at: /contact/read_at}
      target: {system: crm, record_id: /contact/id}
      prompt: drafted.tmpl
`
)

// newProposerWorld is the example with one more source.
func newProposerWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.fs[demo+"sources.yaml"].Data = append(w.fs[demo+"sources.yaml"].Data, proposerSource...)
	w.fs[proposerPrompt] = &fstest.MapFile{Data: []byte("Look:\n{{.Records}}\n")}
	return w
}

func TestProposersRefused(t *testing.T) {
	t.Parallel()
	const sources = "sources.yaml"
	model := func(setting string) string { return "model: some-model\n      " + setting }
	for _, tc := range []refusal{
		{"NoAddress", sources, "base_url: https://models.example.com/v1/", "# none", "base_url is missing"},
		{"AnAddressThatIsNone", sources, "https://models.example.com/v1/", "models.example.com",
			"which must be an absolute http or https URL"},
		{"ACredentialInTheAddress", sources, "https://models", "https://u:p@models",
			"base_url must have no user, query or fragment"},
		{"AKeyInTheClearToAnotherMachine", sources, "https://models", "http://models",
			"base_url is http to another machine, over which no API key may travel"},
		{"AHostThatIsNotTheAddresss", sources, "model: some-model", model("allowed_hosts: [other.example.com]"),
			`allowed_hosts lacks "models.example.com", the host of base_url`},
		{"TwoKeys", sources, "model: some-model", model("api_key_file: /run/key"),
			"api_key_file and api_key_env are both set"},
		{"AVariableWithoutAName", sources, "MODEL_KEY", "sk-12345", `api_key_env is "sk-12345", allowed: the name of an`},
		{"NoModel", sources, "model: some-model", "# none", "model is missing; it must be a text"},
		{"NoProviderClass", sources, "provider_class: openai_compatible", "# none", "provider_class is missing"},
		{"AModelThatCannotBeRecorded", sources, "some-model", "/some model", `model is "/some model", allowed: 1 to 128`},
		{"ACallLongerThanAll", sources, "model: some-model", model("timeout: 5m"),
			"timeout is 5m0s, which must not be longer than total_time, 4m0s"},
		{"MoreTimeThanTheLeaseCanHave", sources, "model: some-model", model("total_time: 10m"),
			"total_time is 10m0s, which must be shorter than the lease's max_lifetime, 10m0s"},
		{"TooManyRepairs", sources, "model: some-model", model("repair: 4"), "repair must be a whole number from 0 to 3"},
		{"NoOutput", sources, "model: some-model", model("max_output_tokens: 0"), "max_output_tokens must be a whole number"},
		{"MoreOutputThanAll", sources, "model: some-model", model("max_tokens_total: 100"),
			"max_output_tokens is 2000, which must not be more than max_tokens_total, 100"},
		{"TooManyAtATime", sources, "model: some-model", model("concurrency: 101"), "concurrency must be a whole number"},
		{"AnUnknownOutputLimit", sources, "model: some-model", model("output_limit: num_predict"),
			"allowed: max_tokens, max_completion_tokens"},
		{"AnUnknownSetting", sources, "model: some-model", model("temperature: 1"), "temperature is not a known setting"},
		{"NoActionType", sources, "[crm.contact.update]", "[]", "action_types must list at least one action type"},
		{"AnActionTypeThatIsNotRegistered", sources, "[crm.contact.update]", "[crm.contact.delete]",
			`action_types has "crm.contact.delete", which actions.yaml does not register, allowed: crm.contact.update`},
		{"AWorkflowThatIsNotDeclared", sources, "workflow_version: crm-enrichment@3", "workflow_version: crm-enrichment@4",
			`workflow_version is "crm-enrichment@4", which tenant.yaml does not declare, allowed: crm-enrichment@3`},
		{"NoRecord", sources, "records:\n        - {name: note, pointer: /note}", "records: []",
			"records must list at least one part of the event"},
		{"ARecordWithoutAPlace", sources, "{name: note, pointer: /note}", "{name: note}",
			"pointer is missing; it must be a JSON pointer"},
		{"ARecordOfTheWholeEvent", sources, "pointer: /note", `pointer: ""`, "pointer must be a JSON pointer such as"},
		{"TwoRecordsOfOneName", sources, "{name: note, pointer: /note}", "{name: note, pointer: /note}\n        " +
			"- {name: note, pointer: /n}", `name "note" is declared already`},
		{"EvidenceWithoutAVersion", sources, "version: /contact/version, ", "", "evidence must have exactly one of version"},
		{"EvidenceWithTwoVersions", sources, "version: /contact/version, ", "version: /v, record: note, ",
			"evidence must have exactly one of version"},
		{"EvidenceOfARecordThatTheModelDoesNotSee", sources, "version: /contact/version, ", "record: contact, ",
			`evidence has the record "contact", which is not among the records, allowed: note`},
		{"EvidenceWithoutATime", sources, ", observed_at: /contact/read_at", "", "observed_at is missing; it must be a JSON"},
		{"NoTarget", sources, "target: {system: crm, record_id: /contact/id}", "# none", "target is missing"},
		{"ATargetThatTheModelCouldChoose", sources, ", record_id: /contact/id", "",
			"record_id is missing; it must be a JSON pointer"},
		{"ASystemWithALongName", sources, "system: crm", "system: " + strings.Repeat("x", 129),
			"system has 129 bytes; at most 128 are allowed"},
		{"AFixedMemberThatTheActionDoesNotHave", sources, "model: some-model", model("fixed: {payment_id: /payment/id}"),
			`fixed has "payment_id", which the schema of crm.contact.update does not have`},
		{"NoPrompt", sources, "prompt: drafted.tmpl", "# none", "prompt is missing; it must be a text"},
		{"APromptElsewhere", sources, "prompt: drafted.tmpl", "prompt: ../drafted.tmpl",
			`prompt is "../drafted.tmpl", allowed`},
		{"APromptThatIsNotThere", sources, "prompt: drafted.tmpl", "prompt: other.tmpl",
			"there is no file tenants/demo/prompts/other.tmpl"},
		{"APromptThatDoesNotParse", "prompts/drafted.tmpl", "{{.Records}}", "{{.Records",
			"prompts/drafted.tmpl:3:1: template: drafted:3: unclosed action started at drafted:2"},
		{"APromptThatWantsTheEvent", "prompts/drafted.tmpl", "{{.Records}}", "{{.Records}}\n{{.Event}}",
			"prompts/drafted.tmpl:3:1: template: drafted:3:"},
		{"APromptWithoutTheRecords", "prompts/drafted.tmpl", "{{.Records}}", "the records", "must have {{.Records}} where"},
		{"AnInlineSource", sources, "  - id: drafted\n    mode: worker", "  - id: drafted\n    mode: inline",
			"proposer is for mode worker; in mode inline the event carries its proposal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newProposerWorld(t)
			w.replaceLast(tc.file, tc.old, tc.new)
			_, err := w.load()
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, "1 to mend:\n", "one mistake is one complaint")
			require.Contains(t, err.Error(), tc.file+":", "the place is named")
			require.NotContains(t, err.Error(), "u:p@")
		})
	}
}

// replaceLast changes the last place where the text stands: the source that newProposerWorld added.
func (w *world) replaceLast(file, old, new string) {
	w.t.Helper()
	text := string(w.fs[demo+file].Data)
	at := strings.LastIndex(text, old)
	require.GreaterOrEqual(w.t, at, 0, "the case must change something")
	w.fs[demo+file] = &fstest.MapFile{Data: []byte(text[:at] + new + text[at+len(old):])}
}

func noteDraft() config.Draft {
	return config.Draft{
		ActionTypes: []string{"crm.contact.update"}, WorkflowVersion: "crm-enrichment@3",
		Records:  []config.RecordRule{{Name: "note", Pointer: "/note"}},
		Evidence: []config.CitationRule{{Source: "crm", Version: "/contact/version", ObservedAt: "/contact/read_at"}},
		Target:   config.TargetRule{System: "crm", RecordID: "/contact/id"},
	}
}

func TestProposers(t *testing.T) {
	t.Parallel()

	proposer := func(t *testing.T, w *world) *config.Proposer {
		t.Helper()
		loaded, err := w.load()
		require.NoError(t, err)
		sources := loaded.Tenants[0].Sources
		return sources[len(sources)-1].Proposer
	}

	t.Run("TheRestHasDefaults", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, &config.Proposer{
			BaseURL: "https://models.example.com/v1", AllowedHosts: []string{"models.example.com"}, APIKeyEnv: "MODEL_KEY",
			ProviderClass: "openai_compatible", Model: "some-model", Timeout: time.Minute, TotalTime: 4 * time.Minute,
			Repair: 1, MaxOutputTokens: 2000, MaxInputBytes: 64 << 10, MaxTokens: 100_000, Concurrency: 4,
			OutputLimit: config.OutputLimitTokens, Draft: noteDraft(),
			Prompt: config.Prompt{Name: "drafted", Text: "Look:\n{{.Records}}\n"},
		}, proposer(t, newProposerWorld(t)))
	})

	t.Run("PlacesComeFromTheEnvironment", func(t *testing.T) {
		t.Parallel()
		w := newProposerWorld(t)
		w.replaceLast("sources.yaml", "https://models.example.com/v1/", "${MODEL_URL}")
		w.replaceLast("sources.yaml", "api_key_env: MODEL_KEY", "api_key_file: ${MODEL_KEY_FILE:-/run/key}")
		w.env["MODEL_URL"] = "http://localhost:11434/v1"
		p := proposer(t, w)
		require.Equal(t, "http://localhost:11434/v1", p.BaseURL)
		require.Equal(t, []string{"localhost:11434"}, p.AllowedHosts)
		require.Equal(t, "/run/key", p.APIKeyFile)
	})

	t.Run("AServerOfTheOwnNetworkMayBeWithoutKeyAndEncryption", func(t *testing.T) {
		t.Parallel()
		w := newProposerWorld(t)
		w.replaceLast("sources.yaml", "https://models.example.com/v1/\n      api_key_env: MODEL_KEY",
			"http://models.models.svc:8000/v1\n      allowed_hosts: [\"models.models.svc:8000\", 10.0.0.0]")
		require.Empty(t, proposer(t, w).APIKeyEnv)
	})

	t.Run("WhatTheModelMayNotChooseComesFromTheEvent", func(t *testing.T) {
		t.Parallel()
		w := newProposerWorld(t)
		w.replaceLast("sources.yaml", "[crm.contact.update]", "[payment.refund]")
		w.replaceLast("sources.yaml", "target:", "fixed: {payment_id: /payment/id}\n      current_version: /v\n      target:")
		p := proposer(t, w)
		require.Equal(t, []config.FixedRule{{Member: "payment_id", Pointer: "/payment/id"}}, p.Fixed)
		require.Equal(t, "/v", p.CurrentVersion)
	})

	t.Run("AChangedPromptIsAnotherConfiguration", func(t *testing.T) {
		t.Parallel()
		w := newProposerWorld(t)
		before, err := w.load()
		require.NoError(t, err)
		w.replace("prompts/drafted.tmpl", "Look", "See")
		after, err := w.load()
		require.NoError(t, err)
		require.NotEqual(t, before.Version, after.Version)
	})
}
