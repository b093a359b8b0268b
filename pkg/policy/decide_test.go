package policy

import (
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestDecide(t *testing.T) {
	t.Parallel()

	t.Run("AMatchingAutoRuleIsAuto", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true")
		d := w.requireRoute(config.RouteAuto, CodeRuleMatched)
		require.Equal(t, []Reason{{Code: CodeRuleMatched, RuleID: "auto-1", Message: "Because of auto-1."}}, d.Reasons)
		require.Equal(t, "v1", d.PolicyVersion)
		require.Equal(t, EngineVersion, d.EngineVersion)
		require.NotZero(t, d.InputsHash)
	})

	t.Run("NoRuleIsAPerson", func(t *testing.T) {
		t.Parallel()
		newWorld(t).requireRoute(config.RouteHumanReview, CodeNoRuleMatched)
	})

	t.Run("NoMatchingRuleIsAPerson", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "proposed_change.amount > 10")
		w.requireRoute(config.RouteHumanReview, CodeNoRuleMatched)
	})

	t.Run("AnUnregisteredTypeIsRejected", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true")
		w.input.ActionType = "crm.contact.Update"
		w.requireRoute(config.RouteReject, CodeUnregistered)
	})

	t.Run("AChangeOutsideItsSchemaIsRejectedWithPointers", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.action.Schema = []byte(strictSchema)
		w.rule(config.RouteAuto, "true")
		w.change(`{"amount": 5, "AMOUNT": 5000}`)
		d := w.requireRoute(config.RouteReject, CodeSchemaInvalid)
		require.Equal(t, []Reason{{Code: CodeSchemaInvalid, Pointer: "/AMOUNT",
			Message: "is not a known field; names are exact in letter case"}}, d.Reasons)
	})

	t.Run("TheStrictestOfAllMatchingRulesStands", func(t *testing.T) {
		t.Parallel()
		routes := []string{config.RouteAuto, config.RouteHumanReview, config.RouteRepair, config.RouteReject}
		for i, strictest := range routes {
			w := newWorld(t)
			for j := i; j >= 0; j-- { // the strict ones first, so that the last does not simply win
				w.rule(routes[j], "true")
			}
			w.rule(config.RouteReject, "false")
			d := w.requireRoute(strictest, CodeRuleMatched)
			require.Len(t, d.Reasons, i+1, "each rule that matched is a reason")
		}
	})

	t.Run("ARuleForAnotherTypeDoesNotCount", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true").Action = "payment.refund"
		w.requireRoute(config.RouteHumanReview, CodeNoRuleMatched)
	})

	t.Run("RulesSeeTheWholeIntentAndItsAction", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.change(`{"fields": {"phone": "+49", "city": null}, "tags": ["a", "b"], "ok": true}`)
		w.input.Uncertainty = "low"
		for _, when := range []string{
			`action.type == "crm.contact.update" && action.risk == "low"`,
			`action.reversible && action.category == "crm_change"`,
			`target.system == "crm" && target.record_id == "c-1"`,
			`current_version == "7" && workflow_version.startsWith("crm-enrichment@")`,
			`evidence.exists(e, e.source == "crm" && e.version == current_version && !has(e.url))`,
			`evidence.all(e, e.observed_at > timestamp("2026-12-01T10:59:59Z"))`,
			`proposed_change.fields.phone == "+49" && proposed_change.fields.city == null && proposed_change.ok == true`,
			`has(proposed_change.fields.phone) && !has(proposed_change.fields.email)`,
			`"phone" in proposed_change.fields && !("email" in proposed_change.fields)`,
			`proposed_change.fields.all(name, name in ["phone", "city"]) && size(proposed_change.fields) == 2`,
			`proposed_change.tags == ["a", "b"] && "a" in proposed_change.tags && proposed_change.tags[1] == "b"`,
			`proposed_change.tags.map(tag, tag + "!").filter(tag, tag != "a!") == ["b!"]`,
			`proposed_change.fields == {"city": null, "phone": "+49"} && proposed_change != proposed_change.fields`,
			`proposed_change["ok"] == true && proposed_change.fields["phone"].size() == 3`,
			`thresholds.limit == 1000 && thresholds.ratio < 1`,
			`dyn(proposed_change.fields) != proposed_change && timestamp("2026-12-01T12:00:00Z") > evidence[0].observed_at`,
		} {
			w.tenant.Rules = nil
			w.rule(config.RouteAuto, when)
			d := w.decide()
			require.Equal(t, config.RouteAuto, d.Route, "%s: %v", when, d.Reasons)
		}
		w.tenant.Rules = nil
		w.rule(config.RouteReject, `uncertainty == "low"`)
		w.requireRoute(config.RouteReject, CodeRuleMatched)
	})
}

