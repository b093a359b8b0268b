package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestValidatorOfProposals(t *testing.T) {
	t.Parallel()

	const good = `{"action_type": "a.b", "target": {"system": "crm", "record_id": "c-1"}, "proposed_change": {"x": 1},
		"current_version": "7", "evidence": [{"source": "crm", "version": "7", "observed_at": "2026-12-01T11:00:00Z"}],
		"uncertainty": "low", "workflow_version": "crm-enrichment@3"}`
	type testBundle struct{ validator *config.Validator }
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		return &testBundle{config.MustValidator("proposal", contracts.ProposalSchema())}
	}
	check := func(t *testing.T, text string) []contracts.FieldError {
		t.Helper()
		value, err := canonical.Parse([]byte(text))
		require.NoError(t, err)
		return setup(t).validator.Check(value)
	}

	t.Run("AGoodOnePasses", func(t *testing.T) {
		t.Parallel()
		require.Nil(t, check(t, good))
	})

	cases := []struct{ name, old, new, pointer, detail string }{
		{"AMissingMember", `"action_type": "a.b", `, ``, "/action_type", "is missing"},
		{"AVersionAsNumber", `"current_version": "7"`, `"current_version": 7`, "/current_version",
			"must be string, found number"},
		{"UncertaintyInOtherWords", `"low"`, `"none"`, "/uncertainty",
			"is not allowed: value must be one of 'low', 'medium', 'high'"},
		{"NoTime", `"2026-12-01T11:00:00Z"`, `"secret"`, "/evidence/0/observed_at", "must be a valid date-time"},
		{"ACaseTwin", `"record_id": "c-1"`, `"record_id": "c-1", "Record_ID": "c-2"`, "/target/Record_ID",
			"is not a known field; names are exact in letter case"},
		{"AChangeThatIsNoObject", `{"x": 1}`, `[]`, "/proposed_change", "must be object, found array"},
		{"AVoteOfItsOwn", `"uncertainty": "low"`, `"auto_reply": true`, "/auto_reply",
			"is not a known field; names are exact in letter case"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, tc.old, tc.new, 1)
			require.NotEqual(t, good, text)
			require.Equal(t, []contracts.FieldError{{Pointer: tc.pointer, Detail: tc.detail}}, check(t, text))
		})
	}

	t.Run("ManyErrorsAreBoundedAndAlwaysInTheSameOrder", func(t *testing.T) {
		t.Parallel()
		var extra []string
		for c := 'a'; c <= 'z'; c++ {
			extra = append(extra, `"`+string(c)+`": 0`)
		}
		text := strings.Replace(good, "{", "{"+strings.Join(extra, ", ")+", ", 1)
		for range 20 {
			found := check(t, text)
			require.Len(t, found, 20)
			require.Equal(t, "/a", found[0].Pointer)
			require.Equal(t, "/t", found[19].Pointer)
		}
	})

	t.Run("ABrokenSchemaPanicsAtTheStart", func(t *testing.T) {
		t.Parallel()
		require.PanicsWithError(t, "reading schema x: EOF", func() { config.MustValidator("x", nil) })
	})
}
