package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// Bounds of an answer, in bytes. A list of work holds up to 100 events of up to 1 MiB each.
const (
	maxAnswerBytes = 1 << 20
	maxWorkBytes   = 128 << 20
)

// call is one thing that is asked of the API, the same on every attempt.
type call struct {
	method, path string
	header       http.Header
	body         []byte
	into         any           // takes the answer
	limit        int64         // of the answer, maxAnswerBytes where it is 0
	hold         time.Duration // how long the server may take its time
	timeout      time.Duration // of one attempt besides hold, the client's where it is 0
}

// reply is what is known about an answer besides its body.
type reply struct {
	sentAt time.Time // just before the request was sent, with a monotonic reading
	date   time.Time // the server's clock as it answered, in whole seconds; zero where it did not say
	header http.Header
}

// failedAttempt is an attempt after which the same call may be made again.
type failedAttempt struct {
	err   error
	maybe bool        // what was asked for may have been done
	hint  http.Header // of the answer, nil where there was none
}

func (f *failedAttempt) Error() string { return f.err.Error() }
func (f *failedAttempt) Unwrap() error { return f.err }

// once makes one attempt. An error that is no *failedAttempt is final.
func (c *Client) once(ctx context.Context, k *call) (*reply, error) {
	timeout := k.timeout
	if timeout == 0 {
		timeout = c.config.AttemptTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+k.hold)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, bytes.NewReader(k.body))
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		request.Header[name] = values
	}
	request.Header.Set("Authorization", "Bearer "+c.config.APIKey)
	r := &reply{sentAt: time.Now()}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &failedAttempt{err: err, maybe: !neverSent(err)}
	}
	defer response.Body.Close()
	r.header = response.Header
	r.date, _ = http.ParseTime(response.Header.Get("Date"))
	limit := k.limit
	if limit == 0 {
		limit = maxAnswerBytes
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, &failedAttempt{err: fmt.Errorf("read the answer: %w", err), maybe: true}
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("the answer is longer than %d bytes", limit)
	}
	return r, k.read(response, data)
}

// read takes the body of an answer.
func (k *call) read(response *http.Response, data []byte) error {
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusAccepted {
		if err := json.Unmarshal(data, k.into); err != nil {
			return &failedAttempt{err: fmt.Errorf("the answer cannot be read: %w", err), maybe: true}
		}
		if empty(k.into) {
			return &failedAttempt{err: errors.New("the answer is none of Holdpoint's"), maybe: true}
		}
		return nil
	}
	problem := asProblem(response, data)
	err := error(problem)
	if problem == nil {
		err = fmt.Errorf("HTTP %d, which is no answer of Holdpoint's; is the base URL right?", response.StatusCode)
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		return &failedAttempt{err: err, hint: response.Header}
	case http.StatusServiceUnavailable: // with a problem, it says that nothing was stored
		return &failedAttempt{err: err, hint: response.Header, maybe: problem == nil}
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return &failedAttempt{err: err, hint: response.Header, maybe: true}
	}
	return err
}

// empty tells an answer that is about nothing: some proxy's page, which is JSON by chance.
func empty(answer any) bool {
	switch a := answer.(type) {
	case *contracts.Answer:
		return a.RunID == ""
	case *contracts.Work:
		return a.Work == nil
	}
	return false
}

// asProblem is the problem that an answer holds, or nil.
func asProblem(response *http.Response, data []byte) *contracts.Problem {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	problem := new(contracts.Problem)
	if kind != contracts.ProblemContentType || json.Unmarshal(data, problem) != nil || problem.Code == "" {
		return nil
	}
	return problem
}

// neverSent tells a connection that was never made from one that broke.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// encode writes a body. Bodies are structs of contracts, whose raw members the caller may have got wrong.
func encode(body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	return data, nil
}

// jsonHeader is the header of a call with a JSON body.
func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }
