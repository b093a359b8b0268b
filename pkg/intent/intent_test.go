package intent_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy"
)

const full = `{"action_type":"crm.contact.update","target":{"system":"crm","record_id":"c-1"},
	"proposed_change":{"fields":{"credit":9007199254740993.10,"city":"Lisbon"}},"current_version":"7",
	"evidence":[{"source":"crm","version":"7","observed_at":"2026-12-01T11:00:00Z","url":"https://crm.example/c-1"}],
	"assumptions":["the city is current"],"uncertainty":"low",
	"model":{"provider_class":"openai-compatible","name":"m","revision":"1"},"workflow_version":"crm-enrichment@3"}`

func parse(t *testing.T, text string) canonical.Value {
	t.Helper()
	value, err := canonical.Parse([]byte(text))
	require.NoError(t, err)
	return value
}

// origin is where the proposals of these tests come from.
func origin() intent.Origin {
	return intent.Origin{TenantID: "demo", Key: "k", Source: "crm", Revision: 1, PolicyVersion: "p1",
		Registered: registered(&config.Action{Connector: "sandbox-crm", Operation: "update_contact"},
			&config.Connector{BaseURL: "https://crm.example", BearerEnv: "CRM_TOKEN"})}
}

func registered(a *config.Action, c *config.Connector) func(string) (*config.Action, *config.Connector) {
	return func(string) (*config.Action, *config.Connector) { return a, c }
}

func build(t *testing.T, proposal string, o intent.Origin) *ledger.Intent {
	t.Helper()
	require.Empty(t, intent.Check(config.NewDocument(parse(t, proposal))))
	built, err := intent.Build(parse(t, proposal), o)
	require.NoError(t, err)
	return built
}

