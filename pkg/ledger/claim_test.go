package ledger_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// results are the results of answers, in order; an item's own error shows as "error".
func results(answers []ledger.Claimed) []string {
	out := make([]string, len(answers))
	for i, a := range answers {
		out[i] = a.Result
		if a.Err != nil {
			out[i] = "error"
		}
	}
	return out
}

func TestClaim(t *testing.T) {
	t.Parallel()

	t.Run("FirstDeliveryIsStoredWhole", func(t *testing.T) { // K12, B1
		t.Parallel()
		b := ledgertest.New(t)
		c := ledgertest.Proposal("k1")
		c.Headers = map[string]string{"x-sender": "crm"}
		c.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		answer := b.Claim(c)[0]
		require.NoError(t, answer.Err)
		require.Equal(t, contracts.ResultAccepted, answer.Result)
		require.Equal(t, ledger.RunID(ledgertest.Tenant, "k1"), answer.Run.RunID)

		stored := b.Run("k1")
		require.Equal(t, ledger.RunProcessing, stored.State)
		require.Equal(t, "corr-k1", stored.CorrelationID)
		require.Equal(t, c.TraceParent, stored.TraceParent)
		require.Equal(t, answer.Run.PayloadHash, stored.PayloadHash)
		require.Equal(t, 1, stored.IntentRevision)
		require.Equal(t, string(c.Payload), b.Text(`select convert_from(payload, 'UTF8') from run_payloads`), "byte for byte")
		require.Equal(t, "crm", b.Text(`select headers->>'x-sender' from run_payloads`))
		require.Equal(t, string(c.Intent.Canonical), b.Text(`select convert_from(canonical, 'UTF8') from intents`))
		require.Equal(t, contracts.TypeIntentSubmitted, b.Text(`select convert_from(payload, 'UTF8')::json->>'type' from event_log join pending using (event_id)`))
		require.Equal(t, "claim processing", b.Text(`select move || ' ' || to_state from audit_events where actor = 'intake'`))
	})

	t.Run("DuplicateIsToldWhereTheRunIsAndStoresNothing", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		first := b.Claim(ledgertest.Proposal("k1"))[0]
		second := b.Claim(ledgertest.Proposal("k1"))[0]
		require.Equal(t, contracts.ResultDuplicate, second.Result)
		require.Equal(t, first.Run.RunID, second.Run.RunID)
		require.Equal(t, ledger.RunProcessing, second.Run.State)
		require.Equal(t, 1, b.Count(`select count(*) from event_log`))
		require.Equal(t, 1, b.Count(`select count(*) from audit_events`))
	})

	t.Run("AnswersComeInTheOrderOfTheBatch", func(t *testing.T) { // STO-01
		t.Parallel()
		b := ledgertest.New(t)
		one, two := ledgertest.Proposal("k1"), ledgertest.Proposal("k2")
		again := ledgertest.Proposal("k1")
		answers := b.Claim(one, two, again, ledgertest.Other(one, `{"other":9}`))
		require.Equal(t, []string{contracts.ResultAccepted, contracts.ResultAccepted, contracts.ResultDuplicate, contracts.ResultPayloadMismatch},
			results(answers))
		require.Equal(t, answers[0].Run.RunID, answers[2].Run.RunID)
		require.Equal(t, answers[0].Run.RunID, answers[3].Run.RunID)
	})

	t.Run("ABatchAnswersAsItsItemsOneByOneWould", func(t *testing.T) { // STO-01
		t.Parallel()
		seed := mathrand.Uint64()
		t.Logf("seed %d", seed)
		random := mathrand.New(mathrand.NewPCG(seed, 0))
		b := ledgertest.New(t)
		owner := map[string]string{} // of each key: the payload that claimed it
		for range 5 {
			var batch []ledger.Claim
			var want []string
			for range 100 {
				key, payload := "k"+strconv.Itoa(random.IntN(80)), `{"n":`+strconv.Itoa(random.IntN(2))+`}`
				batch = append(batch, ledgertest.Other(ledgertest.Proposal(key), payload))
				switch owner[key] {
				case "":
					owner[key] = payload
					want = append(want, contracts.ResultAccepted)
				case payload:
					want = append(want, contracts.ResultDuplicate)
				default:
					want = append(want, contracts.ResultPayloadMismatch)
				}
			}
			require.Equal(t, want, results(b.Claim(batch...)))
		}
		require.Equal(t, len(owner), b.Count(`select count(*) from runs`))
	})

	t.Run("ALongerBatchThanOneStatementCarriesIsStored", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		batch := make([]ledger.Claim, 2000)
		for i := range batch {
			batch[i] = ledgertest.Proposal("k" + strconv.Itoa(i))
		}
		for _, a := range b.Claim(batch...) {
			require.Equal(t, contracts.ResultAccepted, a.Result)
		}
		require.Empty(t, b.Claim())
	})
}

