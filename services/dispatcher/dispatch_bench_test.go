package dispatcher

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// providerEnv makes this test's binary an instant provider in a process of its own, so that its CPU is not counted.
const providerEnv = "HOLDPOINT_BENCH_PROVIDER"

func TestMain(m *testing.M) {
	if os.Getenv(providerEnv) != "" {
		instantProvider()
		return
	}
	os.Exit(m.Run())
}

// instantProvider accepts every refund at once. Its id says when, in nanoseconds. What is posted below /hang is never answered.
func instantProvider() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/hang") {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"re_%d"}`, time.Now().UnixNano())
	})))
}

// provider is the URL of an instant provider.
func provider(b *testing.B) string {
	b.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), providerEnv+"=1")
	out, err := command.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, command.Start())
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	var addr string
	_, err = fmt.Fscanln(out, &addr)
	require.NoError(b, err)
	return "http://" + addr
}

// BenchmarkDispatch is the dispatcher alone: effects that wait are leased, checked, sent to a provider that answers at once, and recorded
// with the end of their runs. There is no broker: what waits is found by looking.
//
//   - Drain has everything wait at the start, and says what an effect costs;
//   - Beside has 10,000 effects of a connector that hangs wait besides;
//   - Paced has 500 effects a second come, and says how long it takes from the provider's success until the run is completed.
//
// Give it a server that is as durable as production's:
//
//	HOLDPOINT_TEST_POSTGRES_URL=postgres://… go test ./services/dispatcher -run '^$' -bench Dispatch -benchtime 10000x
func BenchmarkDispatch(b *testing.B) {
	service.TuneMemory(0) // as every service does
	b.Run("Drain", func(b *testing.B) { drained(b, 0) })
	b.Run("Beside", func(b *testing.B) { drained(b, 10_000) })
	b.Run("Paced", paced)
}

// dispatching is a dispatcher and the times of what it has recorded.
type dispatching struct {
	*bench
	mu    sync.Mutex
	times []time.Duration // from the provider's success until the commit
	done  chan struct{}   // gets a word after every commit
}

func newDispatching(b *testing.B) *dispatching {
	url := provider(b)
	w := servicetest.New(b, servicetest.WithConfig(func(t *config.Tenant) {
		for _, c := range t.Connectors {
			switch {
			case c.ID == servicetest.Payments:
				c.BaseURL, c.AllowedHosts = url, nil
			case !c.Executor():
				c.BaseURL, c.AllowedHosts, c.Concurrency, c.Timeout = url+"/hang", nil, 16, 30*time.Second
			}
		}
	}))
	d, err := New(b.Context(), w.Env(ledger.Dispatcher), Settings{Enabled: true})
	require.NoError(b, err)
	d.heard.hear(0) // this bus has heard of no mark
	x := &dispatching{bench: &bench{World: w, Dispatcher: d}, done: make(chan struct{}, 1)}
	d.outcomes.Close()
	d.outcomes = ledger.NewGroup(ledger.GroupConfig[ledger.Settlement, recorded]{Run: x.note(d.settle), Workers: 1})
	return x
}

func (x *dispatching) note(settle func(context.Context, []ledger.Settlement) ([]recorded, error)) func(context.Context, []ledger.Settlement) ([]recorded, error) {
	return func(ctx context.Context, items []ledger.Settlement) ([]recorded, error) {
		out, err := settle(ctx, items)
		now := time.Now()
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, s := range items {
			if at, bad := strconv.ParseInt(strings.TrimPrefix(s.ExternalID, "re_"), 10, 64); bad == nil {
				x.times = append(x.times, now.Sub(time.Unix(0, at)))
			}
		}
		service.WakeUp(x.done)
		return out, err
	}
}

func (x *dispatching) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.times)
}

func (x *dispatching) await(n int) {
	for x.count() < n {
		<-x.done
	}
}

func (x *dispatching) authorize(first, n int, claim func(string, ...func(*servicetest.Proposal)) ledger.Claim) {
	for _, part := range slices.Collect(slices.Chunk(make([]struct{}, n), 500)) {
		claims := make([]ledger.Claim, len(part))
		for i := range part {
			claims[i] = claim(fmt.Sprint("k", first+i))
		}
		first += len(part)
		x.Authorize(claims...)
	}
}

func drained(b *testing.B, hanging int) {
	x := newDispatching(b)
	x.authorize(0, b.N, x.Refund)
	x.authorize(b.N, hanging, x.Contact)
	x.Exec("analyze")
	own, postgres := x.CPU(b)
	b.ReportAllocs()
	b.ResetTimer()
	stop := x.Start(x.Dispatcher)
	x.await(b.N)
	b.StopTimer()
	ownAfter, postgresAfter := x.CPU(b)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
	b.ReportMetric(float64((ownAfter-own).Microseconds())/float64(b.N), "go-µs/effect")
	b.ReportMetric(float64((postgresAfter-postgres).Microseconds())/float64(b.N), "postgres-µs/effect")
	require.Equal(b, b.N, x.Count(`select count(*) from runs where outcome = 'executed'`))
	if hanging == 0 {
		require.NoError(b, stop())
	}
}

// pace is how many effects a second are to be sent where their time is measured.
const pace = 500

func paced(b *testing.B) {
	x := newDispatching(b)
	x.Start(x.Dispatcher)
	b.ResetTimer()
	start := time.Now()
	const step = pace / 20
	for n := 0; n < b.N; n += step {
		x.authorize(n, min(step, b.N-n), x.Refund)
		service.WakeUp(x.wake) // as the event would
		time.Sleep(time.Until(start.Add(time.Duration(n+step) * time.Second / pace)))
	}
	x.await(b.N)
	b.StopTimer()
	slices.Sort(x.times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
	b.ReportMetric(float64(x.times[len(x.times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(x.times[len(x.times)*99/100].Microseconds())/1000, "p99-ms")
}