func TestSnapshots(t *testing.T) {
	t.Parallel()

	t.Run("WhatWasBuiltIsReadBack", func(t *testing.T) {
		t.Parallel()
		built := build(t, full, origin())
		require.Equal(t, "crm.contact.update", built.ActionType)
		require.JSONEq(t, `{"provider_class":"openai-compatible","name":"m","revision":"1"}`, string(built.Model))
		s, err := intent.Read(built.Canonical, built.Hash)
		require.NoError(t, err)
		require.Equal(t, `{"fields":{"city":"Lisbon","credit":9007199254740993.1}}`, s.Change.String(),
			"digits are exact")
		require.Equal(t, `{"record_id":"c-1","system":"crm"}`, s.Target.String())
		require.Equal(t, []intent.Evidence{{Source: "crm", Version: "7", URL: "https://crm.example/c-1",
			ObservedAt: time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC)}}, s.Evidence)
		s.Action, s.Target, s.Change, s.Evidence, s.Tree = canonical.Value{}, canonical.Value{}, canonical.Value{}, nil, canonical.Value{}
		require.Equal(t, &intent.Snapshot{Ordinal: 1, Stage: 1, TenantID: "demo", RunKey: "k", Revision: 1, ActionType: "crm.contact.update",
			Connector: "sandbox-crm",
			Operation: "update_contact", Destination: "https://crm.example", Credential: "env:CRM_TOKEN", TargetSystem: "crm", TargetRecord: "c-1",
			CurrentVersion: "7", Uncertainty: "low", WorkflowVersion: "crm-enrichment@3", PolicyVersion: "p1"}, s)
	})

	t.Run("TheSmallestProposalIsReadBack", func(t *testing.T) {
		t.Parallel()
		o := origin()
		o.Registered = registered(nil, nil) // an unregistered type, which policy rejects
		built := build(t,
			`{"action_type":"a","target":{"system":"s","record_id":"r"},"proposed_change":{},"workflow_version":"w"}`,
			o)
		require.Empty(t, built.Model)
		s, err := intent.Read(built.Canonical, built.Hash)
		require.NoError(t, err)
		require.Empty(t, s.Connector+s.Operation+s.Destination+s.Credential+s.CurrentVersion+s.Uncertainty)
		require.Empty(t, s.Evidence)
		require.Equal(t, "{}", s.Change.String())
	})

	// A hash that covers only part of what happens matches an approval for something else (HASH-08, A11).
	t.Run("TheHashCoversAllThatDecidesWhatHappens", func(t *testing.T) {
		t.Parallel()
		hash := build(t, full, origin()).Hash
		require.Equal(t, hash, build(t, strings.Replace(full, "9007199254740993.10", "9007199254740993.1", 1),
			origin()).Hash)
		for _, change := range [][2]string{{"crm.contact.update", "crm.contact.upsert"},
			{`"system":"crm"`, `"system":"erp"`}, {"c-1\"}", "c-2\"}"},
			{"993.10", "992.10"}, {"Lisbon", "Lisboa"}, {`"current_version":"7",`, ``}, {`"current_version":"7"`,
				`"current_version":"8"`},
			{`"version":"7","observed`, `"version":"6","observed`}, {"11:00:00Z", "11:00:01Z"}, {"crm.example/c-1",
				"crm.example/c-2"},
			{"the city", "a city"}, {`"uncertainty":"low",`, ``}, {`"name":"m"`, `"name":"n"`}, {"enrichment@3",
				"enrichment@4"}} {
			changed := strings.Replace(full, change[0], change[1], 1)
			require.NotEqual(t, full, changed)
			require.NotEqual(t, hash, build(t, changed, origin()).Hash, change[1])
		}
		for name, change := range map[string]func(*intent.Origin){
			"tenant": func(o *intent.Origin) { o.TenantID = "acme" }, "key": func(o *intent.Origin) { o.Key = "k2" },
			"source": func(o *intent.Origin) { o.Source = "other" }, "revision": func(o *intent.Origin) { o.Revision = 2 },
			"policy":      func(o *intent.Origin) { o.PolicyVersion = "p2" },
			"connector":   func(o *intent.Origin) { a, _ := o.Registered(""); a.Connector = "other" },
			"operation":   func(o *intent.Origin) { a, _ := o.Registered(""); a.Operation = "other" },
			"destination": func(o *intent.Origin) { _, c := o.Registered(""); c.BaseURL = "https://crm.example.net" },
			"credential":  func(o *intent.Origin) { _, c := o.Registered(""); c.BearerEnv = "OTHER_TOKEN" },
			"kind of credential": func(o *intent.Origin) {
				_, c := o.Registered("")
				c.BearerEnv, c.BearerFile = "", "CRM_TOKEN"
			},
		} {
			o := origin()
			change(&o)
			require.NotEqual(t, hash, build(t, full, o).Hash, name)
		}
	})

	t.Run("BytesOtherThanTheHashedAreRefused", func(t *testing.T) {
		t.Parallel()
		built := build(t, full, origin())
		_, err := intent.Read([]byte(strings.Replace(string(built.Canonical), "Lisbon", "Lisboa", 1)), built.Hash)
		require.ErrorContains(t, err, "do not have the hash "+built.Hash.String())
		_, err = intent.Read(append([]byte(" "), built.Canonical...), built.Hash)
		require.ErrorContains(t, err, "do not have the hash", "also when only the spelling differs")
	})

	t.Run("AnotherReleasesLayoutIsRefused", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{`{"format":"holdpoint-intent-99"}`: `format "holdpoint-intent-99" is not one`, `{`: "read intent"} {
			_, err := intent.Read([]byte(text), canonical.Digest(sum(text)))
			require.ErrorContains(t, err, want)
		}
	})

	// Policy sees what was hashed, and nothing that a model may have written beside it (M6).
	t.Run("PolicyDecidesByTheSnapshot", func(t *testing.T) {
		t.Parallel()
		built := build(t, full, origin())
		s, err := intent.Read(built.Canonical, built.Hash)
		require.NoError(t, err)
		now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
		require.Equal(t, policy.Input{ActionType: "crm.contact.update",
			Target:         policy.Target{System: "crm", RecordID: "c-1"},
			ProposedChange: s.Change, CurrentVersion: "7", WorkflowVersion: "crm-enrichment@3", Uncertainty: "low", Now: now,
			Evidence: []policy.Evidence{{Source: "crm", Version: "7", URL: "https://crm.example/c-1",
				ObservedAt: time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC)}}}, s.Input(now))
	})
}