func TestPayloadMismatch(t *testing.T) { // K4
	t.Parallel()

	t.Run("BothHashesAreKeptAndNothingRunsOrIsOverwritten", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		first := ledgertest.Proposal("k1")
		b.Claim(first)
		other := ledgertest.Other(first, `{"event_id":"k1","amount":2}`)
		answer := b.Claim(other)[0]
		require.Equal(t, contracts.ResultPayloadMismatch, answer.Result)
		require.Equal(t, first.PayloadHash, answer.Run.PayloadHash, "the caller learns which payload owns the key")
		require.Equal(t, first.PayloadHash.String(), b.Text(`select encode(payload_hash, 'hex') from runs`))
		require.Equal(t, string(first.Payload), b.Text(`select convert_from(payload, 'UTF8') from run_payloads`))
		require.Equal(t, other.PayloadHash.String(), b.Text(`select encode(payload_hash, 'hex') from run_conflicts`))
		require.Equal(t, string(other.Payload), b.Text(`select convert_from(payload, 'UTF8') from run_conflicts`))
		require.Equal(t, 1, b.Count(`select count(*) from intents`))
		require.Equal(t, int64(1), b.Run("k1").Version)
	})

	t.Run("EachOtherPayloadIsToldOnce", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		first := ledgertest.Proposal("k1")
		b.Claim(first)
		one, two := ledgertest.Other(first, `{"n":1}`), ledgertest.Other(first, `{"n":2}`)
		b.Claim(one, ledgertest.Other(first, `{"n":1}`), two)
		b.Claim(two)
		told := `select count(*) from event_log e join pending using (event_id), lateral (select convert_from(e.payload, 'UTF8')::json as p) c
where p->>'type' = 'holdpoint.run.conflict.v1' and p->'data'->>'stored_hash' = $1 and p->'data'->>'received_hash' = $2`
		require.Equal(t, 1, b.Count(told, first.PayloadHash.String(), one.PayloadHash.String()))
		require.Equal(t, 1, b.Count(told, first.PayloadHash.String(), two.PayloadHash.String()))
		require.Equal(t, 2, b.Count(`select count(*) from run_conflicts`))
		require.Equal(t, 2, b.Count(`select count(*) from audit_events where move = 'conflict'`))
	})
}

func TestTenantsAreApart(t *testing.T) { // INT-06, B7
	t.Parallel()
	b := ledgertest.New(t)
	_, err := b.Intake.ActivateRules(t.Context(), "other", ledgertest.Source, 1)
	require.NoError(t, err)
	ours := ledgertest.Proposal("order-1")
	theirs := ledgertest.Other(ledgertest.Proposal("order-1"), `{"theirs":true}`)
	theirs.TenantID = "other"
	answers := b.Claim(ours, theirs, ledgertest.Proposal("order-1"), theirs)
	require.Equal(t, []string{contracts.ResultAccepted, contracts.ResultAccepted, contracts.ResultDuplicate, contracts.ResultAccepted},
		results(answers), "the last one repeats a command")
	require.NotEqual(t, answers[0].Run.RunID, answers[1].Run.RunID)

	runs, err := b.Intake.Runs(t.Context(), "other", answers[0].Run.RunID)
	require.NoError(t, err)
	require.Empty(t, runs, "a tenant does not find another's run by its id")
	require.Equal(t, 0, b.Count(`select count(*) from run_conflicts`))
	require.Equal(t, 2, b.Count(`select count(*) from audit_events a join runs r using (tenant_id, run_id)`))
}

