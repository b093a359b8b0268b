package intake_test

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// random is incompressible text of n bytes.
func random(n int) string {
	raw := make([]byte, n)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)[:n]
}

// goodEvent is what source inline takes.
const goodEvent = `{"event_id":"e-1","proposal":{"action_type":"crm.contact.update",` +
	`"target":{"system":"crm","record_id":"c-1"},"proposed_change":{"fields":{"city":"Lisbon"}},"current_version":"7","workflow_version":"crm-enrichment@3"}}`

// badInput is one row of the bad-input table, and a status that HTTP gives with its code.
type badInput struct {
	name   string
	source string // default: drafts
	header map[string][]string
	body   string
	status int
	code   string
}

func badInputs() []badInput {
	with := func(name, value string) map[string][]string {
		return map[string][]string{"Idempotency-Key": {"k"}, name: {value}}
	}
	key := func(values ...string) map[string][]string { return map[string][]string{"Idempotency-Key": values} }
	good := key("k")
	event := func(old, replacement string) string { return strings.Replace(goodEvent, old, replacement, 1) }
	return []badInput{
		{"WrongContentType", "", with("Content-Type", "text/plain"), `{}`, 415, contracts.CodeUnsupportedMediaType},
		{"TwoContentTypes", "", map[string][]string{"Idempotency-Key": {"k"},
			"Content-Type": {"application/json", "text/plain"}}, `{}`, 415,
			contracts.CodeUnsupportedMediaType},
		{"ABatchOfCloudEvents", "", with("Content-Type", "application/cloudevents-batch+json"), `[]`, 415,
			contracts.CodeUnsupportedMediaType},
		{"AnotherCharset", "", with("Content-Type", "application/json; charset=latin1"), `{}`, 415,
			contracts.CodeUnsupportedMediaType},
		{"CompressedBody", "", with("Content-Encoding", "gzip"), `{}`, 415, contracts.CodeUnsupportedMediaType},
		{"OverTheSizeLimit", "", good, `{"a":"` + strings.Repeat("x", 20_000) + `"}`, 413, contracts.CodeTooLarge},
		{"EmptyBody", "", good, ``, 400, contracts.CodeMalformed},
		{"NotJSON", "", good, `hello`, 400, contracts.CodeMalformed},
		{"TrailingData", "", good, `{"a":1} {}`, 400, contracts.CodeMalformed},
		{"ByteOrderMark", "", good, "\uFEFF{}", 400, contracts.CodeMalformed},
		{"RepeatedMember", "", good, `{"amount":5,"amount":5000}`, 400, contracts.CodeMalformed},
		{"RepeatedMemberTwoLevelsDeep", "", good, `{"a":{"b":{"amount":5,"amount":5000}}}`, 400,
			contracts.CodeMalformed},
		{"RawByteFF", "", good, "{\"s\":\"\xff\"}", 400, contracts.CodeMalformed},
		{"LoneSurrogate", "", good, `{"s":"\ud800"}`, 400, contracts.CodeMalformed},
		{"EscapedNUL", "", good, `{"s":"\u0000"}`, 400, contracts.CodeMalformed},
		{"NumberThatWouldExplode", "", good, `{"a":1e1000000000}`, 400, contracts.CodeMalformed},
		{"NumberOfTooManyDigits", "", good, `{"a":` + strings.Repeat("7", 19_000) + `}`, 400, contracts.CodeMalformed},
		{"SchemaInvalidBody", "inline", good, `{"event_id":"e-1"}`, 422, contracts.CodeSchemaInvalid},
		{"ProposalWithAnUnknownMember", "inline", good, event(`"current_version"`,
			`"auto_reply":true,"current_version"`), 422,
			contracts.CodeSchemaInvalid},
		{"ChangeWithACaseTwin", "inline", good, event(`"city"`, `"City":"Porto","city"`), 422,
			contracts.CodeSchemaInvalid},
		{"ChangeThatIsTooLong", "inline", good, event(`Lisbon`, strings.Repeat("x", 121)), 422,
			contracts.CodeSchemaInvalid},
		{"UnknownSource", "nobody", good, `{}`, 404, contracts.CodeUnknownSource},
		{"MissingKey", "", key(), `{}`, 400, contracts.CodeKeyMissing},
		{"EmptyKey", "", key(" \t "), `{}`, 400, contracts.CodeKeyMissing},
		{"KeyOf256RandomBytes", "", key(random(256)), `{}`, 400, contracts.CodeKeyInvalid},
		{"KeyOf2560RandomBytes", "", key(random(2560)), `{}`, 400, contracts.CodeKeyInvalid},
		{"KeyOf2880RandomBytes", "", key(random(2880)), `{}`, 400, contracts.CodeKeyInvalid},
		{"KeyOf20000EqualLetters", "", key(strings.Repeat("a", 20_000)), `{}`, 400, contracts.CodeKeyInvalid},
		{"KeyOf128LettersIn256Bytes", "", key(strings.Repeat("é", 128)), `{}`, 400, contracts.CodeKeyInvalid},
		{"KeyWithAControlCharacter", "", key("a\tb"), `{}`, 400, contracts.CodeKeyInvalid},
		{"KeyInTheBodyWithAControlCharacter", "pointer", nil, `{"id":"a\u0001"}`, 400, contracts.CodeKeyInvalid},
		{"PartOfAKeyWithAControlCharacter", "pointers", nil, `{"order":{"id":"a\n"},"line":1}`, 400,
			contracts.CodeKeyInvalid},
		{"KeyThatIsNotUTF8", "", key("a\xff"), `{}`, 400, contracts.CodeKeyInvalid},
		{"TwoKeyHeaders", "", key("a", "b"), `{}`, 400, contracts.CodeKeyAmbiguous},
		{"TwoEqualKeyHeaders", "", key("a", "a"), `{}`, 400, contracts.CodeKeyAmbiguous},
	}
}

