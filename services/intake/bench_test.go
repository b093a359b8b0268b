package intake_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// BenchmarkIntake is intake alone: bodies of 1 KiB are admitted, claimed, stored and logged for the outbox, and answered after
// the commit, over each door, with a share of deliveries that are duplicates. Nothing else runs but Postgres and the broker. Give
// it a server that is as durable as production's, such as that of `holdpoint up`:
//
//	HOLDPOINT_TEST_POSTGRES_URL=postgres://… go test ./services/intake -run '^$' -bench Intake -benchtime 60000x
//
// Paced deliveries are due at a fixed rate, and their time counts from when they were due, whether anybody was free or not.
func BenchmarkIntake(b *testing.B) {
	service.TuneMemory(0) // as every service does
	doors := []struct {
		name  string
		run   func(*load)
		paced float64 // deliveries a second: half of what is aimed at
	}{{"HTTP", overConnections, 3000}, {"JetStream", overJetStream, 5000}, {"Micro", overMicro, 3000}}
	for _, door := range doors {
		for _, duplicates := range []int64{0, 50, 95} {
			b.Run(fmt.Sprintf("%s/Duplicates%d", door.name, duplicates), func(b *testing.B) {
				(&load{b: b, r: integrated(b), duplicates: duplicates}).measure(door.run)
			})
		}
		b.Run(door.name+"/Paced", func(b *testing.B) {
			(&load{b: b, r: integrated(b), rate: door.paced}).measure(door.run)
		})
	}
}

// integrated is a replica whose events come from a tenant's own account on the broker.
func integrated(b *testing.B) *replica {
	b.Helper()
	r := newWorld(b).start()
	nc, err := nats.Connect(r.bus.TenantURL(demo))
	require.NoError(b, err)
	b.Cleanup(nc.Close)
	r.nc = nc
	r.js, err = jetstream.New(nc)
	require.NoError(b, err)
	return r
}

// load is one measurement.
type load struct {
	b          *testing.B
	r          *replica
	duplicates int64   // percent
	rate       float64 // deliveries a second; 0 is flat out
	next       atomic.Int64
	start      time.Time

	mu    sync.Mutex
	times []time.Duration
}

const inFlight = 256

// pad makes every body 1 KiB.
var pad = strings.Repeat("x", 1024-len(`{"task":"t","pad":""}`))

var kibibyte = []byte(`{"task":"t","pad":"` + pad + `"}`)

func (l *load) measure(run func(*load)) {
	require.Equal(l.b, "accepted", l.r.post("drafts", "warm", `{"task":"t"}`).result())
	runtime.GC()
	l.b.ReportAllocs()
	l.b.ResetTimer()
	l.start = time.Now()
	run(l)
	l.b.StopTimer()
	slices.Sort(l.times)
	l.b.ReportMetric(float64(l.b.N)/l.b.Elapsed().Seconds(), "events/s")
	if len(l.times) > 0 {
		l.b.ReportMetric(float64(l.times[len(l.times)/2].Microseconds())/1000, "p50-ms")
		l.b.ReportMetric(float64(l.times[len(l.times)*99/100].Microseconds())/1000, "p99-ms")
	}
}

// take is the next delivery and when it is due; false when there are no more. Of a hundred deliveries, the share that are
// duplicates repeats the key of the hundred's first.
func (l *load) take() (key int64, due time.Time, more bool) {
	n := l.next.Add(1)
	if n > int64(l.b.N) {
		return 0, due, false
	}
	key = n
	if n%100 < l.duplicates {
		key = n - n%100
	}
	due = time.Now()
	if l.rate > 0 {
		due = l.start.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
		time.Sleep(time.Until(due))
	}
	return key, due, true
}

// each runs workers that keep their own times.
func (l *load) each(work func(keep func(due time.Time))) {
	var workers sync.WaitGroup
	for range inFlight {
		workers.Go(func() {
			var own []time.Duration
			work(func(due time.Time) { own = append(own, time.Since(due)) })
			l.mu.Lock()
			l.times = append(l.times, own...)
			l.mu.Unlock()
		})
	}
	workers.Wait()
}

// overConnections uses the smallest client that there can be, so that it does not stand in the way.
func overConnections(l *load) {
	l.each(func(keep func(time.Time)) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(l.r.url, "http://"))
		if err != nil {
			l.b.Error(err)
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for key, due, more := l.take(); more; key, due, more = l.take() {
			_, err := fmt.Fprintf(conn, "POST /v1/sources/drafts/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Content-Type: application/json\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\n"+
				"Idempotency-Key: k-%d\r\nContent-Length: %d\r\n\r\n%s", keyOf(demo), key, len(kibibyte), kibibyte)
			if err != nil {
				l.b.Error(err)
				return
			}
			response, err := http.ReadResponse(in, nil)
			if err != nil || response.StatusCode != http.StatusAccepted {
				l.b.Errorf("%v %v", response, err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			keep(due)
		}
	})
}

func overMicro(l *load) {
	subject := bus.APISubject(demo, "claim.drafts")
	require.Eventually(l.b, func() bool {
		_, err := l.r.nc.Request(subject, []byte(`{}`), patience)
		return err == nil
	}, patience, pollEvery)
	l.each(func(keep func(time.Time)) {
		for key, due, more := l.take(); more; key, due, more = l.take() {
			msg := &nats.Msg{Subject: subject, Data: kibibyte, Header: nats.Header{"Idempotency-Key": {"k-" + strconv.FormatInt(key, 10)}}}
			answer, err := l.r.nc.RequestMsg(msg, patience)
			if err != nil || answer.Header.Get("Nats-Service-Error") != "" {
				l.b.Errorf("%v %v", answer, err)
				return
			}
			keep(due)
		}
	})
}

// overJetStream publishes without waiting for each, and counts the answers, which come after the commit.
func overJetStream(l *load) {
	due := make([]time.Time, l.b.N+1)
	answered := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(l.b.N))
	inbox := bus.InboxPrefix(demo) + ".bench"
	sub, err := l.r.nc.Subscribe(inbox+".*", func(m *nats.Msg) {
		n, _ := strconv.Atoi(m.Subject[len(inbox)+1:])
		if bytes.Contains(m.Data, []byte(`"code"`)) {
			l.b.Errorf("%s", m.Data)
		}
		l.times = append(l.times, time.Since(due[n])) // a subscription's messages come one by one
		if left.Add(-1) == 0 {
			close(answered)
		}
	})
	require.NoError(l.b, err)
	require.NoError(l.b, sub.SetPendingLimits(-1, -1))
	defer func() { _ = sub.Unsubscribe() }()
	for key, at, more := l.take(); more; key, at, more = l.take() {
		n := l.next.Load()
		due[n] = at
		_, err := l.r.js.PublishMsgAsync(&nats.Msg{Subject: bus.IngressSubject(demo, "drafts"), Data: kibibyte, Header: nats.Header{
			"Idempotency-Key": {"k-" + strconv.FormatInt(key, 10)}, bus.HeaderReply: {inbox + "." + strconv.FormatInt(n, 10)}}})
		require.NoError(l.b, err)
	}
	<-answered
}
