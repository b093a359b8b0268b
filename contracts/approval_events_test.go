package contracts

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestApprovalDecided(t *testing.T) {
	t.Parallel()

	type testBundle struct {
		data *ApprovalDecided
		text string
	}
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		data := samples()["approval.decided.v1"].(*ApprovalDecided)
		return &testBundle{data, string(sampleEvent(t, data).AppendJSON(nil))}
	}

	t.Run("AVoteShortOfTheQuorumIsNotFinalAndSaysSo", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		bundle.data.Final, bundle.data.Reason = false, ""
		event := sampleEvent(t, bundle.data)
		text := event.AppendJSON(nil)
		require.Contains(t, string(text), `"final":false`)
		require.NotContains(t, string(text), `"reason"`)
		require.NoError(t, validate(t, "approval.decided.v1", text))
		got, err := Decode(text)
		require.NoError(t, err)
		require.Equal(t, event, got)
	})

	t.Run("AnEmptyReasonIsRead", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		text := strings.Replace(bundle.text, bundle.data.Reason, "", 1)
		require.NoError(t, validate(t, "approval.decided.v1", []byte(text)))
		got, err := Decode([]byte(text))
		require.NoError(t, err)
		require.Empty(t, got.Data.(*ApprovalDecided).Reason)
	})

	t.Run("TheTimeIsReadInUTCAndInMicroseconds", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		got, err := Decode([]byte(strings.Replace(bundle.text, `"decided_at":"2026-12-01T10:30:00.123456Z"`,
			`"decided_at":"2026-12-01T12:30:00.123456789+02:00"`, 1)))
		require.NoError(t, err)
		require.Equal(t, sampleMeta.Time, got.Data.(*ApprovalDecided).DecidedAt)
	})

	const decidedAt = `"decided_at":"2026-12-01T10:30:00.123456Z"`
	refused := []struct{ name, old, new, says string }{
		{"FinalLeftOut", `"final":true,`, ``, "final is missing"},
		{"FinalAsText", `"final":true`, `"final":"true"`, "final must be true or false"},
		{"FinalOfNull", `"final":true`, `"final":null`, "final must be true or false"},
		{"FinalAsNumber", `"final":true`, `"final":1`, "final must be true or false"},
		{"FinalTwice", `"final":true`, `"final":true,"final":false`, "final is there twice"},
		{"AnotherDecision", `"decision":"approve"`, `"decision":"approved"`,
			`decision is "approved", allowed: approve, reject`},
		{"NobodyDecided", `"reviewer_id":"https://id.example.test#nora"`, `"reviewer_id":""`, "reviewer_id is missing"},
		{"NoTime", decidedAt + ",", ``, "decided_at is missing"},
		{"ADateAlone", decidedAt, `"decided_at":"2026-12-01"`, "which is not RFC 3339"},
		{"ATimeAsNumber", decidedAt, `"decided_at":1764585000`, "decided_at must be a string"},
		{"AYearOfFiveDigitsInUTC", decidedAt, `"decided_at":"9999-12-31T23:59:59-01:00"`, "which is not RFC 3339"},
		{"AYearBeforeZeroInUTC", decidedAt, `"decided_at":"0000-01-01T00:00:00+01:00"`, "which is not RFC 3339"},
	}
	for _, tc := range refused {
		t.Run("Refused/"+tc.name, func(t *testing.T) {
			t.Parallel()
			bundle := setup(t)
			require.Contains(t, bundle.text, tc.old, "the case must change something")
			_, err := Decode([]byte(strings.Replace(bundle.text, tc.old, tc.new, 1)))
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorContains(t, err, tc.says)
		})
	}

	t.Run("NoneIsMadeWithoutATime", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		bundle.data.DecidedAt = time.Time{}
		_, err := New(sampleMeta, bundle.data)
		require.ErrorContains(t, err, "decided_at is missing")
	})
}
