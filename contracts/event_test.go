package contracts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const sampleID = "01939e1c-7b5a-7c3d-8e4f-5a6b7c8d9e0f"

var sampleMeta = Meta{
	ID:          sampleID,
	Time:        time.Date(2026, 12, 1, 10, 30, 0, 123456000, time.UTC),
	TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}

// samples has one event of every type and version, named as its golden.
func samples() map[string]Data {
	ref := RunRef{TenantID: "demo", RunID: "01939e1c-0000-7000-8000-000000000001", IdempotencyKey: "enrich-4711",
		CorrelationID: "corr-4711"}
	return map[string]Data{
		"intent.submitted.v1": &IntentSubmitted{TenantID: "demo", RunID: ref.RunID, IntentRevision: 1,
			IntentHash: "v1:8a7f"},
		"effect.requested.v1": &EffectRequested{TenantID: "demo", RunID: ref.RunID, OperationID: "op-9c1d"},
		"effect.command.v1": &EffectCommand{TenantID: "demo", RunID: ref.RunID, OperationID: "op-9c1d", Connector: "warehouse",
			Operation: "reserve", CorrelationID: ref.CorrelationID, Attempt: 2, Token: "t-1",
			Action:  json.RawMessage(`{"action_type":"stock.reserve","target":{"system":"warehouse","record_id":"sku-1"}}`),
			LeaveBy: sampleMeta.Time.Add(30 * time.Second), LeaveWithinMS: 30_000},
		"run.accepted.v1": &RunAccepted{RunRef: ref, Source: "crm-enrichment", PayloadHash: "v1:51c0"},
		"run.awaiting_human.v1": &RunAwaitingHuman{RunRef: ref, IntentRevision: 2, IntentHash: "v1:8a7f",
			Reasons: []string{"irreversible", "evidence_stale"}},
		"run.sent_back.v1": &RunSentBack{RunRef: ref, IntentRevision: 1, IntentHash: "v1:8a7f", SentBy: "nora",
			Reasons: []string{"sent_back"}, Reason: "the amount is that of the other order"},
		"run.completed.v1": &RunCompleted{RunRef: ref, Outcome: OutcomeExecuted, OperationID: "op-9c1d",
			TargetReceipt: "upd_17"},
		"run.ended.v1": &RunEnded{RunRef: ref, Outcome: OutcomeFailed, Reason: "the account is closed",
			OperationID: "op-9c1d"},
		"run.conflict.v1": &RunConflict{RunRef: ref, Source: "crm-enrichment", StoredHash: "v1:51c0",
			ReceivedHash: "v1:77aa"},
		"approval.decided.v1": &ApprovalDecided{RunRef: ref, ApprovalID: "01939e1c-0000-7000-8000-0000000000a1",
			Decision: DecisionApprove, Final: true, ReviewerID: "https://id.example.test#nora",
			Reason: "the customer was charged twice", DecidedAt: sampleMeta.Time, IntentRevision: 2, IntentHash: "v1:8a7f"},
		"approval.requested.v1": &ApprovalRequested{RunRef: ref, ApprovalID: "01939e1c-0000-7000-8000-0000000000a1",
			ActionType: "payment.refund", Audience: []string{"support-lead", "operator"}, DecideBy: sampleMeta.Time,
			Kind: RequestEscalation},
		"run.refused.v1": &RunRefused{TenantID: "demo", Source: "crm-enrichment", Reason: CodeKeyMissing,
			MessageID: "msg-1", Detail: "header Idempotency-Key is missing", IdempotencyKey: "contact-17"},
	}
}

func sampleEvent(t *testing.T, data Data) Event {
	t.Helper()
	event, err := New(sampleMeta, data)
	require.NoError(t, err)
	return event
}

func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	require.NoError(t, err)
	return golden
}

