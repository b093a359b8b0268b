package intake_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/intake"
)

// largeSource takes the largest bodies that there are.
const largeSource = `  - id: large
    mode: worker
    max_bytes: 1048576
    rules: [{version: 1, key: {header: Idempotency-Key}}]
`

// hostileWorld is a replica with signed sources and one that takes large bodies.
func hostileWorld(t *testing.T) *replica {
	t.Helper()
	w := newWorld(t)
	w.config = configured(t, sources+signedSources+largeSource)
	return w.start()
}

// heard is what came back over a raw connection. The problem is empty where the answer is none.
type heard struct {
	*http.Response
	problem contracts.Problem
}

// dial is a connection that ends with its test.
func (r *replica) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(r.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// raw sends bytes that no client library would send, and hears the first answer, which may come before all was sent.
func (r *replica) raw(sent ...io.Reader) heard {
	r.t.Helper()
	conn := r.dial()
	go func() { _, _ = io.Copy(conn, io.MultiReader(sent...)) }() // fails where the server has heard enough
	return hear(r, bufio.NewReader(conn))
}

func hear(r *replica, from *bufio.Reader) (h heard) {
	r.t.Helper()
	var err error
	h.Response, err = http.ReadResponse(from, nil)
	require.NoError(r.t, err)
	body, err := io.ReadAll(h.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, h.Body.Close())
	if h.Header.Get("Content-Type") == contracts.ProblemContentType {
		require.NoError(r.t, json.Unmarshal(body, &h.problem))
	}
	return h
}

// head is the start of a request of the tenant demo, without the empty line that ends it.
func head(method, path string, lines ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + keyOf(demo) + "\r\n" +
		strings.Join(append(lines, ""), "\r\n")
}

// endless is n bytes of a text that repeats, of which no copy is held.
func endless(text string, n int64) io.Reader { return io.LimitReader(&repeated{text: text}, n) }

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

// bounded makes a call that stores nothing, and of which the whole process, this test with it, allocates no more than so many
// bytes. The time is that of work that grows with the square of its input, not of work that is slow, and is the process's own: a busy
// machine takes none of it.
func bounded(r *replica, most uint64, call func() heard) heard {
	r.t.Helper()
	stored := r.stored()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processorTime(r.t)
	h := call()
	took := processorTime(r.t) - began
	runtime.ReadMemStats(&after)
	require.Less(r.t, took, 5*time.Second)
	require.Less(r.t, after.TotalAlloc-before.TotalAlloc, most, "%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
	require.Equal(r.t, stored, r.stored(), "something is stored")
	return h
}

// processorTime is what this process has used so far.
func processorTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// TestHostileBodiesCostLittle is not parallel, because it counts what the whole process allocates (K5, HASH-03).
func TestHostileBodiesCostLittle(t *testing.T) {
	shared := hostileWorld(t)
	const drafts, large, batches = "/v1/sources/drafts/events", "/v1/sources/large/events", "/v1/sources/large/batches"
	members := func(n int, last string) string {
		var b strings.Builder
		b.WriteString("{")
		for i := range n {
			fmt.Fprintf(&b, `"m%d":0,`, i)
		}
		return b.String() + last + "}"
	}
	worst := `{"headers":{"Idempotency-Key":"k"},"body":` + members(1600, `"m0":1`) + `}`
	whole := func(path, body string, lines ...string) io.Reader {
		lines = append(lines, "Idempotency-Key: k", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)), "")
		return strings.NewReader(head("POST", path, lines...) + body)
	}
	for _, tc := range []struct {
		name   string
		sent   io.Reader
		status int
		code   string
		most   uint64
	}{
		{"TenMegabytesOfSaidLengthAreNotRead", io.MultiReader(strings.NewReader(head("POST", large, "Idempotency-Key: k",
			"Content-Length: 10485760", "")), endless("x", 10*mib)), 413, contracts.CodeTooLarge, 2 * mib},
		{"TenMegabytesInChunksAreReadToTheLimit", io.MultiReader(strings.NewReader(head("POST", large, "Idempotency-Key: k",
			"Transfer-Encoding: chunked", "", "a00000", "")), endless("x", 10*mib)), 413, contracts.CodeTooLarge, 12 * mib},
		{"ABatchOfTenMegabytesInChunksToo", io.MultiReader(strings.NewReader(head("POST", batches,
			"Transfer-Encoding: chunked", "", "a00000", "")), endless("x", 10*mib)), 413, contracts.CodeTooLarge, 64 * mib},
		{"ACompressedBodyIsNotWaitedFor", strings.NewReader(head("POST", drafts, "Idempotency-Key: k", "Content-Encoding: gzip",
			"Content-Length: 10000", "")), 415, contracts.CodeUnsupportedMediaType, 1 * mib},
		{"ACompressedBatchIsNotWaitedFor", strings.NewReader(head("POST", batches, "Content-Encoding: gzip",
			"Content-Type: application/cloudevents-batch+json", "Content-Length: 10000", "")), 415, contracts.CodeUnsupportedMediaType, 1 * mib},
		{"AHundredThousandBrackets", whole(large, strings.Repeat("[", 100_000)), 400, contracts.CodeMalformed, 2 * mib},
		{"ABatchOfAMillionBrackets", whole(batches, `{"events":`+strings.Repeat("[", 1_000_000)), 400, contracts.CodeMalformed, 24 * mib},
		{"AMegabyteOfDigits", whole(large, `{"a":`+strings.Repeat("7", mib-10)+`}`), 400, contracts.CodeMalformed, 6 * mib},
		{"ANumberThatWouldExplode", whole(large, `{"a":1e1000000000}`), 400, contracts.CodeMalformed, 1 * mib},
		{"SixtyThousandMembersOfWhichOneRepeats", whole(large, members(60_000, `"m0":1`)), 400, contracts.CodeMalformed, 40 * mib},
		{"MembersThatNoSchemaKnows", whole("/v1/sources/inline/events", members(1_700, `"x":1`)), 422, contracts.CodeSchemaInvalid, 8 * mib},
		{"ABatchOfMillionsOfItems", whole(batches, `{"events":[`+strings.Repeat("1,", 3_500_000)+`1]}`), 400, contracts.CodeMalformed,
			96 * mib},
		{"AListOfMillionsOfCloudEvents", whole(batches, `[`+strings.Repeat("1,", 3_500_000)+`1]`,
			"Content-Type: application/cloudevents-batch+json"), 415, contracts.CodeUnsupportedMediaType, 64 * mib},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := shared.as(t)
			h := bounded(r, tc.most, func() heard { return r.raw(tc.sent) })
			require.Equal(t, tc.code, h.problem.Code)
			require.Equal(t, tc.status, h.StatusCode)
			require.Less(t, h.ContentLength, int64(16*kib), "a small answer to a large body")
		})
	}

	t.Run("ABatchOfTheWorstItems", func(t *testing.T) {
		r := shared.as(t)
		body := `{"events":[` + worst + strings.Repeat(","+worst, 499) + `]}`
		require.Less(t, len(body), 8*mib)
		h := bounded(r, 320*mib, func() heard { return r.raw(whole(batches, body)) })
		require.Equal(t, http.StatusOK, h.StatusCode)
		require.Less(t, h.ContentLength, int64(500*kib))
	})

	t.Run("SixtyThousandGoodMembersAreAnEvent", func(t *testing.T) {
		r := shared.as(t)
		began := processorTime(t)
		require.Equal(t, contracts.ResultAccepted, r.post("large", "many", members(60_000, `"x":1`)).result())
		require.Less(t, processorTime(t)-began, 5*time.Second)
	})
}

