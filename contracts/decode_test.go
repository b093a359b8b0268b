package contracts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	t.Parallel()

	type testBundle struct{ text string }
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		return &testBundle{text: string(sampleEvent(t, samples()["intent.submitted.v1"]).AppendJSON(nil))}
	}

	refused := []struct {
		name     string
		old, new string // replaced in a good event
		want     error
		says     string
	}{
		{"AnUnknownTypeIsToldApart", "holdpoint.intent.submitted.v1", "holdpoint.intent.vanished.v1", ErrUnknownType,
			"vanished"},
		{"AnUnknownVersionIsToldApart", "submitted.v1", "submitted.v2", ErrUnknownVersion,
			"reads holdpoint.intent.submitted.v1"},
		{"ATypeWithoutVersionIsUnknown", "intent.submitted.v1", "intent.submitted", ErrUnknownType, ""},
		{"NotJSON", `"run_id":`, `"run_id"`, ErrMalformed, "not JSON"},
		{"InvalidUTF8", "v1:8a7f", "v1:\xff", ErrMalformed, "UTF-8"},
		{"OtherSpecVersion", `"1.0"`, `"0.3"`, ErrMalformed, "allowed: 1.0"},
		{"MissingMember", `,"intent_hash":"v1:8a7f"`, ``, ErrMalformed, "intent_hash is missing"},
		{"RepeatedMember", `"intent_revision":1`, `"intent_revision":1,"intent_revision":2`, ErrMalformed, "there twice"},
		{"RepeatHiddenByAnEscape", `"intent_revision":1`, `"intent_revision":1,"intent\u005frevision":2`, ErrMalformed,
			"there twice"},
		{"OtherLetterCaseIsAnotherMember", `"intent_hash"`, `"Intent_Hash"`, ErrMalformed, "intent_hash is missing"},
		{"NumberAsText", `"intent_revision":1`, `"intent_revision":"1"`, ErrMalformed, "must be a plain integer"},
		{"FractionalNumber", `"intent_revision":1`, `"intent_revision":1.0`, ErrMalformed, "must be a plain integer"},
		{"NullText", `"intent_hash":"v1:8a7f"`, `"intent_hash":null`, ErrMalformed, "must be a string, found null"},
		{"DataIsNoObject", `"data":{`, `"data":[],"rest":{`, ErrMalformed, "must be a JSON object"},
		{"WrongTime", "2026-12-01T10", "2026-12-01 10", ErrMalformed, "not RFC 3339"},
		{"SourceOfAnotherTenant", "/holdpoint/demo", "/holdpoint/acme", ErrMalformed, `must be "/holdpoint/demo"`},
		{"SubjectOfAnotherRun", `"subject":"01939e1c-0`, `"subject":"01939e1c-1`, ErrMalformed, "as in the data"},
		{"IDIsNoUUIDv7", "7b5a-7c3d", "7b5a-4c3d", ErrMalformed, "UUIDv7"},
	}
	for _, tc := range refused {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bundle := setup(t)
			require.Contains(t, bundle.text, tc.old, "the case must change something")
			_, err := Decode([]byte(strings.Replace(bundle.text, tc.old, tc.new, 1)))
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, tc.says)
		})
	}

	t.Run("MembersOfALaterReleaseAreSkipped", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		want, err := Decode([]byte(bundle.text))
		require.NoError(t, err)
		later := strings.Replace(bundle.text, `"data":{`,
			`"ext": [1, {"data":"no"}, "}\""], "data": { "priority" : {"run_id":["x"]} , `, 1)
		got, err := Decode([]byte(later))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})

	t.Run("NullInAListIsRefused", func(t *testing.T) {
		t.Parallel()
		text := string(sampleEvent(t, samples()["run.awaiting_human.v1"]).AppendJSON(nil))
		_, err := Decode([]byte(strings.Replace(text, `"irreversible"`, `null`, 1)))
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, "reasons[0] must be a string")
	})
}

// FuzzDecode looks for input that crashes the decoder, or that is accepted and does not mean the same again.
func FuzzDecode(f *testing.F) {
	for _, data := range samples() {
		event, err := New(sampleMeta, data)
		require.NoError(f, err)
		f.Add(event.AppendJSON(nil))
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(` [ ] `))
	f.Add([]byte(`"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		event, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(event.AppendJSON(nil))
		require.NoError(t, err)
		// Times past year 9999 or finer than a microsecond do not occur in what we write.
		again.Time, event.Time = sampleMeta.Time, sampleMeta.Time
		require.Equal(t, event, again)
	})
}
