package sandbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRule(t *testing.T) {
	t.Parallel()

	fired := func(m Match, calls ...call) []int {
		r := newRule("fault-1", Rule{Match: m, Fault: Fault{Kind: AcceptThenReset}})
		var hits []int
		for i, c := range calls {
			if r.fires(c) {
				hits = append(hits, i+1)
			}
		}
		return hits
	}
	refund := call{Payments, Create, "op-1", "/payments/refunds"}
	patch := call{CRM, Update, "op-2", "/crm/contacts/c-7"}

	t.Run("EveryFieldMustHold", func(t *testing.T) {
		t.Parallel()
		for name, match := range map[string]Match{
			"system":     {System: CRM},
			"operation":  {Operation: Update},
			"reference":  {Reference: "op-2"},
			"path":       {PathPrefix: "/crm/contacts/"},
			"everything": {System: CRM, Operation: Update, Reference: "op-2", PathPrefix: "/crm/contacts/c-7"},
		} {
			require.Equal(t, []int{2}, fired(match, refund, patch), name)
		}
		require.Empty(t, fired(Match{System: CRM, Operation: Create}, refund, patch))
		require.Equal(t, []int{1, 2}, fired(Match{}, refund, patch))
	})

	t.Run("NthCountsOnlyWhatTheFieldsSelect", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []int{4}, fired(Match{System: CRM, Nth: 2}, patch, refund, refund, patch, patch))
	})

	t.Run("CountEndsTheRule", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []int{1, 2}, fired(Match{Count: 2}, patch, refund, refund, patch))
	})

	t.Run("PerReferenceHitsTheFirstAttemptOfEachOperation", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []int{1, 2}, fired(Match{Nth: 1, PerReference: true}, patch, refund, refund, patch))
		require.Equal(t, []int{1, 2}, fired(Match{Count: 1, PerReference: true}, patch, refund, refund, patch))
	})

	t.Run("ProbabilityRepeatsForASeedWhateverTheOrder", func(t *testing.T) {
		t.Parallel()
		hits := func(seed uint64, backwards bool) map[string]bool {
			r := newRule("fault-1", Rule{Match: Match{Probability: 0.3, Seed: seed}, Fault: Fault{Kind: AcceptThenReset}})
			hit := map[string]bool{}
			for i := range 1000 {
				if backwards {
					i = 999 - i
				}
				reference := strconv.Itoa(i)
				hit[reference] = r.fires(call{reference: reference})
			}
			return hit
		}
		require.Equal(t, hits(1, false), hits(1, true))
		require.NotEqual(t, hits(1, false), hits(2, false))
		count := 0
		for _, hit := range hits(1, false) {
			if hit {
				count++
			}
		}
		require.InDelta(t, 300, count, 50)
	})

	t.Run("WhatCannotWorkIsRefusedWithEveryReason", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			rule Rule
			want []string
		}{
			{Rule{Fault: Fault{Kind: "explode"}}, []string{`"explode" is unknown`, "accept_then_hang"}},
			{Rule{Fault: Fault{Kind: Delay}}, []string{"needs duration"}},
			{Rule{Fault: Fault{Kind: Redirect}}, []string{"needs status", "needs location"}},
			{Rule{Fault: Fault{Kind: ErrorAfterAccept, Status: 99}}, []string{"needs status"}},
			{Rule{Fault: Fault{Kind: Signal, URL: "ftp://x"}}, []string{"needs url"}},
			{Rule{Fault: Fault{Kind: AcceptThenHang, Duration: -1}}, []string{"negative duration"}},
			{Rule{Match: Match{Probability: 2, Nth: -1}, Fault: Fault{Kind: LookupEmpty}}, []string{"probability 2", "nth"}},
			{Rule{Match: Match{System: CRM}, Fault: Fault{Kind: RefuseConnection, Duration: 1}}, []string{"no match"}},
		} {
			for _, want := range c.want {
				require.ErrorContains(t, c.rule.validate(), want)
			}
		}
	})

	t.Run("DelaysAddUpAndTheFirstEndingFaultStands", func(t *testing.T) {
		t.Parallel()
		r := &rules{news: newNews()}
		r.add([]Rule{
			{Fault: Fault{Kind: Delay, Duration: Duration(time.Second)}},
			{Fault: Fault{Kind: AcceptThenHang}},
			{Fault: Fault{Kind: Delay, Duration: Duration(time.Minute)}},
			{Fault: Fault{Kind: ErrorAfterAccept, Status: 500, Sticky: true}},
		})
		p := r.plan(refund)
		require.Equal(t, 61*time.Second, p.delay)
		require.Equal(t, AcceptThenHang, p.after.Kind)
		require.Nil(t, p.sticky, "a fault that does not take place stores nothing")
	})
}
