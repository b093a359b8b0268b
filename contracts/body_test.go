package contracts

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// body is a body that encoding/json writes: as a value that sets every member, and as one that sets the required ones.
type body struct{ full, least any }

const (
	sampleRun  = "01939e1c-0000-7000-8000-000000000001"
	sampleHash = "0b5f8c7e3d2a19486f7e6d5c4b3a29180f1e2d3c4b5a69788796a5b4c3d2e1f0"
)

func sampleProposal() Proposal {
	return Proposal{
		ActionType: "crm.contact.update", Target: Target{System: "crm", RecordID: "c-1"},
		ProposedChange: json.RawMessage(`{"fields":{"phone":"+49 30 1"}}`), CurrentVersion: "7",
		Evidence: []Evidence{
			{Source: "crm", Version: "7", ObservedAt: sampleMeta.Time, URL: "https://crm.example/c-1"}},
		Assumptions: []string{"the number is current"}, Uncertainty: UncertaintyLow,
		Model: &Model{ProviderClass: "openai-compatible", Name: "m", Revision: "1", PromptVersion: "draft@1",
			SchemaVersion: "s1", Attempts: 2, Validation: ValidationRepaired},
		WorkflowVersion: "crm-enrichment@3",
	}
}

func sampleAnswer() Answer {
	return Answer{
		Result: ResultOutcomeUnknown, RunID: "r", IdempotencyKey: "k", State: StateApproved, Outcome: OutcomePartial,
		Reason:  "the card was stolen",
		Lease:   &Lease{Owner: sampleID, Version: 1, ExpiresAt: sampleMeta.Time, RemainingMS: 30000},
		Effects: []Effect{{OperationID: "op", State: "unknown", ExternalID: "x"}}, StatusURL: "/v1/runs/r",
	}
}

func leastProposal() Proposal {
	return Proposal{ActionType: "a", Target: Target{System: "s", RecordID: "r"}, ProposedChange: json.RawMessage(`{}`),
		WorkflowVersion: "w@1"}
}

func leastActions() []ProposedAction {
	one := ProposedAction{ActionType: "a", Target: Target{System: "s", RecordID: "r"}, ProposedChange: json.RawMessage(`{}`)}
	return []ProposedAction{one, one}
}

func samplePlan() Proposal {
	p := sampleProposal()
	first := ProposedAction{ActionType: p.ActionType, Target: p.Target, ProposedChange: p.ProposedChange, CurrentVersion: p.CurrentVersion, Stage: 1}
	p.ActionType, p.Target, p.ProposedChange, p.CurrentVersion = "", Target{}, nil, ""
	p.Actions = []ProposedAction{first, leastActions()[0]}
	return p
}

func sampleApproval() Approval {
	at := sampleMeta.Time
	return Approval{
		ApprovalID: "01939e1c-0000-7000-8000-0000000000a1", TenantID: "demo", RunID: sampleRun,
		IdempotencyKey: "refund-4711", CorrelationID: "ticket-4711", ActionType: "payment.refund",
		Target: ApprovalTarget{System: "payments", RecordID: "p-1"}, Audience: []string{"support-lead"},
		Status: "approved", RequestedBy: "rita@example.test", RequestedAt: at, DecideBy: at, DecidedAt: &at, Approvals: 1,
	}
}

func sampleVotes() []Decision {
	return []Decision{
		{Decision: DecisionApprove, ReviewerID: "nora", OnBehalfOf: "lea", Reason: "charged twice", DecidedAt: sampleMeta.Time}}
}

func sampleStages() []ReviewStage {
	return []ReviewStage{{State: StageSatisfied, Groups: []ReviewGroup{
		{Role: "support-lead", Approvals: 1, ApprovedBy: []string{"nora"}}}}}
}

func sampleSources() SourceList {
	proposal := "/proposal"
	return SourceList{
		Sources: []SourceInfo{{Source: "crm-enrichment", Mode: "inline", Proposal: &proposal, Corrects: "/corrects", Signed: true,
			MaxBytes: 65536, Schema: json.RawMessage(`{"type":"object"}`),
			Key: SourceKey{Header: "Idempotency-Key", CloudEvent: true, Pointers: []string{"/id"}, Expression: "body.id"}}},
		ActionTypes: []ActionInfo{{ActionType: "crm.contact.update", Risk: "low", Reversible: true,
			Schema: json.RawMessage(`{"type":"object"}`)}},
	}
}

func sampleCase() Unattended {
	return Unattended{RunID: sampleRun, TenantID: "demo", IdempotencyKey: "k", CorrelationID: "c", ActionType: "crm.contact.update",
		Target: ApprovalTarget{System: "crm", RecordID: "c-1"}, RequestedBy: "rita", IntentHash: sampleHash,
		Intent:        json.RawMessage(`{"format":"holdpoint-intent-1"}`),
		Reasons:       json.RawMessage(`[{"code":"rule_matched","rule_id":"r","pointer":"/a","message":"It is harmless."}]`),
		PolicyVersion: "v1", AuthorizedAt: sampleMeta.Time, CancelUntil: &sampleMeta.Time, RunState: StateApproved,
		Effect: Effect{OperationID: "op", State: "pending", ExternalID: "e"},
		Samples: []Sample{{SampleID: sampleID, RuleID: "r", Evaluation: "e", Audience: []string{"lead"}, ReviewBy: sampleMeta.Time,
			Verdict: VerdictRight, ReviewerID: "nora", Reason: "looked at"}}}
}

func sampleDeskItem() DeskItem {
	return DeskItem{OperationID: "op", TenantID: "demo", RunID: sampleRun, IdempotencyKey: "k", CorrelationID: "c",
		ActionType: "payment.refund",
		Connector:  "payments", Operation: "create_refund", Target: ApprovalTarget{System: "payments", RecordID: "p-1"}, Owner: "lead",
		Kind: "unknown", State: "unknown", HoldReason: "r", Seen: "unknown.1", Since: sampleMeta.Time, ExecuteBy: sampleMeta.Time, Attempts: 1,
		Lookups: 1, LastClass: "ambiguous", LastDetail: "lost", LastVerdict: "unclear", ExternalID: "re_1", MaybeSent: true,
		FirstSentAt: &sampleMeta.Time, Amount: "250", Currency: "EUR"}
}

func sampleDeskCase() DeskCase {
	at := &sampleMeta.Time
	return DeskCase{DeskItem: sampleDeskItem(), RequestedBy: "rita", IntentHash: sampleHash,
		Intent:   json.RawMessage(`{"format":"holdpoint-intent-1"}`),
		RunState: StateApproved, SecondPerson: true, AttemptsMade: []DeskAttempt{{Attempt: 1, StartedAt: *at, FinishedAt: at, Class: "ambiguous",
			Sent: true, HTTPStatus: 504, ExternalID: "re_1", ProviderRequestID: "req-1", RequestDigest: sampleHash, Detail: "lost"}},
		LookupsMade: []DeskLookup{{Lookup: 1, LookedAt: *at, Verdict: "unclear", Conclusive: true, ExternalID: "re_1", Evidence: "HTTP 500"}},
		ResolutionsMade: []DeskResolution{{ResolutionID: sampleID, Move: ResolveNotDone, By: "otto", Reason: "not there", ExternalID: "re_1",
			Evidence: "https://pay.example", Channel: "web", ProposedAt: *at, LapsesAt: at, WithdrawnAt: at, WithdrawnBy: "otto",
			SecondPerson: "sam", SecondReason: "not there", MadeAt: at}},
		ProviderEvents: []DeskEvent{{EventID: "evt_1", ReceivedAt: *at, Status: "done", Verdict: "succeeded", State: "applied", ExternalID: "re_1",
			RecordVersion: "2", Detail: "told"}}}
}

