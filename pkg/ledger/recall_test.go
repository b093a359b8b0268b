package ledger_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// draft is an event with a proposal by a model, a prompt and a workflow.
func draft(key, model, revision, prompt, workflow string) ledger.Claim {
	c := ledgertest.Proposal(key)
	text, err := canonical.Canonical([]byte(`{"key":"` + key + `","workflow_version":"` + workflow + `"}`))
	if err != nil {
		panic(err)
	}
	value, _ := canonical.Parse(text)
	c.Intent.Canonical, c.Intent.Hash = text, canonical.Hash(value)
	c.Intent.Model, _ = json.Marshal(map[string]string{"provider_class": "test", "name": model, "revision": revision, "prompt_version": prompt})
	return c
}

func recallOf(change func(*ledger.Recall)) ledger.Recall {
	r := ledger.Recall{ID: uuid.New(), TenantID: ledgertest.Tenant, By: "olga", Reason: "it invents cities"}
	change(&r)
	return r
}

// TestRecall is D16.
func TestRecall(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, b *ledgertest.Bench, change func(*ledger.Recall)) ledger.Recall {
		t.Helper()
		r := recallOf(change)
		require.NoError(t, b.Operator.StartRecall(t.Context(), r))
		return r
	}
	hold := func(t *testing.T, b *ledgertest.Bench, r ledger.Recall, limit int) int {
		t.Helper()
		n, err := b.Operator.HoldRecalled(t.Context(), r.TenantID, r.ID, limit)
		require.NoError(t, err)
		return n
	}
	waiting := func(t *testing.T, claims ...ledger.Claim) *ledgertest.Bench {
		t.Helper()
		b := ledgertest.New(t)
		b.Claim(claims...)
		b.Decide(config.RouteAuto, claims...)
		return b
	}
	held := func(b *ledgertest.Bench) string {
		return b.Text(`select coalesce(string_agg(r.idempotency_key, ',' order by r.idempotency_key), '') from effects e
  join runs r using (run_id, tenant_id) where e.state = 'held' and e.hold_reason = 'recalled'`)
	}
	byModel := func(r *ledger.Recall) { r.ModelName = "m" }

	t.Run("HoldsWhatAllOfItsNamesDrafted", func(t *testing.T) {
		t.Parallel()
		b := waiting(t, draft("a", "m", "1", "p1", "w@1"), draft("b", "m", "2", "p1", "w@2"), draft("c", "n", "1", "p2", "w@1"),
			draft("d", "m", "1", "p2", "w@3"))
		for want, change := range map[string]func(*ledger.Recall){
			"a,b,d":   byModel,
			"a,d":     func(r *ledger.Recall) { r.ModelName, r.ModelRevision = "m", "1" },
			"a,b":     func(r *ledger.Recall) { r.PromptVersion = "p1" },
			"a,c":     func(r *ledger.Recall) { r.WorkflowVersion = "w@1" },
			"d":       func(r *ledger.Recall) { r.ModelName, r.PromptVersion = "m", "p2" },
			"a,b,c,d": func(r *ledger.Recall) { r.PolicyVersion = b.PolicyVersion },
			"":        func(r *ledger.Recall) { r.ModelName, r.Since = "m", time.Now().Add(time.Hour) },
		} {
			r := start(t, b, change)
			hold(t, b, r, 100)
			require.Equal(t, want, held(b))
			require.NoError(t, b.Operator.LiftRecall(t.Context(), r.TenantID, r.ID, "olga", "a test"))
			_, err := b.Operator.ReleaseRecalled(t.Context(), r.TenantID, r.ID, 100)
			require.NoError(t, err)
			require.Empty(t, held(b))
		}
	})

	t.Run("HoldsInBatchesAndTellsWhoAndWhy", func(t *testing.T) {
		t.Parallel()
		b := waiting(t, draft("a", "m", "1", "", "w"), draft("b", "m", "1", "", "w"), draft("c", "m", "1", "", "w"))
		r := start(t, b, byModel)
		require.Equal(t, []int{2, 1, 0}, []int{hold(t, b, r, 2), hold(t, b, r, 2), hold(t, b, r, 2)})
		require.Equal(t, 3, b.Count(`select count(*) from audit_events where move = 'recall' and actor = 'olga' and to_state = 'held'
  and detail->>'reason' = 'it invents cities' and detail->>'recall_id' = $1`, r.ID.String()))
		require.Empty(t, b.Lease(time.Minute, effectOf("a"), effectOf("b"), effectOf("c")))
	})

	t.Run("WhatIsAuthorizedLaterIsRecognised", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		r := start(t, b, byModel)
		asked := b.Asked("k") // of model m
		require.Equal(t, ledger.VoteApproved, b.Vote(asked[0].Vote("nora", ledger.Approve))[0].Result)
		leased := b.Lease(time.Minute, effectOf("k"))
		require.Len(t, leased, 1)
		require.Equal(t, "olga: it invents cities", leased[0].Recalled, "the dispatcher holds it by this")
		require.NoError(t, b.Operator.LiftRecall(t.Context(), r.TenantID, r.ID, "olga", "a test"))
		other := b.Approved("other")
		require.Empty(t, b.Lease(time.Minute, other...)[0].Recalled)
	})

	t.Run("NoFirstByteLeavesOnceItStands", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		keys := []string{}
		for i := range 40 {
			keys = append(keys, "k"+string(rune('a'+i%26))+string(rune('a'+i/26)))
		}
		leased := b.Lease(time.Minute, b.Approved(keys...)...)
		require.Len(t, leased, 40)
		var mu sync.Mutex
		stands := false
		var all sync.WaitGroup
		for _, e := range leased {
			all.Go(func() {
				mu.Lock()
				before := stands
				mu.Unlock()
				leaves, err := b.Dispatcher.Confirm(t.Context(), []ledger.Fence{{EffectKey: e.EffectKey, Attempt: e.Attempt, Owner: e.Owner}})
				if err != nil {
					t.Error(err)
					return
				}
				if before && leaves[0].Granted {
					t.Error("leave was granted after the recall stood")
				}
				if !leaves[0].Granted && leaves[0].Reason != "its draft was recalled by olga: it invents cities" {
					t.Error(leaves[0].Reason)
				}
			})
		}
		start(t, b, byModel)
		mu.Lock()
		stands = true
		mu.Unlock()
		all.Wait()
		leaves, err := b.Dispatcher.Confirm(t.Context(), []ledger.Fence{{EffectKey: leased[0].EffectKey, Attempt: 1, Owner: leased[0].Owner}})
		require.NoError(t, err)
		require.False(t, leaves[0].Granted)
	})

	t.Run("LiftedItLetsGoWhatNoOtherOneCovers", func(t *testing.T) {
		t.Parallel()
		b := waiting(t, draft("a", "m", "1", "p1", "w"), draft("b", "m", "1", "p2", "w"))
		first, second := start(t, b, byModel), start(t, b, func(r *ledger.Recall) { r.PromptVersion = "p2" })
		require.Equal(t, 2, hold(t, b, first, 10))
		require.NoError(t, b.Operator.LiftRecall(t.Context(), first.TenantID, first.ID, "olga", "fixed"))
		require.ErrorIs(t, b.Operator.LiftRecall(t.Context(), first.TenantID, first.ID, "olga", "fixed"), ledger.ErrNoRecall)
		n, err := b.Operator.ReleaseRecalled(t.Context(), first.TenantID, first.ID, 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, "b", held(b))
		require.Len(t, b.Lease(time.Minute, effectOf("a")), 1)
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'release' and detail->>'reason' = 'fixed'`))
		standing, err := b.Operator.Recalls(t.Context(), ledgertest.Tenant, false)
		require.NoError(t, err)
		require.Equal(t, []uuid.UUID{second.ID}, []uuid.UUID{standing[0].ID})
	})

	t.Run("ListsWhatWasSentAndWhatWaits", func(t *testing.T) {
		t.Parallel()
		b := waiting(t, draft("done", "m", "1", "", "w"), draft("wait", "m", "1", "", "w"), draft("other", "n", "1", "", "w"))
		leased := b.Lease(time.Minute, effectOf("done"))[0]
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{{EffectKey: leased.EffectKey, Move: "succeed",
			Attempt: leased.Attempt, Owner: leased.Owner, MaybeSent: true, ExternalID: "upd_1", RunKey: "done", CorrelationID: "c",
			Outcome: &ledger.AttemptOutcome{Attempt: 1, Owner: leased.Owner, Class: "succeeded", Sent: true}}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		r := start(t, b, byModel)
		hold(t, b, r, 10)
		var drafts []string
		require.NoError(t, b.Operator.EachRecalled(t.Context(), r.TenantID, r.ID, func(d *ledger.Recalled) error {
			if d.MaybeSent {
				require.Equal(t, "upd_1", d.ExternalID)
			}
			drafts = append(drafts, d.Key+" "+d.State+" "+d.HoldReason)
			return nil
		}))
		slices.Sort(drafts)
		require.Equal(t, []string{"done completed ", "wait held recalled"}, drafts)
	})

	t.Run("ItIsSomebodysAndNamesSomething", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		for _, change := range []func(*ledger.Recall){func(r *ledger.Recall) { r.ModelName, r.By = "m", "" },
			func(r *ledger.Recall) { r.ModelName, r.Reason = "m", "" }, func(*ledger.Recall) {},
			func(r *ledger.Recall) { r.ModelRevision = "1" }} {
			require.Error(t, b.Operator.StartRecall(t.Context(), recallOf(change)))
		}
		require.Error(t, b.Operator.LiftRecall(t.Context(), ledgertest.Tenant, uuid.New(), "", "x"))
		require.Zero(t, b.Count(`select count(*) from recalls`))
	})
}
