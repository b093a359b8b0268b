package intake_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// Where the idempotency key of an event is found (K1). Both doors find the same key.
func TestKeyRules(t *testing.T) {
	t.Parallel()
	shared := newWorld(t).start()
	event := func(content string) map[string][]string { return map[string][]string{"Content-Type": {content}} }
	binary := func(source, id string) map[string][]string {
		return map[string][]string{"Ce-Specversion": {"1.0"}, "Ce-Source": {source}, "Ce-Id": {id}}
	}
	merge := func(maps ...map[string][]string) map[string][]string {
		all := map[string][]string{}
		for _, m := range maps {
			for name, values := range m {
				all[name] = append(all[name], values...)
			}
		}
		return all
	}
	const structured = "application/cloudevents+json; charset=UTF-8"
	cases := []struct {
		name, source string
		header       map[string][]string
		body         string
		key          string // or the code of a problem
	}{
		{"AHeader", "drafts", map[string][]string{"Idempotency-Key": {"Order 7"}}, `{}`, "Order 7"},
		{"AHeaderWithSpaceAroundIt", "drafts", map[string][]string{"Idempotency-Key": {" a b\t"}}, `{}`, "a b"},
		{"AQuotedHeader", "drafts", map[string][]string{"Idempotency-Key": {`"Order \"8\""`}}, `{}`, `Order "8"`},
		{"AQuoteInsideAHeader", "drafts", map[string][]string{"Idempotency-Key": {`Order "9"`}}, `{}`, `Order "9"`},
		{"AnUnfinishedQuote", "drafts", map[string][]string{"Idempotency-Key": {`"Order`}}, `{}`, contracts.CodeKeyInvalid},
		{"SomethingAfterTheQuote", "drafts", map[string][]string{"Idempotency-Key": {`"a", "b"`}}, `{}`,
			contracts.CodeKeyInvalid},
		{"AnEmptyQuote", "drafts", map[string][]string{"Idempotency-Key": {`""`}}, `{}`, contracts.CodeKeyInvalid},
		{"AQuoteThatIsNotASCII", "drafts", map[string][]string{"Idempotency-Key": {`"é"`}}, `{}`, contracts.CodeKeyInvalid},
		{"StructuredCloudEvent", "cloud-events", event(structured), `{"specversion":"1.0","source":"/crm","id":"A-1"}`,
			`["/crm","A-1"]`},
		{"StructuredCloudEventByItsContent", "cloud-events", nil, `{"specversion":"1.0","source":"/crm","id":"A-2"}`,
			`["/crm","A-2"]`},
		{"StructuredCloudEventWithAgreeingHeaders", "cloud-events", merge(event(structured), binary("/crm", "A-3")),
			`{"specversion":"1.0","source":"/crm","id":"A-3"}`, `["/crm","A-3"]`},
		{"StructuredCloudEventWithAnotherHeader", "cloud-events", merge(event(structured), binary("/crm", "A-4")),
			`{"specversion":"1.0","source":"/crm","id":"other"}`, contracts.CodeKeyAmbiguous},
		{"BinaryCloudEvent", "cloud-events", binary("/crm", "B-1"), `{"id":"the data's own","source":"too"}`,
			`["/crm","B-1"]`},
		{"BinaryCloudEventPercentEncoded", "cloud-events", binary("/caf%C3%A9", "B%202"), `{}`, `["/café","B 2"]`},
		{"BinaryCloudEventQuoted", "cloud-events", binary("/crm", `"B \"3\""`), `{}`, `["/crm","B \"3\""]`},
		{"BinaryCloudEventBadlyEncoded", "cloud-events", binary("/crm", "100%"), `{}`, contracts.CodeKeyInvalid},
		{"BinaryCloudEventWithTwoIDs", "cloud-events", merge(binary("/crm", "a"), map[string][]string{"Ce-Id": {"b"}}),
			`{}`,
			contracts.CodeKeyAmbiguous},
		{"BinaryCloudEventWithoutSource", "cloud-events", map[string][]string{"Ce-Id": {"B-4"}}, `{"source":"/crm"}`,
			contracts.CodeKeyMissing},
		{"NoCloudEvent", "cloud-events", nil, `{"source":"/crm","id":"A-1"}`, contracts.CodeKeyMissing},
		{"CloudEventWithANumberAsID", "cloud-events", event(structured), `{"specversion":"1.0","source":"/crm","id":7}`,
			contracts.CodeKeyMissing},
		{"OnePointer", "pointer", nil, `{"id":"x"}`, "x"},
		{"OnePointerToANumber", "pointer", nil, `{"id":9007199254740993.0}`, "9007199254740993"},
		{"OnePointerToNothing", "pointer", nil, `{"ID":"x"}`, contracts.CodeKeyMissing},
		{"OnePointerToNull", "pointer", nil, `{"id":null}`, contracts.CodeKeyMissing},
		{"OnePointerToAnObject", "pointer", nil, `{"id":{"a":1}}`, contracts.CodeKeyMissing},
		{"OnePointerInNoObject", "pointer", nil, `[1]`, contracts.CodeKeyMissing},
		{"TwoPointers", "pointers", nil, `{"order":{"id":"a"},"line":2}`, `["a","2"]`},
		{"TwoPointersWithAComma", "pointers", nil, `{"order":{"id":"a\",\"b"},"line":"c"}`, `["a\",\"b","c"]`},
		{"OneOfTwoPointers", "pointers", nil, `{"order":{"id":"a"}}`, contracts.CodeKeyMissing},
		{"AnExpression", "expression", map[string][]string{"X-System": {"erp"}}, `{"id":"7"}`, "erp:7"},
		{"AnExpressionOverANumber", "expression", map[string][]string{"x-system": {"erp"}}, `{"id":1.50}`, "erp:1.5"},
		{"AnExpressionWithoutItsHeader", "expression", nil, `{"id":"7"}`, contracts.CodeKeyMissing},
		{"AnExpressionWithItsHeaderTwice", "expression", map[string][]string{"X-System": {"erp", "crm"}}, `{"id":"7"}`,
			contracts.CodeKeyAmbiguous},
		{"AnExpressionOverAnArray", "expression", map[string][]string{"X-System": {"erp"}}, `{"id":[1]}`,
			contracts.CodeKeyMissing},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := shared.as(t)
			first := r.send(call{path: "/v1/sources/" + tc.source + "/events", header: tc.header, body: tc.body})
			second := next(r.world, r.publish(message{source: tc.source, header: tc.header, body: tc.body}))
			if first.problem.Code != "" {
				require.Equal(t, tc.key, first.problem.Code)
				require.Equal(t, tc.key, second.problem.Code)
				return
			}
			require.Equal(t, tc.key, first.IdempotencyKey)
			require.Equal(t, contracts.ResultDuplicate, second.result(), "the same event over the other door")
			require.Equal(t, tc.key, second.IdempotencyKey)
			require.Equal(t, first.runID(), second.runID())
		})
	}
}