func sampleGlass() GlassReview {
	return GlassReview{BrokenBy: "otto", Reason: "the site is down", BrokenAt: sampleMeta.Time, ReviewBy: sampleMeta.Time,
		Audience: []string{"support-lead", "operator"}, Verdict: VerdictRight, ReviewerID: "nora", VerdictReason: "looked at",
		JudgedAt: &sampleMeta.Time}
}

// bodies are all of them, by their schema.
func bodies() map[string]body {
	waiting := sampleApproval()
	waiting.Status, waiting.RequestedBy, waiting.DecidedAt, waiting.Approvals = "pending", "", nil, 0
	card := ApprovalCard{Approval: sampleApproval(), IntentHash: sampleHash, IntentRevision: 1,
		Intent:        json.RawMessage(`{"format":"holdpoint-intent-1"}`),
		Reasons:       json.RawMessage(`[{"code":"rule_matched","rule_id":"r","pointer":"/a","message":"It is much."}]`),
		PolicyVersion: "v1", Quorum: 1, Stages: sampleStages(), TypedReason: true, Decisions: sampleVotes(), ExecutionStatus: "executed",
		RunState: StateCompleted, RunOutcome: OutcomeExecuted,
		Effects: []Effect{{OperationID: "op", State: "completed", ExternalID: "re_1"}},
		Corrects: &Corrected{IdempotencyKey: "refund-1", RunID: sampleRun, CorrectedBy: "otto", Reason: "wrong amount",
			Outcome: OutcomeExecuted, Effects: []Effect{{OperationID: "op", State: "completed", ExternalID: "re_1"}}}}
	glass := sampleGlass()
	card.BreakGlass = &glass
	problem := NewProblem(CodePayloadMismatch, "see both hashes")
	problem.RunID, problem.Errors = "r", []FieldError{{Pointer: "/a", Detail: "is missing"}}
	answer := sampleAnswer()
	return map[string]body{
		"proposal.v1":      {sampleProposal(), leastProposal()},
		"plan.v1":          {samplePlan(), Proposal{Actions: leastActions(), WorkflowVersion: "w@1"}},
		"answer.v1":        {sampleAnswer(), Answer{Result: ResultAccepted, State: StateProcessing}},
		"problem.v1":       {*problem, *NewProblem(CodeTooLarge, "")},
		"approval.v1":      {sampleApproval(), waiting},
		"approval_list.v1": {ApprovalList{[]Approval{sampleApproval()}}, ApprovalList{[]Approval{}}},
		"approval_card.v1": {card, ApprovalCard{Approval: waiting, IntentHash: sampleHash, IntentRevision: 1,
			Intent: json.RawMessage(`{}`), Reasons: json.RawMessage(`[]`), Quorum: 1, Decisions: []Decision{},
			ExecutionStatus: "not_started", RunState: StateAwaitingHuman}},
		"decision_request.v1": {
			DecisionRequest{Decision: DecisionApprove, Reason: "charged twice", IntentHash: sampleHash, Token: "t"},
			DecisionRequest{Decision: DecisionApprove, IntentHash: sampleHash}},
		"withdrawal_request.v1": {WithdrawalRequest{Reason: "a mistake"}, WithdrawalRequest{Reason: "a mistake"}},
		"decision_answer.v1": {
			DecisionAnswer{ApprovalID: "a", Result: "approved", Status: "approved", Approvals: 1, Quorum: 1,
				Decisions: sampleVotes(), Stages: sampleStages()},
			DecisionAnswer{Result: "rejected", Status: "superseded", Decisions: []Decision{}}},
		"unattended_list.v1": {UnattendedList{HeldBack: []Unattended{sampleCase()}, Samples: []Unattended{sampleCase()},
			BreakGlass: []BrokenGlass{{sampleApproval(), sampleGlass()}}},
			UnattendedList{HeldBack: []Unattended{}, Samples: []Unattended{}}},
		"take_back_answer.v1": {TakeBackAnswer{RunID: sampleRun, TakenBack: true, RunState: "failed_terminal", Attempts: 1,
			Effect: &Effect{OperationID: "op", State: "cancelled", ExternalID: "e"}, FirstSentAt: &sampleMeta.Time},
			TakeBackAnswer{RunID: sampleRun, RunState: StateApproved}},
		"judgement_request.v1": {JudgementRequest{SampleID: sampleID, Verdict: VerdictWrong, Reason: "another Smith"},
			JudgementRequest{SampleID: sampleID, Verdict: VerdictRight}},
		"judgement_answer.v1": {JudgementAnswer{SampleID: sampleID, Verdict: VerdictWrong, ReviewerID: "nora", JudgedAt: sampleMeta.Time,
			RuleID: "r", Stopped: true}, JudgementAnswer{Verdict: VerdictRight, JudgedAt: sampleMeta.Time}},
		"glass_judgement_request.v1": {GlassJudgementRequest{Verdict: VerdictWrong, Reason: "it could wait"},
			GlassJudgementRequest{Verdict: VerdictRight}},
		"glass_judgement_answer.v1": {GlassJudgementAnswer{ApprovalID: "a", Verdict: VerdictWrong, ReviewerID: "nora",
			JudgedAt: sampleMeta.Time}, GlassJudgementAnswer{Verdict: VerdictRight, JudgedAt: sampleMeta.Time}},
		"desk_list.v1": {DeskList{Sums: []DeskSum{{TenantID: "demo", Kind: "unknown", ActionType: "payment.refund",
			Connector: "payments", Owner: "lead",
			Count: 1, Oldest: sampleMeta.Time, Amount: "250", Currency: "EUR"}}, Items: []DeskItem{sampleDeskItem()}, Next: "n"},
			DeskList{Sums: []DeskSum{}, Items: []DeskItem{}}},
		"desk_case.v1": {sampleDeskCase(), DeskCase{DeskItem: DeskItem{TenantID: "demo", State: "held"}, IntentHash: sampleHash,
			Intent: json.RawMessage(`{}`), RunState: StateApproved, AttemptsMade: []DeskAttempt{}, LookupsMade: []DeskLookup{},
			ResolutionsMade: []DeskResolution{}}},
		"resolution_request.v1": {ResolutionRequest{Move: ResolveDone, Reason: "seen there", Seen: "unknown.1", ExternalID: "re_1",
			Evidence: "https://pay.example/re_1", ProposalID: sampleID}, ResolutionRequest{Move: ResolveWithdraw, Seen: "unknown.1"}},
		"resolution_answer.v1": {ResolutionAnswer{OperationID: "op", Resolution: "made", State: "completed", HoldReason: "r", ExternalID: "re_1",
			Stands: &sampleDeskCase().ResolutionsMade[0]}, ResolutionAnswer{Resolution: "settled", State: "failed"}},
		"switch_list.v1": {SwitchList{TenantID: "demo", Roles: []string{"operator"}, Switches: []Switch{sampleSwitch()}},
			SwitchList{TenantID: "demo", Roles: []string{}, Switches: []Switch{}}},
		"switch_case.v1": {sampleSwitchCase(), SwitchCase{TenantID: "demo", Switch: Switch{Scope: "tenant", State: "open"},
			Report: SwitchReport{Calls: []SwitchCall{}}, History: []SwitchChange{}}},
		"switch_closing.v1": {SwitchClosing{Reason: "it loses updates"}, SwitchClosing{Reason: "it loses updates"}},
		"switch_opening.v1": {SwitchOpening{Reason: "mended", Seen: 7, OverSeconds: 600}, SwitchOpening{Reason: "mended", Seen: 1}},
		"decision_batch.v1": {
			DecisionBatch{[]BatchedDecision{{ApprovalID: "a", CommandID: sampleID,
				DecisionRequest: DecisionRequest{Decision: DecisionReject, Reason: "not ours", IntentHash: sampleHash, Token: "t"}}}},
			DecisionBatch{[]BatchedDecision{{ApprovalID: "a",
				DecisionRequest: DecisionRequest{Decision: DecisionApprove, IntentHash: sampleHash}}}}},
		"decision_results.v1": {
			DecisionResults{[]DecisionResult{{ApprovalID: "a", Status: 409, Problem: problem, Answer: &DecisionAnswer{ApprovalID: "a",
				Result: "approved", Status: "approved", Approvals: 1, Quorum: 1, Decisions: sampleVotes(), Stages: sampleStages()}}}},
			DecisionResults{[]DecisionResult{}}},
		"renewal.v1": {Renewal{RunID: sampleRun, Owner: sampleID, Version: 1}, Renewal{Owner: sampleID, Version: 1}},
		"submission.v1": {Submission{RunID: sampleRun, Owner: sampleID, Version: 1, Proposal: sampleProposal()},
			Submission{Owner: sampleID, Version: 1, Proposal: leastProposal()}},
		"failure.v1": {
			Failure{RunID: sampleRun, Owner: sampleID, Version: 1, Retryable: true, Reason: "no model", Invalid: true,
				Class: FailedBusy, RetryAfterSeconds: 30},
			Failure{Owner: sampleID, Version: 1, Reason: "no model"}},
		"run_query.v1": {RunQuery{RunID: sampleRun, Key: "k"}, RunQuery{}},
		"run_list.v1": {RunList{[]RunSummary{{Answer: sampleAnswer(), Source: "s", CorrelationID: "c",
			CreatedAt: sampleMeta.Time}}, "n"}, RunList{Runs: []RunSummary{}}},
		"source_list.v1": {sampleSources(), SourceList{Sources: []SourceInfo{}, ActionTypes: []ActionInfo{}}},
		"batch.v1": {Batch{[]BatchEvent{{map[string]string{"Idempotency-Key": "k"}, json.RawMessage(`{"task_id":"t"}`)}}},
			Batch{[]BatchEvent{{Body: json.RawMessage(`{}`)}}}},
		"batch_results.v1": {BatchResults{[]BatchResult{{Status: 202, Answer: &answer, Problem: problem}}},
			BatchResults{[]BatchResult{}}},
		"leave_request.v1": {LeaveRequest{Token: "t-1"}, LeaveRequest{Token: "t-1"}},
		"leave.v1": {Leave{Granted: true, Reason: "the kill switch is closed", Token: "t-2", BeginWithinMS: 1000,
			ReportWithinMS: 30_000}, Leave{}},
		"receipt.v1": {Receipt{Token: "t-2", Status: "succeeded", ExternalID: "res-1", RecordVersion: "8", Detail: "reserved",
			RetryAfterSeconds: 5}, Receipt{Token: "t-2", Status: "not_sent"}},
		"recorded.v1":     {Recorded{true}, Recorded{true}},
		"work_request.v1": {WorkRequest{Owner: sampleID, Max: 10, WaitSeconds: 20}, WorkRequest{}},
		"work.v1": {Work{[]WorkItem{{Run: sampleAnswer(), Attempt: 2, Event: WorkEvent{ContentType: "application/json",
			Headers: map[string]string{"idempotency-key": "k"}, Body: json.RawMessage(`{"task_id":"t"}`)},
			SentBack: &SentBack{Revision: 1, SentBy: "nora", Intent: json.RawMessage(`{"format":"holdpoint-intent-1"}`),
				Reasons: json.RawMessage(`[{"code":"sent_back","rule_id":"r","pointer":"/a","message":"It is much."}]`)}}}},
			Work{[]WorkItem{}}},
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()

	t.Run("MarshalledBodiesAreValidAndSetEveryMemberOfTheirSchema", func(t *testing.T) {
		t.Parallel()
		for name, b := range bodies() {
			text, err := json.Marshal(b.full)
			require.NoError(t, err)
			require.NoError(t, validate(t, name, text), name)
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			require.NoError(t, err)
			requireCovers(t, name, readSchema(t, name), doc)
		}
	})

	t.Run("ABodyOfRequiredMembersAloneIsValidAndHasNoOther", func(t *testing.T) {
		t.Parallel()
		for name, b := range bodies() {
			text, err := json.Marshal(b.least)
			require.NoError(t, err)
			require.NoError(t, validate(t, name, text), name)
			var members map[string]any
			require.NoError(t, json.Unmarshal(text, &members))
			required, _ := readSchema(t, name)["required"].([]any)
			for member := range members {
				require.Contains(t, required, member, "%s: Go always writes %s", name, member)
			}
		}
	})

	t.Run("EveryGoldenIsReadAndWrittenBack", func(t *testing.T) {
		t.Parallel()
		for name, b := range bodies() {
			golden := readGolden(t, filepath.Join("bodies", name))
			require.NoError(t, validate(t, name, golden), name)
			got := reflect.New(reflect.TypeOf(b.full))
			decoder := json.NewDecoder(bytes.NewReader(golden))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(got.Interface()), name)
			text, err := json.Marshal(got.Interface())
			require.NoError(t, err)
			require.JSONEq(t, string(golden), string(text), name)
			want, err := json.Marshal(b.full)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(text), name)
		}
	})

	t.Run("EverySchemaIsOfAnEventABodyOrTheConfigurationAndEveryBodyHasItsGolden", func(t *testing.T) {
		t.Parallel()
		files, err := fs.Glob(Schemas(), "*.json")
		require.NoError(t, err)
		var have, goldens []string
		for _, file := range files {
			have = append(have, strings.TrimSuffix(file, ".json"))
		}
		want := slices.Concat(slices.Collect(maps.Keys(samples())), slices.Collect(maps.Keys(bodies())), configurations)
		require.ElementsMatch(t, want, have)
		entries, err := os.ReadDir("testdata/golden/bodies")
		require.NoError(t, err)
		for _, entry := range entries {
			goldens = append(goldens, strings.TrimSuffix(entry.Name(), ".json"))
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(bodies())), goldens)
	})
}