func TestBadItemStandsAlone(t *testing.T) { // INT-08, INT-09
	t.Parallel()
	shared := ledgertest.New(t)
	random := func(bytes int) string {
		raw := make([]byte, bytes)
		rand.Read(raw)
		return hex.EncodeToString(raw)[:bytes]
	}
	for name, spoil := range map[string]func(*ledger.Claim){
		"KeyOver255Bytes":         func(c *ledger.Claim) { c.Key = random(256) },
		"KeyThatNoIndexCouldHold": func(c *ledger.Claim) { c.Key = random(2880) },
		"TextWithNUL":             func(c *ledger.Claim) { c.CorrelationID = "a\x00b" },
		"TextThatIsNotUTF8":       func(c *ledger.Claim) { c.CorrelationID = "a\xffb" },
		"IntentThatIsNotItsHash":  func(c *ledger.Claim) { c.Intent.Hash[0]++ },
		"ModelThatIsNotJSON":      func(c *ledger.Claim) { c.Intent.Model = []byte(`{"a":"\u0000"}`) },
		"EventThatCannotBeTold":   func(c *ledger.Claim) { c.Intent, c.CorrelationID = nil, "" },
		"LeaseOfARunWithAProposal": func(c *ledger.Claim) {
			c.Lease = &ledger.LeaseTerms{Owner: uuid.New(), Duration: time.Minute, MaxLifetime: time.Hour}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			batch := make([]ledger.Claim, 100)
			for i := range batch {
				batch[i] = ledgertest.Proposal(name + "-" + strconv.Itoa(i))
			}
			spoil(&batch[57])
			spoil(&batch[80])
			answers := b.Claim(batch...)
			for i, a := range answers {
				if i == 57 || i == 80 {
					require.Error(t, a.Err)
					require.False(t, errors.Is(a.Err, ledger.ErrUnavailable), "no retry will help: %v", a.Err)
					require.Empty(t, a.Result)
				} else {
					require.Equal(t, contracts.ResultAccepted, a.Result, "item %d", i)
				}
			}
			require.Equal(t, 98, b.Count(`select count(*) from runs where idempotency_key like $1`, name+"-%"))
			require.Equal(t, 98, b.Count(`select count(*) from event_log join runs using (tenant_id, run_id) where idempotency_key like $1`, name+"-%"))
		})
	}

	t.Run("HeadersAreKeptAsFarAsTheyCanBe", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		c := ledgertest.Proposal("headers")
		c.Headers = map[string]string{"x-note": "a\x00b\xff"}
		answer := b.Claim(c)[0]
		require.Equal(t, contracts.ResultAccepted, answer.Result)
		require.Equal(t, "a\uFFFDb\uFFFD", b.Text(`select headers->>'x-note' from run_payloads where run_id = $1`, answer.Run.RunID))
	})

	t.Run("KeyOf255BytesOfAnyContentIsTaken", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		for _, key := range []string{random(255), strings.Repeat("a", 255), strings.Repeat("é", 127)} {
			require.Equal(t, contracts.ResultAccepted, b.Claim(ledgertest.Proposal(key))[0].Result)
			require.Equal(t, contracts.ResultDuplicate, b.Claim(ledgertest.Proposal(key))[0].Result)
		}
	})
}

