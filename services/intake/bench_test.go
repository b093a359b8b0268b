package intake_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkHTTP takes events in over 256 connections, with a real ledger. Its profile is the door's:
//
//	go test ./services/intake -run '^$' -bench HTTP -benchtime 20000x -cpuprofile cpu.out
//
// The client is the smallest there can be, so that it does not stand in the way.
func BenchmarkHTTP(b *testing.B) {
	for _, duplicates := range []int{0, 95} {
		b.Run(fmt.Sprintf("Duplicates%d", duplicates), func(b *testing.B) { benchmarkHTTP(b, duplicates) })
	}
}

func benchmarkHTTP(b *testing.B, duplicates int) {
	r := newWorld(b).start()
	require.Equal(b, "accepted", r.post("inline", "warm", goodEvent).result())
	var sent atomic.Int64
	b.SetParallelism(128)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for pb.Next() {
			n := sent.Add(1)
			key := n - n%100*int64(min(duplicates, 1))
			if duplicates > 0 && n%100 >= int64(duplicates) {
				key = n
			}
			_, err := fmt.Fprintf(conn,
				"POST /v1/sources/inline/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
					"Content-Type: application/json\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\n"+
					"Idempotency-Key: k-%d\r\nContent-Length: %d\r\n\r\n%s", keyOf(demo), key, len(goodEvent), goodEvent)
			if err != nil {
				b.Error(err)
				return
			}
			response, err := http.ReadResponse(in, nil)
			if err != nil || response.StatusCode != http.StatusAccepted {
				b.Errorf("%v %v", response, err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
