package config_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// shipped is a profile, what a tenant declares besides, and the system of the sandbox that behaves like it.
type shipped struct {
	profile string
	path    string   // of the system in the sandbox
	system  string   // as the ledger calls it
	lines   []string // of connectors.yaml
}

// provider is a connector made of a profile, and the sandbox that it reaches.
type provider struct {
	t        *testing.T
	sandbox  *sandbox.Client
	declared *config.Connector
	*connector.Connector
	at *moved
}

// moved is a clock that a test moves while the sandbox reads it.
type moved struct {
	mu  sync.Mutex
	now time.Time
}

func (m *moved) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *moved) move(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(by)
}

// hookSecret signs what the tests send.
const hookSecret = "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk="

func (s shipped) provider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, at: &moved{now: time.Now()}}
	p.sandbox = sandboxtest.New(t, func(c *sandbox.Config) { c.Now = p.at.Now })
	w := newWorld(t)
	w.declare("shipped", append([]string{"profile: " + s.profile, "base_url: " + p.sandbox.URL() + s.path}, s.lines...)...)
	p.declared = w.connector("shipped")
	var err error
	p.Connector, err = connector.New(connector.Config{Connector: p.declared, Env: func(string) string { return hookSecret }})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// operation is one effect; its id is that of all of a case, unless the step has another.
func (p *provider) operation(name string, s step) connector.Operation {
	p.t.Helper()
	action, err := canonical.Parse([]byte(s.action))
	require.NoError(p.t, err)
	id := s.id
	if id == "" {
		id = "op-1"
	}
	return connector.Operation{Name: name, Action: action, OperationID: id, IdempotencyKey: id, TenantID: "demo", CorrelationID: "corr-1"}
}

func (p *provider) send(op connector.Operation) connector.Result {
	p.t.Helper()
	request, err := p.Prepare(p.t.Context(), op)
	require.NoError(p.t, err)
	return p.Execute(p.t.Context(), request, func() error { return nil })
}

// step is a write and what it comes to.
type step struct {
	action string
	class  outcome.Class
	id     string // of the operation, "" for op-1
}

// look is a lookup of op-1 so long after the writes.
type look struct {
	after      time.Duration
	verdict    connector.Verdict
	conclusive bool
}

// exchange is a case: writes one after the other, lookups, and how many writes the provider then has.
type exchange struct {
	name        string
	operation   string
	personality sandbox.Personality
	fault       sandbox.Fault // of the first write, none where it has no kind
	searches    sandbox.Fault // of every lookup, likewise
	steps       []step
	looks       []look
	writes      int
}

func (s shipped) run(t *testing.T, exchanges []exchange) {
	t.Helper()
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			p := s.provider(t)
			p.prepare(s.system, e)
			for _, step := range e.steps {
				result := p.send(p.operation(e.operation, step))
				require.Equal(t, step.class, result.Class, result.Detail)
				if declared, _ := p.Declared(e.operation); step.class == outcome.Succeeded && declared.Success.ExternalID != "" {
					require.NotEmpty(t, result.ExternalID)
				}
			}
			for _, look := range e.looks {
				p.at.move(look.after)
				found := p.Reconcile(t.Context(), p.operation(e.operation, e.steps[0]))
				require.Equal(t, look.verdict, found.Verdict, found.Evidence)
				require.Equal(t, look.conclusive, found.Conclusive, found.Evidence)
			}
			require.Len(t, p.written(s.system), e.writes)
		})
	}
}

// prepare has the sandbox behave as the case says.
func (p *provider) prepare(system string, e exchange) {
	p.t.Helper()
	require.NoError(p.t, p.sandbox.SetPersonality(p.t.Context(), system, e.personality))
	for _, rule := range []sandbox.Rule{
		{Match: sandbox.Match{System: system, Count: 1}, Fault: e.fault},
		{Match: sandbox.Match{System: system, Operation: sandbox.Lookup}, Fault: e.searches},
	} {
		if rule.Fault.Kind != "" {
			_, err := p.sandbox.Fault(p.t.Context(), rule)
			require.NoError(p.t, err)
		}
	}
}

// written are the provider's writes; all that the steps made are known by their operation ids.
func (p *provider) written(system string) []sandbox.Write {
	p.t.Helper()
	found, err := p.sandbox.Writes(p.t.Context(), sandbox.Filter{System: system})
	require.NoError(p.t, err)
	for _, write := range found {
		require.Regexp(p.t, `^op-\d$`, write.Reference)
	}
	return found
}

// Faults that every provider may have.
var (
	lostAnswer = sandbox.Fault{Kind: sandbox.AcceptThenReset}
	notTaken   = sandbox.Fault{Kind: sandbox.ResetBeforeAccept}
	halfAnswer = sandbox.Fault{Kind: sandbox.TruncateBody}
	busy       = sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "2"}
)

// answers is a provider that answers so without having written anything.
func answers(status int, code string) sandbox.Fault {
	return sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: status, Code: code}
}

// wrote is a provider that answers so and has written all the same.
func wrote(status int, code string) sandbox.Fault {
	return sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: status, Code: code}
}
