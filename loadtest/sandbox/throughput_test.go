package sandbox_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

// BenchmarkDurableWrites is the whole way of a write over HTTP with keep-alive: the sandbox must not be what a load
// test measures.
func BenchmarkDurableWrites(b *testing.B) {
	client := sandboxtest.New(b)
	pooled := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := strconv.FormatInt(n.Add(1), 10)
			req, err := http.NewRequest(http.MethodPatch, client.URL()+"/crm/contacts/c-"+id,
				strings.NewReader(`{"fields":{"segment":"trial","employees":"42"},"reference":"op-`+id+`"}`))
			require.NoError(b, err)
			req.Header.Set("If-Match", "1")
			req.Header.Set("Idempotency-Key", "k-"+id)
			resp, err := pooled.Do(req)
			require.NoError(b, err)
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			require.Equal(b, http.StatusOK, resp.StatusCode)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
