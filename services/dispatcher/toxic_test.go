package dispatcher

import (
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
	"github.com/holdpoint/holdpoint/services/reconciler"
)

// toxic is a line to the sandbox that does what its toxics say (https://github.com/Shopify/toxiproxy).
func toxic(t *testing.T, w *servicetest.World, toxics ...string) *toxiproxy.Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", strings.TrimPrefix(w.Sandbox.URL(), "http://"))
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	for _, text := range toxics {
		_, err := proxy.Toxics.AddToxicJson(strings.NewReader(text))
		require.NoError(t, err)
	}
	return proxy
}

const (
	upstream, downstream = `"stream":"upstream"`, `"stream":"downstream"`
	pieces               = `{"type":"slicer","attributes":{"average_size":16,"size_variation":8,"delay":200},`
)

// TestToxicLines sends over lines that fail in the ways in which lines do, and has the reconciler find out by reading. Whatever the
// line did, the sandbox has one write of the effect in the end, and never had two (D6, R1).
func TestToxicLines(t *testing.T) {
	t.Parallel()
	world := setup(t)
	quick := func(c *config.Tenant) { servicetest.Operation(c, servicetest.CRM).Lookup.IndexLag = time.Millisecond }
	reading := *world.World
	reading.Config = world.Configuration(quick)
	r, err := reconciler.New(t.Context(), reading.Env(ledger.Reconciler), reconciler.Settings{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	reading.Start(r)

	for _, row := range []struct {
		name   string
		toxics []string
		class  outcome.Class
		writes int // right after the attempt, by the line alone
		hangs  bool
	}{
		{"ResetInTheMiddleOfTheRequest", []string{`{"type":"reset_peer","attributes":{"timeout":0},` + upstream + `}`},
			outcome.Ambiguous, 0, false},
		{"ResetInTheMiddleOfTheAnswer", []string{`{"type":"reset_peer","attributes":{"timeout":0},` + downstream + `}`},
			outcome.Ambiguous, 1, false},
		{"HalfOpenAndTheRequestIsSwallowed", []string{`{"type":"timeout","attributes":{"timeout":0},` + upstream + `}`},
			outcome.Ambiguous, 0, true},
		{"HalfOpenAndTheAnswerIsSwallowed", []string{`{"type":"timeout","attributes":{"timeout":0},` + downstream + `}`},
			outcome.Ambiguous, 1, true},
		{"CutInTheRequest", []string{`{"type":"limit_data","attributes":{"bytes":60},` + upstream + `}`}, outcome.Ambiguous, 0, false},
		{"CutInTheAnswersHeader", []string{`{"type":"limit_data","attributes":{"bytes":20},` + downstream + `}`},
			outcome.Ambiguous, 1, false},
		{"TooSlowForItsTime", []string{`{"type":"latency","attributes":{"latency":60000},` + downstream + `}`}, outcome.Ambiguous, 1, true},
		{"SlowAndInPieces", []string{pieces + upstream + `,"name":"a"}`, pieces + downstream + `,"name":"b"}`,
			`{"type":"bandwidth","attributes":{"rate":20},` + upstream + `,"name":"c"}`}, outcome.Succeeded, 1, false},
		{"CutBeforeItConnects", nil, outcome.NotSent, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, key := world.forCase(t), row.name
			proxy := toxic(t, b.World, row.toxics...)
			address := proxy.Listen
			if row.toxics == nil {
				proxy.Stop()
			}
			over := b.with(withoutRead, func(c *config.Tenant) {
				crm := servicetest.Connector(c, servicetest.CRM)
				crm.BaseURL, crm.AllowedHosts = "http://"+address, nil
				if row.hangs {
					crm.Timeout = 500 * time.Millisecond
				}
			})
			b.Authorize(b.Contact(key))
			over.request(key)
			attempts := b.Attempts(key)
			require.Equal(t, string(row.class), attempts[0].Class, attempts[0].Detail)
			require.Equal(t, row.class != outcome.NotSent, attempts[0].Sent)
			b.Eventually(func() bool { return len(b.Writes(key)) == row.writes }, "what came through is written")

			if row.toxics == nil {
				require.NoError(t, proxy.Start())
			}
			proxy.Toxics.ResetToxics(t.Context())
			b.Eventually(func() bool { // read by the reconciler, and where it is not there sent again, over the line that is good now
				b.due(key)
				over.request(key)
				return over.World.Run(key).State == ledger.RunCompleted
			}, "the effect settles")
			require.Len(t, b.Writes(key), 1)
			require.Equal(t, row.writes == 1, len(b.Attempts(key)) == 1, "what was written is not sent again")
		})
	}
}
