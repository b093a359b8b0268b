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

func TestValidator(t *testing.T) {
	t.Parallel()

	parse := func(t *testing.T, text string) canonical.Value {
		t.Helper()
		value, err := canonical.Parse([]byte(text))
		require.NoError(t, err)
		return value
	}
	check := func(t *testing.T, text string) string {
		t.Helper()
		var found []string
		for _, e := range config.MustValidator("strict", []byte(strictSchema)).Check(parse(t, text)) {
			found = append(found, e.Pointer+" "+e.Detail)
		}
		return strings.Join(found, "; ")
	}

	cases := []struct{ name, value, want string }{
		{"Fits", `{"amount": 10.10, "currency": "EUR", "note": "short", "fields": {"a/b": 2.0}}`, ""},
		{"TheLargestExactly", `{"amount": 9007199254740993}`, ""},
		{"OneCentOverTheLargest", `{"amount": 9007199254740993.01}`, "/amount must be at most 9007199254740993"},
		{"AFractionOfACent", `{"amount": 0.001}`, "/amount must be a multiple of 0.01"},
		{"Nothing", `{}`, "/amount is missing"},
		{"Zero", `{"amount": 0}`, "/amount must be greater than 0"},
		{"AnotherLetterCase", `{"Amount": 5}`,
			"/Amount is not a known field; names are exact in letter case; /amount is missing"},
		{"ACaseTwinTwoLevelsDeep", `{"amount": 5, "fields": {"a/b": 2, "A/b": 3}}`, "/fields/A~1b is not a known field"},
		{"AText", `{"amount": "5"}`, "/amount must be number, found string"},
		{"Null", `{"amount": null}`, "/amount must be number, found null"},
		{"OutsideTheEnum", `{"amount": 5, "currency": "eur"}`, "/currency is not allowed: value must be one of 'EUR', 'USD'"},
		{"TooLong", `{"amount": 5, "note": "longer"}`, "/note is not allowed: maxLength: got 6, want 5"},
		{"AgainstThePattern", `{"amount": 5, "code": "secret"}`, "/code must match ^[A-Z]+$"},
		{"AgainstTheFormat", `{"amount": 5, "mail": "secret"}`, "/mail must be a valid email"},
		{"TooSmallInside", `{"amount": 5, "fields": {"a/b": 1}}`, "/fields/a~1b must be at least 2"},
		{"NoObject", `[]`, " must be object, found array"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found := check(t, tc.value)
			require.Equal(t, tc.want == "", found == "", found)
			require.Contains(t, found, tc.want)
			require.NotContains(t, found, "secret", "values stay out of messages")
		})
	}

	t.Run("ANameThatIsTooLongToReadIsCut", func(t *testing.T) {
		t.Parallel()
		found := check(t, `{"amount": 5, "`+strings.Repeat("ü", 10_000)+`": 0}`)
		require.Less(t, len(found), 400)
		require.Contains(t, found, "ü… is not a known field")
	})

	t.Run("APartOfADocumentIsCheckedLikeTheSameValueAlone", func(t *testing.T) {
		t.Parallel()
		document := config.NewDocument(parse(t, `{"list": [{"a/b": {"amount": "5"}}]}`))
		part, ok := document.At("/list/0/a~1b")
		require.True(t, ok)
		require.Equal(t, []contracts.FieldError{{Pointer: "/amount", Detail: "must be number, found string"}},
			config.MustValidator("strict", []byte(strictSchema)).CheckDocument(part))
		_, ok = document.At("/list/1")
		require.False(t, ok)
		whole, ok := document.At("")
		require.True(t, ok)
		require.Equal(t, document, whole)
	})
}
