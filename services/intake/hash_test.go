package intake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// The canonical hash on every way in (K5): what is the same payload over HTTP is the same over NATS and from the stored
// row.
func TestPayloadHash(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	cases := []struct {
		name, a, b string
		same       bool
	}{
		{"MemberOrderAndSpace", `{"b":1,"a":2}`, "{ \"a\" : 2,\n\"b\":1 }", true},
		{"OneAsDecimal", `{"n":1}`, `{"n":1.0}`, true},
		{"OneWithExponent", `{"n":1}`, `{"n":1e0}`, true},
		{"OneAsTenTenths", `{"n":1}`, `{"n":10E-1}`, true},
		{"AHundred", `{"n":100}`, `{"n":1E+2}`, true},
		{"MinusZero", `{"n":0}`, `{"n":-0.0}`, true},
		{"TrailingZero", `{"n":0.1}`, `{"n":0.10}`, true},
		{"NeighboursBeyond2To53", `{"n":9007199254740992}`, `{"n":9007199254740993}`, false},
		{"ATenthAndItsDouble", `{"n":0.1}`, `{"n":0.1000000000000000055511151231257827}`, false},
		{"NumberAndText", `{"n":1}`, `{"n":"1"}`, false},
		{"NumberAndTrue", `{"n":1}`, `{"n":true}`, false},
		{"NullAndAbsent", `{"n":null}`, `{}`, false},
		{"EscapedAndRawLetter", `{"s":"\u00e9"}`, `{"s":"é"}`, true},
		{"ComposedAndDecomposed", `{"s":"\u00e9"}`, `{"s":"e\u0301"}`, false},
		{"EscapedMarkup", `{"s":"<&>"}`, `{"s":"\u003c\u0026\u003e"}`, true},
		{"NoBreakSpace", `{"s":"a b"}`, `{"s":"a\u00a0b"}`, false},
		{"ArrayOrder", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"EmptyObjectAndArray", `{"a":{}}`, `{"a":[]}`, false},
		{"NamesBeyondTheBasicPlane", `{"\ue000":1,"\ud83d\ude00":2}`, `{"\ud83d\ude00":2,"\ue000":1}`, true},
		{"CaseTwins", `{"amount":5}`, `{"amount":5,"AMOUNT":5000}`, false},
		{"BackslashAndLetters", `{"s":"\\u0000"}`, `{"s":"\u005cu0000"}`, true},
		{"ARedeliverysOwnTimestamp", `{"a":1,"delivered_at":"10:00"}`, `{"a":1,"delivered_at":"10:05"}`, true},
		{"AnUnknownField", `{"a":1}`, `{"a":1,"unknown":0}`, false},
	}
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := r.as(t)
			want := contracts.CodePayloadMismatch
			if tc.same {
				want = contracts.ResultDuplicate
			}
			first, second := fmt.Sprint("http-", i), fmt.Sprint("nats-", i)
			require.Equal(t, contracts.ResultAccepted, r.post("drafts", first, tc.a).result())
			a := next(r.world, r.publish(message{header: keyed(second), body: tc.b}))
			require.Equal(t, contracts.ResultAccepted, a.result())
			require.Equal(t, want, r.post("drafts", first, tc.b).result(), "HTTP after HTTP")
			a = next(r.world, r.publish(message{header: keyed(first), body: tc.b}))
			require.Equal(t, want, a.result(), "NATS after HTTP")
			require.Equal(t, want, r.post("drafts", second, tc.a).result(), "HTTP after NATS")
			claim := map[string][]string{"Idempotency-Key": {second}}
			if a := r.request(demo, "claim.drafts", claim, tc.a); tc.same {
				require.Equal(t, contracts.ResultAccepted, a.result(), "a claim takes the run that nobody works on")
			} else {
				require.Equal(t, want, a.result(), "request/reply after NATS")
			}
		})
	}

	// The stored original gives the stored hash; text that jsonb has re-written would not (HASH-05).
	t.Run("TheHashOfTheStoredOriginal", func(t *testing.T) {
		r := r.as(t)
		const body = `{"bb":1.0,"a":1, "cccccccccc":1e2,"d":-0}`
		require.Equal(t, contracts.ResultAccepted, r.post("drafts", "stored", body).result())
		stored := one[[]byte](r.world,
			"select p.payload from run_payloads p join runs using (tenant_id, run_id) where idempotency_key = 'stored'")
		require.Equal(t, body, string(stored))
		value, err := canonical.Parse(stored)
		require.NoError(t, err)
		require.Equal(t, canonical.Hash(value).String(),
			one[string](r.world, "select encode(payload_hash, 'hex') from runs where idempotency_key = 'stored'"))
		require.Equal(t, canonical.HashVersion, one[int](r.world,
			"select hash_version from runs where idempotency_key = 'stored'"))
	})

	// An account number is shown and sent as the digits that were sent (HASH-02).
	t.Run("DigitsBeyond2To53ReachTheIntent", func(t *testing.T) {
		r := r.as(t)
		event := strings.NewReplacer("crm.contact.update", "ledger.entry.add", `{"fields":{"city":"Lisbon"}}`,
			`{"account":9007199254740993}`).
			Replace(goodEvent)
		require.Equal(t, contracts.ResultAccepted, r.post("inline", "digits", event).result())
		require.Equal(t, contracts.CodePayloadMismatch, r.post("inline", "digits",
			strings.Replace(event, "993}", "992}", 1)).result())
		require.Contains(t, string(one[[]byte](r.world, "select canonical from intents")),
			`"proposed_change":{"account":9007199254740993}`)
	})

	// Numbers that explode when written out are refused at once (HASH-03).
	// So is text that would become another text on its way (HASH-06).
	t.Run("WhatCannotBeRepresentedIsRefusedByItsPlace", func(t *testing.T) {
		r := r.as(t)
		for _, body := range []string{`{"a":1e400}`, `{"a":1e131071}`, `{"a":1e1000000000}`, `{"a":-1e-1000000000}`,
			"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}", `{"a":"\ud800"}`, `{"a":"\udfff"}`, `{"a":"\u0000"}`} {
			a := r.post("drafts", "giant", body)
			require.Equal(t, http.StatusBadRequest, a.status, body)
			require.Contains(t, a.problem.Detail, "/a", "the place is named")
		}
		require.Zero(t, r.count("select count(*) from runs where idempotency_key = 'giant'"))
	})
}
