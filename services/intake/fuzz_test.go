package intake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// told holds a refusal against what every refusal is: a code of the list, and no more text than a person wants to read.
func told(t *testing.T, problem *contracts.Problem) {
	t.Helper()
	require.NotEqual(t, contracts.CodeInternal, problem.Code, problem.Detail)
	require.True(t, 400 <= problem.Status && problem.Status < 500, "%d", problem.Status)
	require.Less(t, len(problem.Detail), 600)
	require.True(t, utf8.ValidString(problem.Detail))
	r := refuse(problem)
	require.True(t, json.Valid(r.encode()))
}

// FuzzBatch looks for a batch whose events are not the bytes that were sent, or whose headers no request could have.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`{"events":[{"headers":{"Idempotency-Key":"k"},"body":{ "n" : 1.0 }},{"body":"\ud800"}]}`, `{"events":null}`,
		`{"events":[{"headers":null,"body":null}]}`, `{"events":[{"headers":{"a":"\u0000"},"body":1}]}`, `[{"id":1},{"id":2}]`,
		"{\"events\":[{\"headers\":{\"Idempotency-Key\":\"\xff\"},\"body\":\"\xfe\"}]}", `{"events":[],"events":[]}`,
		`{"events":[{"headers":{"X":"a\r\nAuthorization: b"},"body":{}}]}`, `{1:2}`, `{"events" 1}`, `{"events":[1 2]}`, `[1,]`,
		`{"events":[{"headers":{"a":"1","A":"2"},"body":{"a":1,"a":2}}]} `, strings.Repeat("[", 300), `{"events":[{}]} {}`, ``,
	} {
		f.Add([]byte(seed), "application/json")
		f.Add([]byte(seed), "application/cloudevents-batch+json; charset=UTF-8")
	}
	f.Fuzz(func(t *testing.T, raw []byte, contentType string) {
		whole := &delivery{raw: raw, headers: headers{"Content-Type": {contentType}}, sentBy: "me"}
		items, problem := whole.items()
		if problem != nil {
			told(t, problem)
			return
		}
		require.True(t, json.Valid(raw), "taken apart, though it is not JSON")
		require.NotEmpty(t, items)
		require.LessOrEqual(t, len(items), maxBatch)
		rest := raw
		for _, item := range items {
			at := bytes.Index(rest, item.raw)
			require.GreaterOrEqual(t, at, 0, "%q is not what was sent", item.raw)
			require.Equal(t, "me", item.sentBy)
			for name, values := range item.headers {
				value := strings.Join(values, "")
				require.NotContains(t, name, " ")
				require.NotContains(t, value, "\n")
				require.True(t, utf8.ValidString(value))
				require.True(t, !strings.Contains(value, "\uFFFD") || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) ||
					bytes.Contains(raw, []byte("\uFFFD")), "%q was made up", value)
			}
			if _, problem := headerKey(item, headerIdempotencyKey); problem != nil {
				told(t, problem)
			}
		}
	})
}

// FuzzKey looks for a key that differs between its plain and its quoted form, or that the ledger could not hold.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{`k`, `a"b\c`, `"`, `\`, ` k `, "a\tb", "é", "a\xff", "\u0085", strings.Repeat("k", 255),
		strings.Repeat("k", 256), `"a";p=1`, `""`, `"a`, `a,b`, "a\x00b", "a\r\nb", "\u202e", "\ufeff"} {
		f.Add(seed)
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, key string) {
		quoted, problem := quotedKey(`"` + escape.Replace(key) + `"`)
		printable := key != "" && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
		require.Equal(t, printable && len(key) <= maxKeyBytes, problem == nil, "%q", key)
		if problem == nil {
			require.Equal(t, key, quoted)
		}
		for _, read := range []func(string) (string, *contracts.Problem){checkedKey, quotedKey, sentKey} {
			got, problem := read(key)
			if problem != nil {
				told(t, problem)
				continue
			}
			require.LessOrEqual(t, len(got), maxKeyBytes)
			require.Equal(t, sound(got), got)
			require.False(t, strings.ContainsFunc(got, isControl) || strings.Contains(got, "\t"), "%q", got)
		}
	})
}

// sentKey reads a key as a request has it.
func sentKey(value string) (string, *contracts.Problem) {
	return headerKey(&delivery{headers: headers{headerIdempotencyKey: {value}}}, headerIdempotencyKey)
}

// FuzzCloudEvent looks for events with different attributes that get one key, in either mode.
func FuzzCloudEvent(f *testing.F) {
	f.Add("/s", "1", `{"specversion":"1.0","source":"/s","id":"1"}`)
	f.Add("%E2%82%AC", `"a\"b"`, `{"specversion":"1.0","source":"\u0000","id":"1"}`)
	f.Add("%", `"`, `{"id":1}`)
	f.Add("%00", "%0a", `[]`)
	f.Add("", "\xff", `null`)
	f.Fuzz(func(t *testing.T, source, id, body string) {
		binary := &delivery{headers: headers{"Ce-Specversion": {"1.0"}, "Ce-Source": {source}, "Ce-Id": {id}}}
		if key, problem := cloudEventKey(binary); problem != nil {
			told(t, problem)
		} else {
			var parts []string
			require.NoError(t, json.Unmarshal([]byte(key), &parts))
			require.Len(t, parts, 2)
			again := &delivery{headers: headers{"Ce-Specversion": {"1.0"}, "Ce-Source": {url.PathEscape(parts[0])},
				"Ce-Id": {url.PathEscape(parts[1])}}}
			same, problem := cloudEventKey(again)
			require.Nil(t, problem)
			require.Equal(t, key, same)
		}
		structured := &delivery{raw: []byte(body), headers: headers{"Content-Type": {"application/cloudevents+json"}}}
		if problem := structured.parse(); problem != nil {
			told(t, problem)
			return
		}
		if key, problem := cloudEventKey(structured); problem != nil {
			told(t, problem)
		} else {
			require.LessOrEqual(t, len(key), maxKeyBytes)
			require.Equal(t, canonical.NewArray(canonical.MustString(textOf(structured.body, "source")),
				canonical.MustString(textOf(structured.body, "id"))).String(), key)
		}
	})
}

// FuzzPreferredWait looks for a wait that is none, or longer than anybody may wait.
func FuzzPreferredWait(f *testing.F) {
	for _, seed := range []string{"wait=20", "wait=9223372037", "wait=-1", "wait", `respond-async, WAIT = "7" ; x`, "wait=1e9",
		"wait=18446744073709551617", ",,;=,", "wait=0, wait=5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wait := preferredWait(http.Header{"Prefer": {value}})
		require.True(t, wait == 0 || time.Second <= wait && wait <= longestWait, "%q: %s", value, wait)
		require.Zero(t, wait%time.Second)
		require.True(t, wait == 0 || strings.Contains(strings.ToLower(value), "wait"))
	})
}

// FuzzSearch looks for a search that the ledger could not make.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"correlation_id=a", "correlation_id=%00", "correlation_id=%ff", "state=processing&limit=200",
		"state=processing&since=2026-11-30T03:00:00Z", "correlation_id=a&after=2026-11-30T03:00:00Z,6936d420-47b4-5a80-d52b-985d5a396b2a",
		"correlation_id=a&since=0000-01-01T00:00:00Z", "correlation_id=a&limit=-1", "correlation_id=a&after=,", "a;b", "%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, _ := url.ParseQuery(query) // as URL.Query does
		s, problem := readSearch("demo", values)
		if problem != nil {
			require.Equal(t, contracts.CodeBadQuery, problem.Code)
			told(t, problem)
			return
		}
		require.Equal(t, "demo", s.TenantID)
		require.True(t, 1 <= s.Limit && s.Limit <= largestPage)
		require.Equal(t, sound(s.CorrelationID), s.CorrelationID)
		require.LessOrEqual(t, len(s.CorrelationID), maxKeyBytes)
		require.True(t, s.CorrelationID != "" || s.State != "" && time.Since(s.Since) <= searchDays*25*time.Hour)
	})
}

