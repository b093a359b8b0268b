// Package approval is the human gate: it tells reviewers that a decision waits, knows who they are, shows them what would be done,
// and takes one decision. It can queue effects and never makes one (A7).
//
// A request, by file: notify.go (who is told, and how), link.go (what a link in a message may do: nothing), signin.go and
// identity.go (who somebody is), authority.go (whether they may decide), decide.go (the decision itself, for every channel),
// web.go and api.go (the two channels), expire.go (nobody decided in time).
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Settings of the approval service (HOLDPOINT_APPROVAL_…).
type Settings struct {
	Addr      string `split_words:"true" default:":8082"` // where HTTP listens
	PublicURL string `split_words:"true"`                 // what links begin with; https but on loopback (A2)

	Issuer           string   `split_words:"true"` // of the OpenID Connect provider
	ClientID         string   `split_words:"true" default:"holdpoint"`
	ClientSecret     string   `split_words:"true"`
	ClientSecretFile string   `split_words:"true"`
	Scopes           []string `split_words:"true" default:"openid,profile,email,groups"`
	// APIClients are the client ids whose users' access tokens the API takes. Another program's token is refused, even where
	// it was issued for one of our people (A15).
	APIClients []string `split_words:"true" default:"holdpoint-cli"`
	// APIAudience is what the API's tokens must be issued for (RFC 9068, section 4), so that another API cannot show here what it
	// was shown. Empty takes those of APIClients for whatever audience: for providers that cannot name one.
	APIAudience string `split_words:"true"`
	// RolesMaxAge is how old the claims may be from which a decision's roles are read: after that the reviewer signs in again,
	// which is a redirect and no question while the provider still knows them (A4).
	RolesMaxAge     time.Duration `split_words:"true" default:"10m"`
	SessionLifetime time.Duration `split_words:"true" default:"8h"`
	SessionIdle     time.Duration `split_words:"true" default:"1h"`

	// OperatorDatabaseURL is the address of the same database for a login in role holdpoint_operator, under which people settle what
	// could not be settled by reading, and nothing else happens (R6, D1). Empty leaves that to the command line.
	OperatorDatabaseURL string `split_words:"true"`

	HTTPClient *http.Client `ignored:"true"` // to the provider; default: one with a time-out
	Listener   net.Listener `ignored:"true"` // instead of Addr; without a PublicURL, links lead to it
}

// validate joins all complaints.
func (s *Settings) validate() error {
	var problems []error
	if s.Issuer == "" {
		problems = append(problems, errors.New("HOLDPOINT_APPROVAL_ISSUER is empty: nobody could sign in"))
	}
	if s.PublicURL == "" {
		problems = append(problems, errors.New("HOLDPOINT_APPROVAL_PUBLIC_URL is empty: messages to reviewers need a link"))
	} else if u, err := url.Parse(s.PublicURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		problems = append(problems, fmt.Errorf("HOLDPOINT_APPROVAL_PUBLIC_URL is %q; it must be like https://approvals.example.com", s.PublicURL))
	} else if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		problems = append(problems, fmt.Errorf("HOLDPOINT_APPROVAL_PUBLIC_URL is %q; it must be scheme and host alone", s.PublicURL))
	} else if u.Scheme == "http" && !config.Loopback(u.Hostname()) {
		problems = append(problems, fmt.Errorf("HOLDPOINT_APPROVAL_PUBLIC_URL is %q: links hold tokens, which travel over https only, "+
			"but on loopback", s.PublicURL))
	}
	if s.RolesMaxAge <= 0 || s.SessionLifetime <= 0 || s.SessionIdle <= 0 {
		problems = append(problems, errors.New("HOLDPOINT_APPROVAL_ROLES_MAX_AGE, …_SESSION_LIFETIME and …_SESSION_IDLE must be above 0"))
	}
	return errors.Join(problems...)
}

// Approval is the service.
type Approval struct {
	env      *service.Env
	settings Settings
	policies *active.Policies[*tenant]
	tenants  map[string]*tenant // without a policy: people, channels and sources alone
	votes    *ledger.Group[ledger.Vote, ledger.Voted]
	minted   *ledger.Group[ledger.Token, bool]
	recorded *ledger.Group[ledger.NoticeResult, struct{}]
	senders  chan struct{}  // one for each notification that is being sent
	sending  sync.WaitGroup // they
	provider *provider
	listener net.Listener
	web      *web

	decisions metric.Int64Counter
	refusals  metric.Int64Counter
	notices   metric.Int64Counter
	expired   metric.Int64Counter

	desk *desk // nil where people settle by the command line alone

	unsettled    metric.Int64Gauge
	unsettledAge metric.Float64Gauge
	atRisk       metric.Float64Gauge
	closed       metric.Int64Gauge
	deskAlerted  map[string]time.Time // tenant to when its unknown effects were told of last; of one loop alone
	deskShown    map[gauged]bool      // what the gauges were set for; of one loop alone
	glassOverdue metric.Int64Gauge
	glassAlerted map[string]time.Time // tenant to when its overdue looks were told of last; of one loop alone
}

