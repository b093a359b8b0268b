package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// exchange is one request to one of the APIs, on its way through its fault plan.
type exchange struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	call   call
	plan   plan
	body   []byte
}

// serve makes a handler of one operation of one system.
func (s *Server) serve(system, operation string, handle func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handle(&exchange{
			server: s, w: w, r: r,
			call: call{
				system: system, operation: operation, reference: r.Header.Get("X-Operation-Id"), path: r.URL.Path,
			},
		})
	}
}

// readBody answers 400 or 413 where there is no whole body of an allowed size.
func (x *exchange) readBody() bool {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.server.cfg.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		x.refuse(&problem{http.StatusRequestEntityTooLarge, "too_large", err.Error()})
		return false
	}
	if err != nil {
		x.refuse(badRequest("read the body: %v", err))
		return false
	}
	x.body = body
	return true
}

// decode reads the body into v and answers as readBody does where it cannot.
func (x *exchange) decode(v any) bool {
	if !x.readBody() {
		return false
	}
	err := json.Unmarshal(x.body, v)
	if err != nil {
		x.refuse(badRequest("the body is not the JSON object this call takes: %v", err))
	}
	return err == nil
}

// begin makes the fault plan and reports whether the request gets past the faults before acceptance.
func (x *exchange) begin() bool {
	x.note()
	x.plan = x.server.rules.plan(x.call)
	fault := x.plan.before
	if fault == nil {
		return true
	}
	switch fault.Kind {
	case HangBeforeAccept:
		x.hang(fault)
	case ResetBeforeAccept:
		x.reset()
	case Redirect:
		x.w.Header().Set("Location", fault.Location)
		x.refuse(fault.problem(fault.Status, "redirected"))
	case RateLimit:
		if fault.RetryAfter != "" {
			x.w.Header().Set("Retry-After", fault.RetryAfter)
		}
		x.refuse(fault.problem(http.StatusTooManyRequests, "rate_limited"))
	default:
		x.refuse(fault.problem(fault.Status, "injected_error"))
	}
	return false
}

// write takes one write through its life: see the package comment. The target is what the path names, "" for creates.
func (x *exchange) write(target string, w *Write, check draft) {
	if !x.begin() {
		return
	}
	x.describe(w)
	key := keyID{w.System, w.IdempotencyKey}
	keyed := key.key != "" && !x.plan.ignoreKey && !x.personality().IgnoreKeys
	if keyed {
		window := x.personality().keyWindow()
		first, refused := x.server.ledger.claim(key, asked{w.Operation, target, w.BodySHA256}, w.Time, window)
		if refused != nil || first != nil {
			x.repeat(first, refused)
			return
		}
	}
	refused := x.accept(w, check)
	switch {
	case keyed && refused == nil:
		x.server.ledger.settle(key, w)
	case keyed:
		x.server.ledger.release(key)
	}
	if refused != nil {
		x.refuse(refused)
		return
	}
	if w.stands != nil {
		x.finish(w.success())
		return
	}
	x.server.ledger.news.tell()
	x.server.signal(x.plan.signals, w.Reference, w)
	x.server.tell(w, x.plan.telling)
	x.finish(w.success())
}

// describe fills what every write records.
func (x *exchange) describe(w *Write) {
	sum := sha256.Sum256(x.body)
	w.Time = x.server.cfg.Now().UTC()
	w.System, w.Operation, w.Reference = x.call.system, x.call.operation, x.call.reference
	w.IdempotencyKey = x.r.Header.Get(keyHeaders[x.call.system])
	w.BodySHA256 = hex.EncodeToString(sum[:])
	w.RequestID = x.w.Header().Get("X-Request-Id")
	w.Replay = x.plan.sticky
}

// accept waits out the delay and makes the write durable.
func (x *exchange) accept(w *Write, check draft) *problem {
	x.pause()
	if refused := x.server.ledger.accept(w, check); refused != nil {
		return refused
	}
	if err := w.durable(); err != nil {
		return unavailable(err)
	}
	return nil
}

// repeat answers a request whose key is taken: with the first result, or with the reason why not.
func (x *exchange) repeat(first *Write, refused *problem) {
	if refused != nil {
		x.refuse(refused)
		return
	}
	x.w.Header().Set("Idempotent-Replayed", "true")
	if stored := first.Replay; stored != nil {
		x.refuse(&problem{stored.Status, stored.Code, stored.Message})
		return
	}
	x.finish(first.success())
}

// pause waits out the plan's delay. It ends early only with the server: a caller that gave up is accepted all the same.
func (x *exchange) pause() { x.server.pause(x.plan.delay) }

func (s *Server) pause(delay time.Duration) {
	if delay == 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing:
	}
}

// finish answers, unless a fault after acceptance takes the answer's place.
func (x *exchange) finish(status int, view any) {
	fault := x.plan.after
	if fault == nil {
		respond(x.w, status, view)
		return
	}
	switch fault.Kind {
	case AcceptThenHang:
		x.hang(fault)
	case AcceptThenReset:
		x.reset()
	case TruncateBody:
		truncate(x.w, status, view)
	default:
		x.refuse(fault.problem(fault.Status, "injected_error"))
	}
}

func (x *exchange) refuse(p *problem) {
	if words := dialects[x.call.system]; words != nil {
		respond(x.w, p.status, words(p))
		return
	}
	respond(x.w, p.status, p.view())
}

// hang says nothing until the caller has gone, the server closes, or the fault's duration is over, and then cuts the
// connection.
func (x *exchange) hang(fault *Fault) {
	x.server.hang(x.r.Context(), fault)
	x.reset()
}

func (s *Server) hang(ctx context.Context, fault *Fault) {
	if fault.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(fault.Duration))
		defer cancel()
	}
	select {
	case <-ctx.Done():
	case <-s.closing:
	}
}

// reset cuts the connection with a TCP reset and without an answer.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server then closes the connection itself
	}
	cut(conn)
}

func cut(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// truncate announces the whole body, sends half of it and cuts the connection.
func truncate(w http.ResponseWriter, status int, view any) {
	body, err := json.Marshal(view)
	if err != nil {
		panic(err) // views are our own structs
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body[:len(body)/2])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// respond answers with JSON. A failed write of the answer is the caller's loss: the write is in the ledger.
func respond(w http.ResponseWriter, status int, view any) {
	body, err := json.Marshal(view)
	if err != nil {
		panic(err) // views are our own structs
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
