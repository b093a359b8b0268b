// Package active keeps a service on the version of every tenant's policy that is active in the database, whatever its files hold
// (P7). A service asks Of for what it made of the active version; Run follows activations about once a second; Refresh looks at
// once. A version that this process cannot use is not replaced by another: Of is an error until one is active that it can use,
// and whoever asks does nothing for that tenant (POL-02).
package active

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// lookPause is between two looks of Run, each one query for all tenants. With its jitter and the query itself it is below
// MaxAge, so that whoever asks for no older state seldom has to look.
const lookPause = 800 * time.Millisecond

// MaxAge is how old what was read may be for whoever asks Fresh.
const MaxAge = time.Second

// ErrUnusable means that the active version of a tenant's policy cannot be used by this process.
var ErrUnusable = errors.New("the active policy cannot be used here")

// Config is what Policies need.
type Config[T any] struct {
	Env *service.Env
	// Make is what the service makes of a tenant with a policy. It is called for the files first, and its error there refuses the
	// start; then for every version that becomes active.
	Make func(*config.Tenant) (T, error)
	// Install lets this service activate the policy of its files, as Env.PolicyActivation says. Others follow.
	Install bool
	// Serves tells that others call this service for many tenants: where one tenant's policy cannot be used, health notes it, and
	// the service stays ready for the others. A service that nobody calls is not ready, so that a roll-out stops.
	Serves bool
}

// Policies are the active policies of all tenants. They are safe for concurrent use.
type Policies[T any] struct {
	Config[T]

	files map[string]T
	mu    sync.Mutex // one look at a time
	read  atomic.Int64
	held  atomic.Pointer[map[string]*held[T]]
}

// held is one tenant's active policy, and what was made of it.
type held[T any] struct {
	active ledger.ActivePolicy // the zero value: none is active yet, and the files' is what will be
	made   T
	err    error
}

// New makes what it can of all files and looks at what is active. The error joins what is wrong with the files.
func New[T any](ctx context.Context, c Config[T]) (*Policies[T], error) {
	p := &Policies[T]{Config: c, files: map[string]T{}}
	var problems []error
	first := map[string]*held[T]{}
	for _, t := range c.Env.Config.Tenants {
		made, err := c.Make(t)
		problems = append(problems, err)
		p.files[t.ID], first[t.ID] = made, &held[T]{made: made}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	p.held.Store(&first)
	if err := p.install(ctx); err != nil {
		return nil, err
	}
	if err := p.Refresh(ctx); err != nil {
		return nil, err
	}
	if health := c.Env.Health; health != nil {
		if !c.Serves {
			health.Add(c.Env.Service+" policy", func(context.Context) error { return p.unusable() })
		}
		health.Note(c.Env.Service+" policy", p.note)
	}
	return p, nil
}

// Of is what was made of the tenant's active policy. An error means that nothing may be done for the tenant now.
func (p *Policies[T]) Of(tenant string) (made T, err error) {
	h := (*p.held.Load())[tenant]
	if h == nil {
		return made, fmt.Errorf("tenant %q is not configured here", tenant)
	}
	return h.made, h.err
}

// Known reports whether the tenant is configured here.
func (p *Policies[T]) Known(tenant string) bool { return (*p.held.Load())[tenant] != nil }

// Run follows activations until the context ends.
func (p *Policies[T]) Run(ctx context.Context) error {
	return service.Loop{Name: "policy versions", Log: p.Env.Log, Pause: lookPause,
		Once: func(ctx context.Context) (bool, error) { return false, p.Refresh(ctx) }}.Run(ctx)
}

// Fresh looks where the last look is longer ago than MaxAge. An error means that nobody knows what is active.
func (p *Policies[T]) Fresh(ctx context.Context) error {
	if time.Since(time.Unix(0, p.read.Load())) <= MaxAge {
		return nil
	}
	return p.Refresh(ctx)
}

// Refresh looks at what is active and makes what has changed. What could not be used is tried again at each look: the database
// may have been away when the content was to be read.
func (p *Policies[T]) Refresh(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := time.Now()
	all, err := p.Env.Ledger.ActivePolicies(ctx)
	if err != nil {
		return err
	}
	active := map[string]ledger.ActivePolicy{}
	for _, a := range all {
		active[a.TenantID] = a
	}
	next := maps.Clone(*p.held.Load())
	for _, t := range p.Env.Config.Tenants {
		if a, is := active[t.ID]; is {
			next[t.ID] = p.follow(ctx, t, a, next[t.ID])
		}
	}
	p.held.Store(&next)
	p.read.Store(asked.UnixNano())
	return nil
}

// follow is what is held of the tenant from now on.
func (p *Policies[T]) follow(ctx context.Context, t *config.Tenant, a ledger.ActivePolicy, before *held[T]) *held[T] {
	if before.active == a && before.err == nil {
		return before
	}
	now := &held[T]{active: a}
	log := p.Env.Log.With("tenant", t.ID, "policy_version", a.Version, "activation", a.Ordinal)
	if now.made, now.err = p.load(ctx, t, a.Version); now.err == nil {
		log.Info("this policy is active")
		return now
	}
	now.err = fmt.Errorf("%w, and nothing is done for tenant %s: %w", ErrUnusable, t.ID, now.err)
	if before.active != a || before.err == nil || before.err.Error() != now.err.Error() {
		log.Error("the active policy cannot be used; activate another with `holdpoint policy activate` or `holdpoint policy rollback`, "+
			"or bring this process's files and release up to it", "error", now.err)
	}
	return now
}

// load is what is made of a version. Where the files hold it, it need not be read.
func (p *Policies[T]) load(ctx context.Context, t *config.Tenant, version string) (made T, err error) {
	if version == t.PolicyVersion {
		return p.files[t.ID], nil
	}
	content, err := p.Env.Ledger.PolicyContent(ctx, t.ID, version)
	if err != nil {
		return made, err
	}
	joined, err := t.WithPolicy(version, content)
	if err != nil {
		return made, err
	}
	return p.Make(joined)
}

// unusable joins what keeps this process from working for tenants.
func (p *Policies[T]) unusable() error {
	var problems []error
	held := *p.held.Load()
	for _, tenant := range slices.Sorted(maps.Keys(held)) {
		problems = append(problems, held[tenant].err)
	}
	return errors.Join(problems...)
}

// note tells which versions are loaded, and where the files hold others.
func (p *Policies[T]) note() string {
	var told []string
	held := *p.held.Load()
	for _, t := range p.Env.Config.Tenants {
		h := held[t.ID]
		text := t.ID + ": " + cmp.Or(h.active.Version, "none is active; the files' serves")
		if h.active.Ordinal > 0 {
			text += fmt.Sprintf(" (activation %d)", h.active.Ordinal)
		}
		if h.active.Version != t.PolicyVersion {
			text += "; the files here hold " + t.PolicyVersion
		}
		if h.err != nil {
			text += "; " + h.err.Error()
		}
		told = append(told, text)
	}
	return strings.Join(told, "\n")
}