// The original is kept as it came (K12), without what is nobody's business.
func TestOriginals(t *testing.T) {
	t.Parallel()
	shared := newWorld(t).start()
	const body = "{ \"task\" : \"t-9\",\n\t\"b\":1.0, \"a\":\"\\u00e9\" }\n"
	header := func() map[string][]string {
		return map[string][]string{
			"Idempotency-Key": {"k"}, "X-Request-Id": {"r-1",
				"r-2"}, "Content-Type": {"application/json; charset=utf-8"},
			"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "User-Agent": {"agent/1"},
			"Cookie": {"session=secret-1"}, "X-Api-Key": {"secret-2"}, "X-Amz-Security-Token": {"secret-3"},
			"Proxy-Authorization": {"Basic secret-4"}, "X-Auth": {"secret-5"}, "X-Client-Secret": {"secret-6"},
		}
	}
	check := func(t *testing.T, r *replica, key string) {
		stored := "from run_payloads p join runs r using (tenant_id, run_id) where r.idempotency_key = $1"
		require.Equal(t, body, string(one[[]byte](r.world, "select payload "+stored, key)), "byte for byte")
		require.Equal(t, "application/json; charset=utf-8", one[string](r.world, "select content_type "+stored, key))
		headers := one[map[string]string](r.world, "select headers "+stored, key)
		require.Equal(t, "r-1, r-2", headers["x-request-id"])
		require.Equal(t, "agent/1", headers["user-agent"])
		require.Equal(t, key, headers["idempotency-key"])
		text := one[string](r.world, "select headers::text "+stored, key)
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, keyOf(demo), "nor the API key")
		require.Equal(t, "t-9", one[string](r.world, "select correlation_id from runs where idempotency_key = $1", key))
		require.Equal(t, header()["Traceparent"][0], one[string](r.world,
			"select traceparent from runs where idempotency_key = $1", key))
		require.NotContains(t, r.logs.text(), "secret")
	}

	t.Run("OverHTTP", func(t *testing.T) {
		r := shared.as(t)
		h := header()
		h["Idempotency-Key"] = []string{"http"}
		require.Equal(t, contracts.ResultAccepted,
			r.send(call{path: "/v1/sources/drafts/events", header: h, body: body}).result())
		check(t, r, "http")
	})

	t.Run("OverNATS", func(t *testing.T) {
		r := shared.as(t)
		h := header()
		h["Idempotency-Key"], h["authorization"] = []string{"nats"}, []string{"Bearer " + keyOf(demo)}
		require.Equal(t, contracts.ResultAccepted, next(r.world, r.publish(message{header: h, body: body})).result())
		check(t, r, "nats")
	})

	t.Run("OverRequestReply", func(t *testing.T) {
		r := shared.as(t)
		h := header()
		h["Idempotency-Key"] = []string{"request"}
		require.Equal(t, contracts.ResultAccepted, r.request(demo, "claim.drafts", h, body).result())
		check(t, r, "request")
	})

	// Replayed as it is, a list of two keys must not become one key.
	t.Run("AParkedMessageKeepsNoSecretsAndNoSecondKey", func(t *testing.T) {
		r := shared.as(t)
		h := header()
		h["Idempotency-Key"], h["Authorization"] = []string{"a", "b"}, []string{"Bearer " + keyOf(demo)}
		require.Equal(t, contracts.CodeKeyAmbiguous, next(r.world, r.publish(message{header: h, body: body})).result())
		headers := one[map[string]string](r.world, "select headers from parked_messages")
		require.NotContains(t, headers, "Idempotency-Key")
		require.Equal(t, "a, b", headers["Repeated-Idempotency-Key"])
		text := one[string](r.world, "select headers::text from parked_messages")
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, keyOf(demo))
	})

	t.Run("ACorrelationIDThatIsNoShortTextIsTheKey", func(t *testing.T) {
		r := shared.as(t)
		for body, want := range map[string]string{`{"task":7}`: "7", `{"task":null}`: "", `{"task":{}}`: "", `{}`: "",
			`{"task":"` + random(256) + `"}`: ""} {
			key := "corr-" + random(8)
			if want == "" {
				want = key
			}
			require.Equal(t, contracts.ResultAccepted, r.post("drafts", key, body).result())
			require.Equal(t, want, one[string](r.world, "select correlation_id from runs where idempotency_key = $1",
				key))
		}
	})

	t.Run("ATraceThatCannotBeReadIsNone", func(t *testing.T) {
		r := shared.as(t)
		for _, trace := range []string{"\xff", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "x"} {
			h := map[string][]string{"Idempotency-Key": {"trace-" + random(8)}, "Traceparent": {trace}}
			require.Equal(t, contracts.ResultAccepted, next(r.world,
				r.publish(message{header: h, body: `{}`})).result())
			require.Empty(t, one[string](r.world, "select traceparent from runs where idempotency_key = $1",
				h["Idempotency-Key"][0]))
		}
	})
}
