package connectorcheck_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connectorcheck"
)

const lag = 300 * time.Millisecond

// world is the example's connectors at a sandbox of a test's own, with a short index lag and little patience.
type world struct {
	t       *testing.T
	sandbox *sandbox.Client
	tenant  *config.Tenant
	config  connectorcheck.Config
}

func newWorld(t *testing.T, options ...func(*sandbox.Config)) *world {
	w := &world{t: t, sandbox: sandboxtest.New(t, options...)}
	w.at(w.sandbox.URL())
	w.config = connectorcheck.Config{TenantID: "demo", Leave: func() error { return nil }, Patience: lag}
	return w
}

// at has the connectors point elsewhere.
func (w *world) at(base string) {
	cfg, err := config.LoadDeclared(deploy.Example(), func(name string) (string, bool) { return base, name == "HOLDPOINT_SANDBOX_URL" })
	require.NoError(w.t, err)
	w.tenant = cfg.Tenants[0]
	for _, c := range w.tenant.Connectors {
		c.Timeout = 5 * time.Second
		for _, op := range c.Operations {
			if op.Lookup != nil {
				op.Lookup.IndexLag = lag
			}
		}
	}
}

// through has the connectors reach the sandbox by a handler that is given the way to it.
func (w *world) through(handler func(sandbox http.Handler) http.HandlerFunc) {
	to, err := url.Parse(w.sandbox.URL())
	require.NoError(w.t, err)
	server := httptest.NewServer(handler(httputil.NewSingleHostReverseProxy(to)))
	w.t.Cleanup(server.Close)
	w.at(server.URL)
}

func (w *world) operation(connector string) (*config.Connector, *config.Operation) {
	for _, c := range w.tenant.Connectors {
		if c.ID == connector {
			return c, c.Operations[0]
		}
	}
	panic("no connector " + connector)
}

func (w *world) samples(connector, operation string) []connectorcheck.Sample {
	text, err := os.ReadFile(config.SampleFile("../../deploy/config/example", "demo", connector, operation))
	require.NoError(w.t, err)
	samples, err := connectorcheck.ReadSamples(text)
	require.NoError(w.t, err)
	return samples
}

// check exercises the one operation of a connector, and gives what was found: the evidence of what failed, and "" for what was proved.
func (w *world) check(connector string) (*connectorcheck.Report, map[string]string) {
	w.t.Helper()
	c, op := w.operation(connector)
	w.config.Connector = c
	p, err := connectorcheck.New(w.config)
	require.NoError(w.t, err)
	defer p.Close()
	report, err := p.Check(w.t.Context(), op, w.samples(connector, op.Name))
	require.NoError(w.t, err)
	found := map[string]string{}
	for _, f := range report.Findings {
		require.NotContains(w.t, found, f.Capability)
		require.NotEmpty(w.t, f.Evidence)
		found[f.Capability] = f.Evidence
		if f.Proved {
			found[f.Capability] = ""
		}
	}
	return report, found
}

const (
	crm      = "sandbox-crm"
	payments = "sandbox-payments"
)

func TestHonestProvider(t *testing.T) {
	t.Parallel()

	t.Run("ProvesAllOfAnUpdate", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		report, found := w.check(crm)
		require.Equal(t, map[string]string{"read": "", "mismatch": "", "conditional": "", "lookup": "", "index_lag": "", "conclusive": ""},
			found)
		require.True(t, report.Passed())
		require.Equal(t, w.sandbox.URL(), report.Target)
		require.Equal(t, []string{"read", "mismatch", "conditional", "lookup", "conclusive"}, report.Proof("test").Capabilities)
		_, op := w.operation(crm)
		require.Equal(t, op.Standing.Digest, report.Digest)

		written, err := w.sandbox.Writes(t.Context(), sandbox.Filter{})
		require.NoError(t, err)
		require.Len(t, written, 1, "all but one write are refused, or are that one again")
		require.Equal(t, report.OperationID, written[0].Reference)
		require.Equal(t, report.ExternalID, written[0].UpdateID)
	})

	t.Run("ProvesAllOfACreate", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, found := w.check(payments)
		require.Equal(t, map[string]string{"replay": "", "mismatch": "", "lookup": "", "index_lag": "", "conclusive": ""}, found)
		again, found := w.check(payments)
		require.True(t, again.Passed(), "it can be checked as often as one likes: %v", found)
	})

	t.Run("WithNothingToReadTheProvidersIdTells", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, op := w.operation(payments)
		op.Lookup = nil
		_, found := w.check(payments)
		require.Equal(t, map[string]string{"replay": "", "mismatch": ""}, found)
		op.Success.ExternalID = ""
		_, found = w.check(payments)
		require.Contains(t, found["replay"], "nothing that is declared could show that nothing was written")
		require.Empty(t, found["mismatch"], "a code that says so is a refusal")
	})

	t.Run("IndexMayLagAsLongAsIsDeclared", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(c *sandbox.Config) { c.Payments.IndexLag = sandbox.Duration(lag / 2) })
		report, found := w.check(payments)
		require.True(t, report.Passed(), found)
		require.GreaterOrEqual(t, report.Lag, lag/3)
		require.Less(t, report.Lag, lag)
	})
}

