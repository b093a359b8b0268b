package intake

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/time/rate"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
	"github.com/holdpoint/holdpoint/pkg/webhook"
)

// tenant is a tenant with its sources compiled.
type tenant struct {
	*config.Tenant
	sources map[string]*source
	policy  func() (*registry, error) // of the active policy (P7)
	rate    *rate.Limiter             // nil is no limit
	caller  *webhook.Sender
}

// registry is what proposals are held against: the action types of one version of a tenant's policy.
type registry struct {
	version string
	list    []*config.Action
	actions map[string]*action
}

// action is a registered action type with its compiled schema and its connector.
type action struct {
	*config.Action
	schema    *config.Validator
	connector *config.Connector
}

// source is one source of events, compiled.
type source struct {
	*config.Source
	schema *config.Validator // nil takes any object
	rules  map[int]*rules    // by version
	active *rules            // the newest
	// verifier is nil where the source's events need no signature.
	verifier *signature.Verifier
	// looking is held by the one request of this replica that looks for work while others wait.
	looking chan struct{}
}

// rules is one compiled version of a source's key and hash rules.
type rules struct {
	*config.SourceRules
	key    keyFunc
	fields *canonical.Selection
}

func newTenant(declared *config.Tenant) (*tenant, error) {
	t := &tenant{Tenant: declared, sources: map[string]*source{},
		rate: newLimiter(declared.RateLimit)}
	if declared.Callbacks != nil {
		var err error
		if t.caller, err = newCaller(declared.Callbacks); err != nil {
			return nil, fmt.Errorf("callbacks of tenant %s: %w", declared.ID, err)
		}
	}
	for _, s := range declared.Sources {
		compiled, err := newSource(s)
		if err != nil {
			return nil, fmt.Errorf("source %s of tenant %s: %w", s.ID, declared.ID, err)
		}
		t.sources[s.ID] = compiled
	}
	return t, nil
}

func newRegistry(declared *config.Tenant) (*registry, error) {
	r := &registry{version: declared.PolicyVersion, list: declared.Actions, actions: map[string]*action{}}
	connectors := map[string]*config.Connector{}
	for _, c := range declared.Connectors {
		connectors[c.ID] = c
	}
	for _, a := range declared.Actions {
		schema, err := config.NewValidator(a.Type, a.Schema)
		if err != nil {
			return nil, fmt.Errorf("action %s of tenant %s: %w", a.Type, declared.ID, err)
		}
		r.actions[a.Type] = &action{a, schema, connectors[a.Connector]}
	}
	return r, nil
}

// registered is the tenant's registry now. Where its active policy cannot be used here, nothing is held against another (POL-02).
func (t *tenant) registered() (*registry, *contracts.Problem) {
	r, err := t.policy()
	if err != nil {
		return nil, newProblem(contracts.CodeUnavailable, "The tenant's policy cannot be used by this replica now. Nothing was stored.")
	}
	return r, nil
}

func newSource(declared *config.Source) (*source, error) {
	verifier, err := newVerifier(declared)
	if err != nil {
		return nil, err
	}
	s := &source{Source: declared, verifier: verifier, rules: map[int]*rules{}, looking: make(chan struct{}, 1)}
	if declared.Schema != nil {
		schema, err := config.NewValidator(declared.ID, declared.Schema)
		if err != nil {
			return nil, err
		}
		s.schema = schema
	}
	for _, r := range declared.Rules {
		key, err := newKeyFunc(r.Key)
		if err != nil {
			return nil, fmt.Errorf("key rule of version %d: %w", r.Version, err)
		}
		fields, err := canonical.NewSelection(r.Hash.Include, r.Hash.Exclude)
		if err != nil {
			return nil, fmt.Errorf("hash rule of version %d: %w", r.Version, err)
		}
		s.active = &rules{r, key, fields} // versions ascend
		s.rules[r.Version] = s.active
	}
	return s, nil
}

// caller is who an API key admits.
type caller struct {
	tenant *tenant
	name   string
	scopes map[string]bool
}

func (in *Intake) admitCallers(t *tenant) error {
	for _, k := range t.APIKeys {
		digest, err := hex.DecodeString(k.SHA256)
		if err != nil || len(digest) != 32 {
			return fmt.Errorf("API key %s of tenant %s: sha256 must be 64 hex digits", k.Name, t.ID)
		}
		c := &caller{tenant: t, name: k.Name, scopes: map[string]bool{}}
		for _, s := range k.Scopes {
			c.scopes[s] = true
		}
		if other := in.keys[[32]byte(digest)]; other != nil {
			return fmt.Errorf("API key %s of tenant %s is also %s of tenant %s: a key names one caller", k.Name, t.ID,
				other.name, other.tenant.ID)
		}
		in.keys[[32]byte(digest)] = c
	}
	return nil
}