// tenant is one tenant's people, actions and channels, ready to use.
type tenant struct {
	*config.Tenant
	issuer   string // of people who name none
	actions  map[string]*config.Action
	sources  map[string]*config.Source
	owners   map[string]string // API key's name to the id of the person who answers for it
	channels map[string]sender
}

// New listens and reads the provider's metadata when it is first needed, so that the service starts before it.
func New(ctx context.Context, env *service.Env, settings Settings) (*Approval, error) {
	a := &Approval{env: env, settings: settings, tenants: map[string]*tenant{}, senders: make(chan struct{}, sendersAtAll),
		glassAlerted: map[string]time.Time{}, deskAlerted: map[string]time.Time{}, deskShown: map[gauged]bool{}}
	var err error
	if a.listener = settings.Listener; a.listener == nil {
		if a.listener, err = net.Listen("tcp", settings.Addr); err != nil {
			return nil, fmt.Errorf("listen for reviewers (HOLDPOINT_APPROVAL_ADDR): %w", err)
		}
	} else if settings.PublicURL == "" {
		a.settings.PublicURL = "http://" + a.Addr()
	}
	if err := a.prepare(ctx); err != nil {
		a.desk.close()
		return nil, errors.Join(err, a.listener.Close())
	}
	return a, nil
}

func (a *Approval) prepare(ctx context.Context) error {
	if err := a.settings.validate(); err != nil {
		return fmt.Errorf("settings of the approval service:\n%w", err)
	}
	a.settings.PublicURL = strings.TrimSuffix(a.settings.PublicURL, "/")
	var errs [13]error
	a.policies, errs[6] = active.New(ctx, active.Config[*tenant]{Env: a.env, Make: a.withPolicy, Serves: true})
	a.decisions, errs[0] = a.env.Meter.Int64Counter("holdpoint_approval_decisions_total")
	a.refusals, errs[1] = a.env.Meter.Int64Counter("holdpoint_approval_refusals_total")
	a.notices, errs[2] = a.env.Meter.Int64Counter("holdpoint_approval_notifications_total")
	a.expired, errs[3] = a.env.Meter.Int64Counter("holdpoint_approvals_expired_total")
	a.glassOverdue, errs[7] = a.env.Meter.Int64Gauge("holdpoint_break_glass_overdue")
	a.unsettled, errs[8] = a.env.Meter.Int64Gauge("holdpoint_unsettled")
	a.unsettledAge, errs[9] = a.env.Meter.Float64Gauge("holdpoint_unsettled_oldest_seconds")
	a.atRisk, errs[10] = a.env.Meter.Float64Gauge("holdpoint_amount_at_risk")
	a.closed, errs[12] = a.env.Meter.Int64Gauge("holdpoint_kill_switches_closed")
	a.desk, errs[11] = openDesk(ctx, a.settings.OperatorDatabaseURL)
	a.provider, errs[4] = newProvider(a.settings)
	a.web, errs[5] = newWeb(ctx, a)
	a.votes = ledger.NewGroup(ledger.GroupConfig[ledger.Vote, ledger.Voted]{Run: service.Waking(a.env, a.env.Ledger.Vote), Workers: 1})
	a.minted = ledger.NewGroup(ledger.GroupConfig[ledger.Token, bool]{Run: a.env.Ledger.MintTokens, Workers: 1})
	a.recorded = ledger.NewGroup(ledger.GroupConfig[ledger.NoticeResult, struct{}]{Run: a.record, Workers: 1})
	return errors.Join(errs[:]...)
}

// withPolicy is a tenant under one version of its policy. Channels are what the files say, and are made once.
func (a *Approval) withPolicy(declared *config.Tenant) (*tenant, error) {
	base := a.tenants[declared.ID]
	if base == nil { // the first call is about the files
		made, err := newTenant(declared, a.settings.Issuer)
		if err != nil {
			return nil, err
		}
		bare := *made
		bare.actions = map[string]*config.Action{}
		a.tenants[declared.ID] = &bare
		return made, nil
	}
	t := *base
	t.Tenant, t.actions = declared, actionsOf(declared)
	return &t, nil
}

