package connector

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// BenchmarkExecute is one prepared write over loopback, against a provider that does next to nothing.
func BenchmarkExecute(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					io.WriteString(c, accepted)
				}
			}()
		}
	}()
	k, err := New(Config{Connector: declaration("http://" + listener.Addr().String())})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	action, _ := canonical.Parse([]byte(`{"proposed_change":{"amount":12.50}}`))
	r, err := k.Prepare(b.Context(), Operation{Name: "pay", Action: action, OperationID: "op", IdempotencyKey: "key"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if result := k.Execute(b.Context(), r, allow); result.Class != outcome.Succeeded {
				b.Fatal(result.Detail)
			}
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	k, err := New(Config{Connector: declaration("https://api.example.com")})
	if err != nil {
		b.Fatal(err)
	}
	action, _ := canonical.Parse([]byte(`{"proposed_change":{"amount":12.50}}`))
	op := Operation{Name: "pay", Action: action, OperationID: "op", IdempotencyKey: "key"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Prepare(b.Context(), op); err != nil {
			b.Fatal(err)
		}
	}
}