// The bad-input table of both doors (K5, B5).
func TestBadInput(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *replica {
		t.Helper()
		return newWorld(t).start()
	}

	t.Run("OverHTTPIsAProblemAndLeavesOnlyACounter", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		before := r.stored()
		for _, tc := range badInputs() {
			t.Run(tc.name, func(t *testing.T) {
				r := r.as(t)
				what := map[string]string{"tenant": demo, "door": "http", "verb": "event", "result": tc.code}
				counted := r.counted("holdpoint_intake_answers_total", what)
				a := r.send(call{path: "/v1/sources/" + or(tc.source, "drafts") + "/events", header: tc.header,
					body: tc.body})
				require.Equal(t, tc.code, a.problem.Code)
				require.Equal(t, tc.status, a.status)
				require.Equal(t, tc.status, a.problem.Status, "the body says the same status")
				require.Equal(t, []string{"application/problem+json"}, a.header["Content-Type"])
				require.Equal(t, "urn:holdpoint:problem:"+tc.code, a.problem.Type)
				require.NotEmpty(t, a.problem.Title)
				require.Less(t, len(a.problem.Detail), 600, "what was sent is not echoed at length")
				require.Equal(t, before, r.stored(), "nothing is stored")
				require.Equal(t, counted+1, r.counted("holdpoint_intake_answers_total", what))
			})
		}
	})

	t.Run("OverNATSIsParkedWithItsReasonToldAndAcknowledged", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		cases := append(badInputs(), badInput{"TwoKeyHeadersInDifferentLetterCase", "",
			map[string][]string{"Idempotency-Key": {"a"},
				"idempotency-key": {"b"}}, `{}`, 400, contracts.CodeKeyAmbiguous},
			badInput{"HeadersWithBytesThatNoDatabaseTakes", "",
				map[string][]string{"X-Bytes": {"\xff"}, "Nats-Msg-Id": {"\xff"}}, `{}`, 400,
				contracts.CodeKeyMissing},
			badInput{"ALease", "", map[string][]string{"Idempotency-Key": {"k"}, "holdpoint-owner": {"me"}}, `{}`, 403,
				contracts.CodeForbidden})
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				r := r.as(t)
				parked := r.count("select count(*) from parked_messages")
				a := next(r.world, r.publish(message{source: tc.source, header: tc.header, body: tc.body}))
				require.Equal(t, tc.code, a.problem.Code)
				require.Equal(t, tc.status, a.problem.Status)
				require.Equal(t, parked+1, r.count("select count(*) from parked_messages"),
					"it is parked when it is answered")
				row := one[string](r.world, "select reason from parked_messages order by parked_at desc limit 1")
				require.Regexp(t, "^"+tc.code+": .", row)
				require.Equal(t, tc.body, string(one[[]byte](r.world,
					"select body from parked_messages order by parked_at desc limit 1")))
				refused := told[*contracts.RunRefused](r.world, "holdpoint.events.demo.run.refused")
				require.Len(t, refused, parked+1)
				require.Equal(t, tc.code, refused[parked].Reason)
				require.Equal(t, or(tc.source, "drafts"), refused[parked].Source)
			})
		}
		r.awaitSettled(demo)
		require.Equal(t, len(cases),
			r.count("select count(*) from parked_messages where state = 'parked' and tenant_id = 'demo'"))
		require.Zero(t, r.count("select count(*) from runs"))
	})

	// What no client library would send.
	t.Run("OverARawConnectionLeavesNothing", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		before := r.stored()
		for _, tc := range []struct {
			name, headers, body string
			status              int
		}{
			{"ABodyOverTheLimitIsNotReadToItsEnd", "Idempotency-Key: k\r\nContent-Length: 1000000000000\r\n",
				strings.Repeat("x", 30_000), 413},
			{"ABodyThatEndsEarly", "Idempotency-Key: k\r\nContent-Length: 100\r\n", "{}", 400},
			{"AChunkedBodyOverTheLimit", "Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n", "4e21\r\n" +
				strings.Repeat("x", 20_001) + "\r\n0\r\n\r\n", 413},
			{"AControlCharacterInAHeader", "Idempotency-Key: a\x01\r\nContent-Length: 2\r\n", "{}", 400},
		} {
			t.Run(tc.name, func(t *testing.T) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				_, err = fmt.Fprintf(conn,
					"POST /v1/sources/drafts/events HTTP/1.1\r\nHost: x\r\nAuthorization: bearer %s\r\n%s\r\n%s",
					keyOf(demo), tc.headers, tc.body)
				require.NoError(t, err)
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, tc.status, response.StatusCode)
				require.NoError(t, response.Body.Close())
				require.Equal(t, before, r.stored())
			})
		}
	})

	t.Run("AKeyOf255RandomBytesIsTakenOnBothDoors", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		for _, key := range []string{random(255), strings.Repeat("a", 255), strings.Repeat("é", 127)} {
			first := r.post("drafts", key, `{}`)
			require.Equal(t, contracts.ResultAccepted, first.result())
			second := next(r.world, r.publish(message{header: keyed(key), body: `{}`}))
			require.Equal(t, contracts.ResultDuplicate, second.result())
			require.Equal(t, first.runID(), second.runID())
		}
	})

	// One bad record must not sink, or endlessly bring back, the batch that it came in (INT-08).
	t.Run("ABatchLosesOnlyItsBadMessages", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		messages := make([]message, 100)
		for i := range messages {
			messages[i] = message{header: keyed(fmt.Sprint("k-", i)), body: `{}`}
		}
		messages[57].body = `{"s":"\u0000"}`
		messages[80].header = keyed(random(5_000))
		answers := w.publish(messages...) // before anybody fetches, so that all of them are one batch
		results := map[string]int{}
		w.start()
		for range messages {
			a := next(w, answers)
			results[a.result()]++
		}
		require.Equal(t, map[string]int{contracts.ResultAccepted: 98, contracts.CodeMalformed: 1,
			contracts.CodeKeyInvalid: 1}, results)
		require.Equal(t, 98, w.count("select count(*) from runs"))
		require.Equal(t, 2, w.count("select count(*) from parked_messages where deliveries = 1"))
		w.awaitSettled(demo)
	})
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