// FuzzWorkRequest looks for a request for work that is out of bounds.
func FuzzWorkRequest(f *testing.F) {
	for _, seed := range []string{`{}`, `{"owner":"6936d420-47b4-5a80-d52b-985d5a396b2a","max":100,"wait_seconds":30}`, `{"max":1e2}`,
		`{"max":101}`, `{"max":1e300}`, `{"max":"1"}`, `{"owner":null}`, `{"owner":"00000000-0000-0000-0000-000000000000"}`,
		`{"wait_seconds":-0}`, `{"wait_seconds":0.5}`, `[]`, `null`, `{"max":9007199254740993}`, `{"Max":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, problem := readWorkRequest(&delivery{raw: raw})
		if problem != nil {
			told(t, problem)
			return
		}
		require.NotEqual(t, uuid.Nil, r.owner)
		require.True(t, 1 <= r.most && r.most <= maxWork)
		require.True(t, 0 <= r.wait && r.wait <= maxWorkWait*time.Second)
	})
}

// FuzzWorkerCall looks for a worker's call that is taken and out of bounds. No verb's body reaches a database here.
func FuzzWorkerCall(f *testing.F) {
	lease := `{"owner":"6936d420-47b4-5a80-d52b-985d5a396b2a","version":1,`
	for _, seed := range []string{lease + `"retryable":true,"reason":"r"}`, lease + `"retryable":false,"reason":"r","invalid":true}`,
		lease + `"retryable":true,"reason":"r","class":"busy","retry_after_seconds":3600}`, lease + `"retryable":1,"reason":""}`,
		lease + `"retryable":true,"reason":"r","retry_after_seconds":1e3}`, `{"version":1e300}`, `{"owner":1,"version":"1"}`,
		lease + `"proposal":{"action_type":"x"}}`, lease + `"proposal":null}`, `[]`, `{}`} {
		f.Add([]byte(seed))
	}
	s := &source{Source: &config.Source{ID: "drafts", Attempts: 3, Lease: config.Lease{Duration: time.Minute}}}
	known := &tenant{Tenant: &config.Tenant{ID: "demo"}, sources: map[string]*source{"drafts": s},
		policy: func() (*registry, error) { return &registry{}, nil }}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, verb := range []*workerVerb{&renewal, &submission, &giveUp} {
			d := &delivery{raw: raw}
			owned, problem := verb.read(uuid.NewString(), d)
			if problem == nil {
				run := &ledger.Run{Key: "k", Attempts: 3}
				problem = verb.fill(&workerCall{tenant: known, source: s, body: d.body, run: run}, owned)
			}
			if problem != nil {
				told(t, problem)
				continue
			}
			if fail := owned.Fail; fail != nil {
				require.False(t, fail.Retryable, "the last attempt is over")
				require.True(t, fail.Reason != "" && len(fail.Reason) <= maxReasonBytes+50)
				require.True(t, 0 < fail.RetryAfter && fail.RetryAfter <= maxRetryAfter*time.Second)
			}
			require.True(t, verb != &submission || owned.Submit != nil)
		}
	})
}

// FuzzIssuer looks for a token that the look at its issuer does not survive. Anybody can send one.
func FuzzIssuer(f *testing.F) {
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://login.example"}`))
	for _, seed := range []string{"", ".", "..", "a." + payload + ".c", payload, "." + payload, "a.%.c", "a.bnVsbA.c", "a.e30=.c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		issued := issuerOf(token)
		require.LessOrEqual(t, len(issued), 3*len(token))
		require.Equal(t, issued, issuerOf(token+".more"))
	})
}

// FuzzHeaders looks for a credential that is kept, and for text that no database takes.
func FuzzHeaders(f *testing.F) {
	for _, seed := range [][2]string{{"authorization", "Bearer x"}, {"X_API_KEY", "x"}, {"Holdpoint-Callback", "http://x"}, {"a\x00", "\xff"},
		{"X-Auth", "x"}, {"Traceparent", strings.Repeat("0", 55)}, {"content-type", "application/json; charset=\"utf-8"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		d := &delivery{raw: []byte("{}"), headers: newHeaders(map[string][]string{name: {value}, strings.ToLower(name): {value}})}
		if problem := d.acceptable(10); problem != nil {
			told(t, problem)
		}
		require.Equal(t, sound(clip(value)), clip(value))
		require.LessOrEqual(t, len(clip(value)), longestDetail+len("…"))
		for _, kept := range []map[string]string{d.headers.stored(), d.headers.parked()} {
			for name := range kept {
				for _, secret := range []string{"authorization", "cookie", "token", "api-key", "api_key", "callback"} {
					require.NotContains(t, strings.ToLower(name), secret)
				}
			}
		}
		if trace := d.traceParent(); trace != "" {
			require.Len(t, trace, 55)
		}
	})
}