// The shape of a proposal is closed (M2): what it does not name cannot be said.
func TestCheck(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]contracts.FieldError{
		`"confidence":0.99`: {Pointer: "/confidence",
			Detail: "is not a known field; names are exact in letter case"},
		`"auto_reply":true`: {Pointer: "/auto_reply",
			Detail: "is not a known field; names are exact in letter case"},
		`"priority":"high"`: {Pointer: "/priority",
			Detail: "is not a known field; names are exact in letter case"},
		`"Uncertainty":"low"`: {Pointer: "/Uncertainty",
			Detail: "is not a known field; names are exact in letter case"},
		`"policy_version":"mine"`: {Pointer: "/policy_version",
			Detail: "is not a known field; names are exact in letter case"},
		`"operation_id":"forever"`: {Pointer: "/operation_id",
			Detail: "is not a known field; names are exact in letter case"},
	} {
		text := strings.Replace(full, "{", "{"+member+",", 1)
		require.Equal(t, []contracts.FieldError{want}, intent.Check(config.NewDocument(parse(t, text))))
	}
}

func sum(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// TestPlans is D10: a proposal of several actions.
func TestPlans(t *testing.T) {
	t.Parallel()
	action := func(record, more string) string {
		return `{"action_type":"crm.contact.update","target":{"system":"crm","record_id":"` + record + `"},"proposed_change":{"fields":{}}` + more + `}`
	}
	plan := func(actions ...string) string {
		return `{"actions":[` + strings.Join(actions, ",") + `],"workflow_version":"w@1"}`
	}

	t.Run("EveryActionIsReadBackWithItsStage", func(t *testing.T) {
		t.Parallel()
		built := build(t, plan(action("a", ``), action("b", `,"current_version":"2"`), action("c", `,"stage":2`), action("d", ``)), origin())
		require.Equal(t, "crm.contact.update", built.ActionType, "one type, however often")
		actions, err := intent.ReadActions(built.Canonical, built.Hash)
		require.NoError(t, err)
		require.Len(t, actions, 4)
		for i, want := range []struct {
			record string
			stage  int
		}{{"a", 1}, {"b", 2}, {"c", 2}, {"d", 3}} {
			require.Equal(t, []any{i + 1, want.record, want.stage, "w@1", "sandbox-crm"},
				[]any{actions[i].Ordinal, actions[i].TargetRecord, actions[i].Stage, actions[i].WorkflowVersion, actions[i].Connector})
		}
		second, err := intent.ReadAction(built.Canonical, built.Hash, 2)
		require.NoError(t, err)
		require.Equal(t, "2", second.CurrentVersion)
		require.Equal(t, ledger.EffectRequest{ActionType: "crm.contact.update", Connector: "sandbox-crm", Operation: "update_contact",
			TargetSystem: "crm", TargetRecord: "b", Stage: 2}, second.Effect(&config.Tenant{}))
		_, err = intent.ReadAction(built.Canonical, built.Hash, 5)
		require.ErrorContains(t, err, "it has 4 actions and none of ordinal 5")
	})

	t.Run("TheHashCoversEveryActionTheirOrderAndTheirStages", func(t *testing.T) { // A11
		t.Parallel()
		seen := map[canonical.Digest]string{}
		for _, text := range []string{
			plan(action("a", ``), action("b", ``)), plan(action("b", ``), action("a", ``)), plan(action("a", ``), action("b", `,"stage":1`)),
			plan(action("a", ``), action("b", ``), action("c", ``)), plan(action("a", ``), action("b", `,"current_version":"1"`)),
		} {
			hash := build(t, text, origin()).Hash
			require.Empty(t, seen[hash], text)
			seen[hash] = text
		}
	})

	t.Run("AProposalOfOneActionKeepsTheBytesThatItHasAlwaysHad", func(t *testing.T) {
		t.Parallel()
		built := build(t, action("a", `,"workflow_version":"w@1"`), origin())
		require.NotContains(t, string(built.Canonical), "stage")
	})

	t.Run("WhatIsNeitherOneActionNorSeveralIsRefused", func(t *testing.T) {
		t.Parallel()
		for text, pointer := range map[string]string{
			plan(action("a", ``)):                                              "/actions",
			plan(action("a", ``), action("b", `,"stage":0`)):                   "/actions/1/stage",
			plan(action("a", ``), action("b", `,"evidence":[]`)):               "/actions/1/evidence",
			plan(action("a", ``), `{"action_type":"x"}`):                       "/actions/1/proposed_change",
			`{"actions":[` + action("a", ``) + `,` + action("b", ``) + `]}`:    "/workflow_version",
			`{"action_type":"x",` + plan(action("a", ``), action("b", ``))[1:]: "/action_type",
		} {
			found := intent.Check(config.NewDocument(parse(t, text)))
			require.NotEmpty(t, found, text)
			require.Equal(t, pointer, found[0].Pointer, text)
		}
	})
}