// tenant is a tenant under its active policy (P7), or nil where it is not configured here. Where the active policy cannot be used
// it has no actions, and so nothing of it can be approved (POL-02).
func (a *Approval) tenant(id string) *tenant {
	t, err := a.policies.Of(id)
	if err != nil {
		return a.tenants[id]
	}
	return t
}

// action is the action of a kind, nil where it is not registered.
func (t *tenant) action(kind string) *config.Action {
	return config.ActionOf(kind, func(name string) *config.Action { return t.actions[name] })
}

func actionsOf(declared *config.Tenant) map[string]*config.Action {
	actions := map[string]*config.Action{}
	for _, action := range declared.Actions {
		actions[action.Type] = action
	}
	return actions
}

func newTenant(declared *config.Tenant, issuer string) (*tenant, error) {
	t := &tenant{Tenant: declared, issuer: issuer, actions: actionsOf(declared), sources: map[string]*config.Source{},
		owners: map[string]string{}, channels: map[string]sender{}}
	for _, p := range declared.People {
		if other := declared.PersonBySubject("", p.Subject); p.Issuer == issuer && other != nil {
			return nil, fmt.Errorf("people %s and %s of tenant %s are one account: %s is the issuer of those who name none, and both "+
				"have the subject %s; remove one of them from people.yaml", other.ID, p.ID, declared.ID, issuer, p.Subject)
		}
	}
	for _, source := range declared.Sources {
		t.sources[source.ID] = source
	}
	for _, key := range declared.APIKeys {
		t.owners[key.Name] = key.Owner
	}
	for _, channel := range declared.Channels {
		s, err := newSender(channel)
		if err != nil {
			return nil, fmt.Errorf("channel %s of tenant %s: %w", channel.ID, declared.ID, err)
		}
		t.channels[channel.ID] = s
	}
	return t, nil
}

// Addr is where HTTP listens.
func (a *Approval) Addr() string { return a.listener.Addr().String() }

// Rhythm of the loops:
//
//	announce   250 ms   approvals that nobody was told of
//	notify     250 ms   notifications that are due
//	remind     1 s      approvals that wait long, whose audience is told again
//	escalate   1 s      approvals that more people may decide from now on
//	expire     1 s      approvals whose decide-by has passed; a late decision is refused in any case
//	glass      1 min    approvals that somebody gave alone and nobody else has looked at in time
//	desk       15 s     effects that a person has to settle, how old they are and what is at risk
//	switches   15 s     kill switches that are closed
const (
	announcePause = 250 * time.Millisecond
	notifyPause   = 250 * time.Millisecond
	remindPause   = time.Second
	expirePause   = time.Second
	glassPause    = time.Minute
	deskPause     = 15 * time.Second
	drainFor      = 20 * time.Second
)

// Run serves reviewers and tells them what waits until the context ends, and finishes what it has begun.
func (a *Approval) Run(ctx context.Context) error {
	loop := func(name string, pause time.Duration, once func(context.Context) (bool, error)) service.Named {
		return service.Named{Name: "approval " + name, Runner: service.Loop{Name: name, Log: a.env.Log, Pause: pause, Once: once}}
	}
	err := service.RunAll(ctx, a.env.Log, drainFor,
		service.Named{Name: "approval http", Runner: service.HTTP{Listener: a.listener, Handler: a.routes()}},
		loop("announce", announcePause, a.announce),
		loop("notify", notifyPause, a.notify),
		loop("remind", remindPause, a.remind),
		loop("escalate", remindPause, a.escalate),
		loop("expire", expirePause, a.expire),
		loop("lapse", expirePause, a.lapse),
		loop("glass", glassPause, a.alertGlass),
		loop("desk", deskPause, a.watchDesk),
		loop("switches", deskPause, a.watchSwitches),
		service.Named{Name: "approval policy versions", Runner: a.policies},
	)
	a.sending.Wait() // no longer than a channel's time-out and two commits
	a.votes.Close()
	a.minted.Close()
	a.recorded.Close()
	a.desk.close()
	return err
}

// routes of both channels. The API has no session and the pages have no bearer token, so neither can be used as the other.
func (a *Approval) routes() http.Handler {
	mux := http.NewServeMux()
	a.apiRoutes(mux)
	a.web.routes(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// answerWithin ends a request that hangs in the database or at the provider: after the ledger's patience with a decision, so that
// what became of it is told, and before the server cuts the connection.
const answerWithin = 45 * time.Second

// httpClient is what the provider is asked with.
func (s *Settings) httpClient() *http.Client {
	return cmp.Or(s.HTTPClient, &http.Client{Timeout: 10 * time.Second})
}