// TestRequestBodiesAreClosed keeps schemas of what is refused apart from schemas of what may grow.
func TestRequestBodiesAreClosed(t *testing.T) {
	t.Parallel()
	closed := []string{"proposal.v1", "plan.v1", "decision_request.v1", "decision_batch.v1", "withdrawal_request.v1", "renewal.v1", "submission.v1",
		"failure.v1", "run_query.v1", "work_request.v1", "batch.v1", "leave_request.v1", "receipt.v1", "judgement_request.v1",
		"glass_judgement_request.v1", "resolution_request.v1", "switch_closing.v1", "switch_opening.v1"}
	for name := range bodies() {
		_, isClosed := readSchema(t, name)["additionalProperties"]
		require.Equal(t, slices.Contains(closed, name), isClosed, name)
	}
}

func sampleSwitch() Switch {
	return Switch{Switch: "connector:crm", Scope: "connector", Name: "crm", State: "opening", Share: 0.25, Epoch: 7, ChangedBy: "otto",
		Reason: "mended", ChangedAt: &sampleMeta.Time, OpenAt: &sampleMeta.Time}
}

func sampleSwitchCase() SwitchCase {
	return SwitchCase{TenantID: "demo", Switch: sampleSwitch(), Report: SwitchReport{Stopped: 3, Windowed: 1, Retrying: 1, InFlight: 1,
		InFlightUntil: &sampleMeta.Time, Unknown: 1, Accepted: 1, AtLeast: true, Calls: []SwitchCall{{OperationID: "op",
			ActionType: "crm.contact.update", Connector: "crm", State: "sending", At: sampleMeta.Time}}},
		History: []SwitchChange{{Epoch: 7, ChangedBy: "otto", Reason: "mended", Channel: "api", ChangedAt: sampleMeta.Time,
			OpenAt: &sampleMeta.Time}}}
}