func TestDistinctAnswers(t *testing.T) { // K14
	t.Parallel()
	shared := ledgertest.New(t)
	decided := func(route string) func(*testing.T, *ledgertest.Bench, string) {
		return func(_ *testing.T, b *ledgertest.Bench, key string) {
			b.Claim(ledgertest.Proposal(key))
			b.Decide(route, ledgertest.Proposal(key))
		}
	}
	settled := func(move, hold string) func(*testing.T, *ledgertest.Bench, string) {
		return func(t *testing.T, b *ledgertest.Bench, key string) {
			s := succeed(b.Lease(time.Minute, b.Approved(key)...)[0], "ext-1")
			s.Move, s.HoldReason = move, hold
			_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
			require.NoError(t, err)
		}
	}
	for name, c := range map[string]struct {
		arrange       func(t *testing.T, b *ledgertest.Bench, key string)
		result, state string
	}{
		"ProcessingIsADuplicate": {func(_ *testing.T, b *ledgertest.Bench, key string) { b.Claim(ledgertest.Proposal(key)) },
			contracts.ResultDuplicate, ledger.RunProcessing},
		"AwaitingHumanIsADuplicate":         {decided(config.RouteHumanReview), contracts.ResultDuplicate, ledger.RunAwaitingHuman},
		"ApprovedIsADuplicate":              {decided(config.RouteAuto), contracts.ResultDuplicate, ledger.RunApproved},
		"DeniedHasItsResult":                {decided(config.RouteReject), contracts.ResultDuplicateWithResult, ledger.RunFailedTerminal},
		"ExecutedHasItsResult":              {settled("succeed", ""), contracts.ResultDuplicateWithResult, ledger.RunCompleted},
		"FailedHasItsResult":                {settled("refuse", ""), contracts.ResultDuplicateWithResult, ledger.RunFailedTerminal},
		"UnknownIsNeitherFailureNorSuccess": {settled("lose", ""), contracts.ResultOutcomeUnknown, ledger.RunApproved},
		"HeldIsADuplicate":                  {settled("hold", ledger.HoldExhausted), contracts.ResultDuplicate, ledger.RunApproved},
		"AcceptedByTheProviderIsADuplicate": {settled("accept", ""), contracts.ResultDuplicate, ledger.RunApproved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			c.arrange(t, b, name)
			answer := b.Claim(ledgertest.Proposal(name))[0]
			require.NoError(t, answer.Err)
			require.Equal(t, c.result, answer.Result)
			require.Equal(t, c.state, answer.Run.State)
		})
	}

	t.Run("AnotherKeyUnderTheSameDigestIsToldApart", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Claim(ledgertest.Proposal("k1"))
		b.Exec(`update runs set idempotency_key = 'another'`) // as if the digests of both were the same
		require.ErrorIs(t, b.Claim(ledgertest.Proposal("k1"))[0].Err, ledger.ErrKeyCollision)
	})
}

func TestRulesOfARun(t *testing.T) { // K15
	t.Parallel()
	v2 := func(b *ledgertest.Bench) func(c ledger.Claim) ledger.Claim {
		_, err := b.Intake.ActivateRules(t.Context(), ledgertest.Tenant, ledgertest.Source, 2)
		require.NoError(t, err)
		return func(c ledger.Claim) ledger.Claim {
			c.CommandID, c.RulesVersion = uuid.New(), 2
			return c
		}
	}

	t.Run("DuplicateIsHashedUnderTheRunsOwnRules", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		first := ledgertest.Proposal("k1")
		b.Claim(first)
		again := v2(b)(first)
		again.PayloadHash = canonical.Digest{2} // by the new rules
		asked := 0
		again.HashUnder = func(version int) (canonical.Digest, error) { asked = version; return first.PayloadHash, nil }
		require.Equal(t, contracts.ResultDuplicate, b.Claim(again)[0].Result)
		require.Equal(t, 1, asked)

		again.CommandID = uuid.New()
		again.HashUnder = func(int) (canonical.Digest, error) { return canonical.Digest{3}, nil }
		require.Equal(t, contracts.ResultPayloadMismatch, b.Claim(again)[0].Result)
		again.CommandID, again.HashUnder = uuid.New(), nil
		require.ErrorContains(t, b.Claim(again)[0].Err, "version 1")
	})

	t.Run("EventClaimedUnderItsOldKeyIsFoundByIt", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		first := ledgertest.Proposal("old-key")
		b.Claim(first)
		again := v2(b)(first)
		again.Key, again.PreviousKey = "new-key", "old-key"
		answer := b.Claim(again)[0]
		require.Equal(t, contracts.ResultDuplicate, answer.Result)
		require.Equal(t, ledger.RunID(ledgertest.Tenant, "old-key"), answer.Run.RunID)
		require.Equal(t, 1, b.Count(`select count(*) from runs`))
	})

	t.Run("NewEventIsClaimedUnderItsNewKey", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		c := v2(b)(ledgertest.Proposal("new-key"))
		c.PreviousKey = "old-key"
		require.Equal(t, contracts.ResultAccepted, b.Claim(c)[0].Result)
	})

	t.Run("ReplicaWithOlderRulesCannotClaim", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		v2(b)
		require.ErrorIs(t, b.Claim(ledgertest.Proposal("k1"))[0].Err, ledger.ErrStaleRules)
		require.Equal(t, 0, b.Count(`select count(*) from runs`))
	})
}