func TestEvent(t *testing.T) {
	t.Parallel()

	t.Run("EveryGoldenDecodesAndEncodesBack", func(t *testing.T) {
		t.Parallel()
		for name, data := range samples() {
			golden, want := readGolden(t, name), sampleEvent(t, data)
			got, err := Decode(golden)
			require.NoError(t, err, name)
			require.Equal(t, want, got, name)
			require.JSONEq(t, string(golden), string(got.AppendJSON(nil)), name)
		}
	})

	t.Run("EveryTypeThatIsReadHasAGoldenAndEveryGoldenDecodes", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob("testdata/golden/*.json")
		require.NoError(t, err)
		read := map[string]bool{}
		for _, file := range files {
			event, err := Decode(readGolden(t, strings.TrimSuffix(filepath.Base(file), ".json")))
			require.NoError(t, err, file)
			read[event.Data.Type()] = true
		}
		for kind := range registry {
			require.True(t, read[kind], "%s has no golden", kind)
		}
	})

	t.Run("BusSubjectsAreTheDocumentedOnes", func(t *testing.T) {
		t.Parallel()
		want := map[string]string{
			"intent.submitted.v1":   "holdpoint.internal.intent.submitted",
			"effect.requested.v1":   "holdpoint.internal.effect.requested",
			"effect.command.v1":     "holdpoint.exec.demo.warehouse",
			"run.accepted.v1":       "holdpoint.events.demo.run.accepted",
			"run.awaiting_human.v1": "holdpoint.events.demo.run.awaiting_human",
			"run.sent_back.v1":      "holdpoint.events.demo.run.sent_back",
			"run.completed.v1":      "holdpoint.events.demo.run.completed",
			"run.ended.v1":          "holdpoint.events.demo.run.ended",
			"run.conflict.v1":       "holdpoint.events.demo.run.conflict",
			"run.refused.v1":        "holdpoint.events.demo.run.refused",
			"approval.decided.v1":   "holdpoint.events.demo.approval.decided",
			"approval.requested.v1": "holdpoint.events.demo.approval.requested",
		}
		for name, data := range samples() {
			require.Equal(t, want[name], data.BusSubject())
			require.Equal(t, "holdpoint."+name, data.Type())
		}
	})

	t.Run("AnyTextSurvivesTheRoundTrip", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringN(1, -1, -1)
			want := &RunAwaitingHuman{
				RunRef: RunRef{TenantID: "demo", RunID: text.Draw(t, "run"), IdempotencyKey: text.Draw(t, "key"),
					CorrelationID: text.Draw(t, "correlation")},
				IntentRevision: rapid.IntRange(1, 1<<40).Draw(t, "revision"),
				IntentHash:     text.Draw(t, "hash"),
				Reasons:        rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "reasons"),
			}
			event, err := New(sampleMeta, want)
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(event)
			if err != nil {
				t.Fatalf("encoding/json refuses the encoder's output: %v", err)
			}
			got, err := Decode(encoded)
			if err != nil {
				t.Fatalf("%v in %s", err, encoded)
			}
			require.Equal(t, event, got)
		})
	})
}

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("AllComplaintsAreJoined", func(t *testing.T) {
		t.Parallel()
		_, err := New(Meta{ID: "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"}, &RunEnded{Outcome: "gone"})
		require.ErrorContains(t, err, "not a lower-case UUIDv7")
		require.ErrorContains(t, err, "time is missing")
		require.ErrorContains(t, err, "tenant_id is missing")
		require.ErrorContains(t, err, `outcome is "gone", allowed: rejected, expired, denied, invalid, failed`)
	})

	t.Run("AnUnreadableTraceParentIsDropped", func(t *testing.T) {
		t.Parallel()
		meta := sampleMeta
		meta.TraceParent = "00-XYZ"
		event, err := New(meta, samples()["effect.requested.v1"])
		require.NoError(t, err)
		require.Empty(t, event.TraceParent)
		require.NotContains(t, string(event.AppendJSON(nil)), "traceparent")
	})

	t.Run("OptionalMembersAreLeftOut", func(t *testing.T) {
		t.Parallel()
		data := samples()["run.completed.v1"].(*RunCompleted)
		data.TargetReceipt = ""
		require.NotContains(t, string(sampleEvent(t, data).AppendJSON(nil)), "target_receipt")
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	event, err := New(sampleMeta, samples()["run.completed.v1"])
	require.NoError(b, err)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = event.AppendJSON(buf[:0])
	}
}

func BenchmarkDecode(b *testing.B) {
	event, err := New(sampleMeta, samples()["intent.submitted.v1"])
	require.NoError(b, err)
	data := event.AppendJSON(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