// Every lie is found, and nothing else is called one.
func TestLies(t *testing.T) {
	t.Parallel()
	type lie struct {
		connector string
		option    func(*sandbox.Config)
		rule      *sandbox.Rule
		through   func(http.Handler) http.HandlerFunc
		says      map[string]string // of what is not proved
	}
	lies := map[string]lie{
		"ARepeatedKeyWritesAgain": {payments, func(c *sandbox.Config) { c.Payments.IgnoreKeys = true }, nil, nil, map[string]string{
			"replay": "the key again was answered HTTP 201 as", "mismatch": "another payload under the key was answered HTTP 201",
			"lookup": "what was written is several", "conclusive": "what was written is several"}},
		"AMismatchIsAnsweredWithTheFirstResult": {payments, nil, nil, firstAnswers, map[string]string{
			"mismatch": `was answered HTTP 201 as`}},
		"TheIndexLagsLongerThanDeclared": {payments, func(c *sandbox.Config) { c.Payments.IndexLag = sandbox.Duration(lag + lag/2) }, nil, nil,
			map[string]string{"index_lag": "declared 300ms", "conclusive": "after the declared lag"}},
		"TheLookupFindsNothing": {payments, nil, &sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Lookup},
			Fault: sandbox.Fault{Kind: sandbox.LookupEmpty}}, nil, map[string]string{"replay": "its lookup says absent",
			"mismatch": "its lookup says absent", "lookup": "what was written is absent", "index_lag": "not found for", "conclusive": "is absent"}},
		"ThereIsNoLookup": {crm, func(c *sandbox.Config) { c.CRM.NoLookup = true }, nil, nil, map[string]string{
			"mismatch": "its lookup says unclear", "lookup": "what was written is unclear", "index_lag": "not found for",
			"conclusive": "is unclear"}},
		"TheLookupFindsEverything": {payments, nil, nil, anyReference, map[string]string{
			"lookup": "an operation id that was never sent is found", "conclusive": "a key never used is found"}},
		"TheExpectedVersionIsIgnored": {crm, func(c *sandbox.Config) { c.CRM.LaxVersions = true }, nil, anyVersion, map[string]string{
			"conditional": "which is out of date, was answered HTTP 200"}},
		"TheVersionIsRefusedAndWrittenAllTheSame": {crm, func(c *sandbox.Config) { c.CRM.LaxVersions = true }, nil, refusedAndWritten,
			map[string]string{"conditional": "the target went from version 2 to 3"}},
		"TheReadShowsWhatWasThereBefore": {crm, nil, nil, oldContact, map[string]string{"read": "version 1 before the write and after it",
			"conditional": "no version is out of date"}},
	}
	for name, c := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options []func(*sandbox.Config)
			if c.option != nil {
				options = append(options, c.option)
			}
			w := newWorld(t, options...)
			if c.rule != nil {
				_, err := w.sandbox.Fault(t.Context(), *c.rule)
				require.NoError(t, err)
			}
			if c.through != nil {
				w.through(c.through)
			}
			report, found := w.check(c.connector)
			require.False(t, report.Passed())
			for capability, evidence := range found {
				if says, lied := c.says[capability]; lied {
					require.Contains(t, evidence, says, capability)
					require.NotContains(t, report.Proof("test").Capabilities, capability)
				} else {
					require.Empty(t, evidence, capability)
				}
			}
			for capability := range c.says {
				require.Contains(t, found, capability)
			}
		})
	}
}

func TestWhatCannotRun(t *testing.T) {
	t.Parallel()

	t.Run("NothingIsSentWithoutLeave", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		c, op := w.operation(payments)
		w.config.Connector, w.config.Leave = c, func() error { return errors.New("the switch is closed") }
		p, err := connectorcheck.New(w.config)
		require.NoError(t, err)
		defer p.Close()
		_, err = p.Check(t.Context(), op, w.samples(payments, op.Name))
		require.ErrorContains(t, err, "the switch is closed")
		written, err := w.sandbox.Writes(t.Context(), sandbox.Filter{})
		require.NoError(t, err)
		require.Empty(t, written)
	})

	t.Run("ARefusedSampleIsNoFinding", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		c, op := w.operation(payments)
		w.config.Connector = c
		p, err := connectorcheck.New(w.config)
		require.NoError(t, err)
		defer p.Close()
		samples, err := connectorcheck.ReadSamples([]byte(`{"target":{},"proposed_change":{"payment_id":"p","amount":0,"currency":"EUR"}}`))
		require.NoError(t, err)
		_, err = p.Check(t.Context(), op, samples)
		require.ErrorContains(t, err, "the sample was not written (refused): HTTP 422")
		require.ErrorContains(t, err, "its operation id was chk1-")
		_, err = p.Check(t.Context(), op, nil)
		require.ErrorContains(t, err, "needs a sample")
	})

	t.Run("AnExecutorHasNothingToProve", func(t *testing.T) {
		t.Parallel()
		_, err := connectorcheck.New(connectorcheck.Config{Connector: &config.Connector{ID: "warehouse", Kind: config.ConnectorExecutor},
			Leave: func() error { return nil }})
		require.ErrorContains(t, err, "warehouse is of kind executor: nothing of it can be proved")
	})

	t.Run("WithoutAnotherPayloadTheMismatchIsNotProved", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		c, op := w.operation(payments)
		w.config.Connector = c
		p, err := connectorcheck.New(w.config)
		require.NoError(t, err)
		defer p.Close()
		report, err := p.Check(t.Context(), op, w.samples(payments, op.Name)[:1])
		require.NoError(t, err)
		require.Contains(t, report.Findings, connectorcheck.Finding{Capability: "mismatch",
			Evidence: "not exercised: give a second sample, with another change"})
	})

	t.Run("SamplesAreReadStrictly", func(t *testing.T) {
		t.Parallel()
		for text, says := range map[string]string{
			"":                          "read the samples",
			"[]":                        "the list is empty",
			`[{"target":{}}]`:           "number 1 must have target and proposed_change",
			`{"target":{},"change":{}}`: `unknown field "change"`,
			`[{"target":{},"proposed_change":{}}] []`: "something follows",
		} {
			_, err := connectorcheck.ReadSamples([]byte(text))
			require.ErrorContains(t, err, says, text)
		}
	})
}