// What is no proper HTTP request, or asks for what is not there, is told so and leaves nothing (B5).
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	shared := hostileWorld(t)
	const events = "/v1/sources/drafts/events"
	keyed := "Idempotency-Key: k"

	for _, tc := range []struct {
		name, sent string
		status     int
		code       string // "" where net/http answers before any handler
	}{
		{"AHeaderOf64KiB", head("POST", events, keyed, "X: "+strings.Repeat("x", 64*kib), "Content-Length: 2", "", "{}"), 431, ""},
		{"ANULInAHeader", head("POST", events, keyed, "X: a\x00b", "Content-Length: 2", "", "{}"), 400, ""},
		{"ABareCarriageReturnInAHeader", head("POST", events, "Idempotency-Key: a\rb", "Content-Length: 2", "", "{}"), 400, ""},
		{"AKeyOverTwoLines", head("POST", events, "Idempotency-Key: a", "\x01b", "Content-Length: 2", "", "{}"), 400, ""},
		{"ASpaceBeforeTheColon", head("POST", events, keyed, "Transfer-Encoding : chunked", "Content-Length: 2", "", "{}"), 400, ""},
		{"TwoLengths", head("POST", events, keyed, "Content-Length: 2", "Content-Length: 3", "", "{} "), 400, ""},
		{"ALengthWithASign", head("POST", events, keyed, "Content-Length: +2", "", "{}"), 400, ""},
		{"AnUnknownTransferCoding", head("POST", events, keyed, "Transfer-Encoding: xchunked", "", "{}"), 501, ""},
		{"TwoTransferCodings", head("POST", events, keyed, "Transfer-Encoding: gzip, chunked", "", "0", "", ""), 501, ""},
		{"TwoHosts", head("POST", events, "Host: y", keyed, "Content-Length: 2", "", "{}"), 400, ""},
		{"AnEmptyChunkedBody", head("POST", events, keyed, "Transfer-Encoding: chunked", "Content-Length: 50", "", "0", "", ""), 400,
			contracts.CodeMalformed},
		{"AChunkThatLies", head("POST", events, keyed, "Transfer-Encoding: chunked", "", "zz", "{}", "0", "", ""), 400, contracts.CodeMalformed},
		{"BytesThatAreNotTextInAPath", head("POST", "/v1/sources/%ff%00/events", keyed, "Content-Length: 2", "", "{}"), 404,
			contracts.CodeUnknownSource},
		{"BytesThatAreNotTextInAKey", head("POST", events, "Idempotency-Key: \xff\xfe", "Content-Length: 2", "", "{}"), 400,
			contracts.CodeKeyInvalid},
		{"ASlashInASourcesName", head("POST", "/v1/sources/a%2Fdrafts/events", keyed, "Content-Length: 2", "", "{}"), 404,
			contracts.CodeUnknownSource},
		{"TwoSlashes", head("POST", "//v1/sources/drafts/events", keyed, "Content-Length: 2", "", "{}"), 404, contracts.CodeNotFound},
		{"DotsInAPath", head("POST", "/v1/sources/x/../drafts/events", keyed, "Content-Length: 2", "", "{}"), 404, contracts.CodeNotFound},
		{"EncodedDotsInAPath", head("POST", "/v1/sources/%2e%2e/events", keyed, "Content-Length: 2", "", "{}"), 404, contracts.CodeNotFound},
		{"ASlashAtTheEnd", head("POST", events+"/", keyed, "Content-Length: 2", "", "{}"), 404, contracts.CodeNotFound},
		{"NoPath", head("GET", "/", ""), 404, contracts.CodeNotFound},
		{"AnotherLetterCase", head("POST", "/V1/sources/drafts/events", keyed, "Content-Length: 2", "", "{}"), 404, contracts.CodeNotFound},
		{"TheWholeServer", head("OPTIONS", "*", ""), 200, ""},
		{"TwoKeysInAQuery", head("GET", "/v1/runs?key=a&key=b", ""), 400, contracts.CodeKeyAmbiguous},
		{"AKeyOfBytesInAQuery", head("GET", "/v1/runs?key=%00%ff", ""), 404, contracts.CodeNotFound},
		{"ASearchForANUL", head("GET", "/v1/runs/search?correlation_id=%00", ""), 400, contracts.CodeBadQuery},
		{"ASearchForBytes", head("GET", "/v1/runs/search?correlation_id=%ff", ""), 400, contracts.CodeBadQuery},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := shared.as(t)
			stored, logged := r.stored(), countOf(r.logs.text(), "ERROR")
			h := r.raw(strings.NewReader(tc.sent))
			require.Equal(t, tc.status, h.StatusCode)
			require.Equal(t, tc.code, h.problem.Code)
			require.Equal(t, stored, r.stored())
			require.Equal(t, logged, countOf(r.logs.text(), "ERROR"), "bad input is no error of ours")
		})
	}

	t.Run("SearchesAtTheEdgesOfTimeAreAnswered", func(t *testing.T) {
		r := shared.as(t)
		for _, query := range []string{"since=0000-01-01T00:00:00Z", "since=9999-12-31T23:59:59Z", "correlation_id=%F0%9F%98%80",
			"after=0000-01-01T00:00:00Z,6936d420-47b4-5a80-d52b-985d5a396b2a", "after=9999-12-31T23:59:59Z,00000000-0000-0000-0000-000000000000"} {
			if !strings.HasPrefix(query, "correlation_id") {
				query = "correlation_id=a&" + query
			}
			require.Equal(t, http.StatusOK, r.raw(strings.NewReader(head("GET", "/v1/runs/search?"+query, "", ""))).StatusCode, query)
		}
	})

	t.Run("AnotherMethodIsToldWhichOnesThereAre", func(t *testing.T) {
		r := shared.as(t)
		stored := r.stored()
		paths := map[string]string{"/v1/runs": "GET, HEAD", "/v1/runs/search": "GET, HEAD", "/v1/runs/x": "GET, HEAD", "/v1/hooks/demo/github": "POST"}
		for _, verb := range []string{"events", "claims", "work", "batches"} {
			paths["/v1/sources/drafts/"+verb] = "POST"
		}
		for _, verb := range []string{"renewal", "proposal", "failure"} {
			paths["/v1/runs/x/"+verb] = "POST"
		}
		for path, allowed := range paths {
			for _, method := range []string{"HEAD", "GET", "POST", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "FUZZ"} {
				if strings.Contains(allowed, method) || method == "HEAD" {
					continue
				}
				h := r.raw(strings.NewReader(head(method, path, "Content-Length: 0", "", "")))
				require.Equal(t, http.StatusMethodNotAllowed, h.StatusCode, "%s %s", method, path)
				require.Equal(t, contracts.CodeMethodNotAllowed, h.problem.Code)
				require.Equal(t, allowed, h.Header.Get("Allow"))
			}
		}
		response, err := http.Head(r.url + events)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
		require.Equal(t, stored, r.stored())
	})

	t.Run("RequestsThatAreSentAtOnceAreAnsweredInOrder", func(t *testing.T) {
		r := shared.as(t)
		conn := r.dial()
		first := head("POST", events, "Idempotency-Key: pipe-1", "Content-Length: 2", "", "{}")
		second := "POST " + events + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: pipe-2\r\nContent-Length: 2\r\n\r\n{}" // whose key admits nobody
		third := head("POST", events, "Idempotency-Key: pipe-1", "Content-Length: 7", "", `{"a":1}`)
		_, err := io.WriteString(conn, first+second+third)
		require.NoError(t, err)
		answers := bufio.NewReader(conn)
		require.Equal(t, http.StatusAccepted, hear(r, answers).StatusCode)
		require.Equal(t, contracts.CodeUnauthenticated, hear(r, answers).problem.Code, "one request's key is not the next one's")
		require.Equal(t, contracts.CodePayloadMismatch, hear(r, answers).problem.Code)
	})

	t.Run("AHiddenRequestHasNoCredential", func(t *testing.T) {
		r := shared.as(t)
		conn := r.dial()
		stored := r.stored()
		hidden := "POST " + events + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: hidden\r\nContent-Length: 2\r\n\r\n{}"
		_, err := io.WriteString(conn, head("POST", events, keyed, fmt.Sprintf("Content-Length: %d", 5+len(hidden)), "Transfer-Encoding: chunked", "",
			"0", "", "")+hidden)
		require.NoError(t, err)
		answers := bufio.NewReader(conn)
		require.Equal(t, contracts.CodeMalformed, hear(r, answers).problem.Code, "the chunks count, and they are empty")
		if _, err := answers.Peek(1); err == nil { // the server may close the connection instead
			require.Equal(t, contracts.CodeUnauthenticated, hear(r, answers).problem.Code)
		}
		require.Equal(t, stored, r.stored())
	})

	t.Run("AThousandHeadersAreTakenAndKept", func(t *testing.T) {
		r := shared.as(t)
		lines := []string{"Idempotency-Key: many-headers"}
		for i := range 1000 {
			lines = append(lines, fmt.Sprintf("X-%d: %d", i, i))
		}
		h := r.raw(strings.NewReader(head("POST", events, append(lines, "Content-Length: 2", "", "{}")...)))
		require.Equal(t, http.StatusAccepted, h.StatusCode)
		require.LessOrEqual(t, r.count(`select length(headers::text) from run_payloads join runs using (run_id, tenant_id)
where idempotency_key = 'many-headers'`), 3*intake.LongestHeaders)
	})
}