// Nothing that a proposer says about itself can make the route more lenient (M6).
func TestModelSuppliedFieldsNeverLowerARoute(t *testing.T) {
	t.Parallel()

	t.Run("AnAutoRuleCannotReadUncertainty", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, `[1].exists(i, uncertainty == "low")`)
		_, err := New(w.tenant)
		require.ErrorContains(t, err, "policy.yaml:3:11: rule auto-1: when reads uncertainty")
	})

	t.Run("LessStatedUncertaintyOrMoreEagernessChangesNothing", func(t *testing.T) {
		t.Parallel()
		for _, extra := range []string{`"confidence": 0.99`, `"auto_reply": true`, `"priority": "urgent"`} {
			w := newWorld(t)
			w.rule(config.RouteHumanReview, "proposed_change.amount > 5")
			w.change(`{"amount": 10, ` + extra + `}`)
			w.input.Uncertainty = "low"
			w.requireRoute(config.RouteHumanReview, CodeRuleMatched)
		}
	})

	t.Run("StatedUncertaintyNeverLowers", rapid.MakeCheck(func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 4).Draw(t, "rules") {
			route := rapid.SampledFrom([]string{"human_review", "repair", "reject"}).Draw(t, "route")
			w.rule(route, rapid.SampledFrom([]string{"true", "false", `uncertainty == "high"`, `uncertainty != "low"`,
				`!(uncertainty in ["low", "medium"])`, `uncertainty == ""`, "size(uncertainty) < 3", "proposed_change.x == 1"}).
				Draw(t, "when"))
		}
		w.rule(config.RouteAuto, "true")
		unstated := w.decide()
		w.input.Uncertainty = rapid.SampledFrom([]string{"low", "medium", "high", "none", "LOW"}).Draw(t, "uncertainty")
		require.False(t, Stricter(unstated.Route, w.decide().Route))
	}))

	t.Run("WhatAModelCallsItselfDoesNotMakeItsRouteMoreLenient", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true")
		w.rule(config.RouteHumanReview, `uncertainty != "low"`)
		w.requireRoute(config.RouteHumanReview, CodeRuleMatched)
		w.input.Uncertainty = "low"
		w.requireRoute(config.RouteHumanReview, CodeRuleMatched)
	})

	t.Run("AnAutoRuleCannotReadWhatAModelSaysOfItself", func(t *testing.T) {
		t.Parallel()
		for _, when := range []string{"proposed_change.confidence > 9", `proposed_change["confidence"] > 9`,
			"has(proposed_change.auto_reply)", `proposed_change.priority == "urgent" || true`} {
			w := newWorld(t)
			w.rule(config.RouteAuto, when)
			_, err := New(w.tenant)
			require.ErrorContains(t, err, "which a model states about itself", when)
			w.tenant.Rules[0].Route = config.RouteReject
			_, err = New(w.tenant)
			require.NoError(t, err, "it may make a route stricter: %s", when)
		}
		w := newWorld(t)
		w.rule(config.RouteAuto, `proposed_change.fields.priority == "low"`)
		_, err := New(w.tenant)
		require.NoError(t, err, "a field of the record that would change is no statement about the model")
	})
}

func TestDecisionsAreDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.action.Schema = []byte(strictSchema)
		w.action.Reversible = rapid.Bool().Draw(t, "reversible")
		for range rapid.IntRange(0, 5).Draw(t, "rules") {
			w.rule(rapid.SampledFrom([]string{"auto", "human_review", "repair", "reject"}).Draw(t, "route"),
				rapid.SampledFrom([]string{"true", "proposed_change.amount > 5", "proposed_change.missing == 1",
					"decimal(proposed_change.amount) * decimal(2) < thresholds.limit"}).Draw(t, "when"))
		}
		w.change(rapid.SampledFrom([]string{`{"amount": 5}`, `{"amount": 10.5}`, `{"a": 1, "b": 2, "c": {"d": 3}}`, `[]`,
			`{"amount": "x", "z": 0, "y": 0}`}).Draw(t, "change"))
		w.input.Evidence = append(w.input.Evidence, Evidence{Source: "crm", Version: rapid.SampledFrom([]string{"7", "8"}).
			Draw(t, "version"), ObservedAt: noon})
		first := w.engine()
		want := first.Decide(w.input)
		require.NotEmpty(t, want.Reasons)
		require.Equal(t, want, first.Decide(w.input), "the same engine")
		require.Equal(t, want, w.decide(), "another replica's engine")
	})
}

// One engine serves every worker of a service.
func TestManyDecideAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rule(config.RouteHumanReview, `proposed_change.amount * decimal("1.5") > thresholds.limit + decimal("0.01")`)
	w.rule(config.RouteReject, `proposed_change.fields.all(name, proposed_change.fields[name] != "blocked")`)
	w.change(`{"amount": 99.95, "fields": {"a": "x", "b": "blocked"}}`)
	e := w.engine()
	want := e.Decide(w.input)
	var done sync.WaitGroup
	var different atomic.Int64
	for range 8 {
		done.Go(func() {
			for range 50 {
				if !reflect.DeepEqual(want, e.Decide(w.input)) {
					different.Add(1)
				}
			}
		})
	}
	done.Wait()
	require.Zero(t, different.Load())
}

func TestInputsHash(t *testing.T) {
	t.Parallel()
	hash := func(in Input) canonical.Digest {
		sum, _ := in.hash()
		return sum
	}
	base := hash(newWorld(t).input)
	require.Equal(t, base, hash(newWorld(t).input))
	changes := map[string]func(*Input){
		"ActionType":      func(in *Input) { in.ActionType = "x" },
		"TargetSystem":    func(in *Input) { in.Target.System = "erp" },
		"TargetRecord":    func(in *Input) { in.Target.RecordID = "c-2" },
		"Boundary":        func(in *Input) { in.Target = Target{"crmc", "-1"} },
		"Change":          func(in *Input) { in.ProposedChange = parse(t, `{"amount": 10.01}`) },
		"CurrentVersion":  func(in *Input) { in.CurrentVersion = "8" },
		"NoEvidence":      func(in *Input) { in.Evidence = nil },
		"EvidenceVersion": func(in *Input) { in.Evidence[0].Version = "8" },
		"EvidenceURL":     func(in *Input) { in.Evidence[0].URL = "u" },
		"EvidenceTime":    func(in *Input) { in.Evidence[0].ObservedAt = noon },
		"Workflow":        func(in *Input) { in.WorkflowVersion = "x@1" },
		"Uncertainty":     func(in *Input) { in.Uncertainty = "high" },
		"Now":             func(in *Input) { in.Now = noon.Add(1000) },
	}
	seen := map[canonical.Digest]string{base: "base"}
	for name, change := range changes {
		in := newWorld(t).input
		change(&in)
		require.Empty(t, seen[hash(in)], "%s hashes like another input", name)
		seen[hash(in)] = name
	}
	same := newWorld(t).input
	same.ProposedChange = parse(t, `{"amount": 1e1}`)
	require.Equal(t, base, hash(same), "equal decimals are the same input")
}

func TestStricter(t *testing.T) {
	t.Parallel()
	order := []string{config.RouteAuto, config.RouteHumanReview, config.RouteRepair, config.RouteReject, "made_up"}
	for i, a := range order {
		for j, b := range order {
			require.Equal(t, i > j, Stricter(a, b), "%s, %s", a, b)
		}
	}
}
