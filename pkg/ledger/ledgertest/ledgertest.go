// Package ledgertest gives tests a ledger per service on a fresh database, and factories that fill in the consistent rest of a
// row: a test says only what matters to it.
package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// Tenant and the other names that the factories use.
const (
	Tenant     = "demo"
	Source     = "crm-enrichment"
	ActionType = "crm.contact.update"
	Connector  = "sandbox-crm"
)

// Bench is one test's database with the ledgers of all services.
type Bench struct {
	DB *postgrestest.DB

	Intake, Policy, Approval, Dispatcher, Reconciler, Relay, Operator *ledger.Ledger

	// Owner works as the database's owner, who may do what no service may.
	Owner *pgxpool.Pool
	// PolicyVersion is what the bench's own decisions say that they were made under.
	PolicyVersion string

	t testing.TB
}

// PolicyVersion is what decisions of the factories were made under: the version of a policy that is nobody's, and an engine.
var PolicyVersion = config.PolicyVersionOf([]byte(policy)) + "/test"

const policy = "the policy of a test"

// New makes a bench whose source's rules are active in version 1, and whose policy is active.
func New(t testing.TB) *Bench {
	t.Helper()
	db := postgrestest.New(t)
	b := &Bench{DB: db, Owner: db.Pool(""), PolicyVersion: PolicyVersion, t: t}
	for service, into := range map[string]**ledger.Ledger{
		ledger.Intake: &b.Intake, ledger.Policy: &b.Policy, ledger.Approval: &b.Approval, ledger.Dispatcher: &b.Dispatcher,
		ledger.Reconciler: &b.Reconciler, ledger.Relay: &b.Relay, ledger.Operator: &b.Operator,
	} {
		*into = b.Replica(service)
	}
	_, err := b.Intake.ActivateRules(t.Context(), Tenant, Source, 1)
	require.NoError(t, err)
	b.ActivatePolicy(Tenant, []byte(policy))
	return b
}

// ActivatePolicy makes a policy of this content the active one, and returns its version.
func (b *Bench) ActivatePolicy(tenant string, content []byte) string {
	b.t.Helper()
	version := config.PolicyVersionOf(content)
	active, _, err := b.Operator.ActivatePolicy(b.t.Context(), ledger.PolicyActivation{TenantID: tenant, Version: version,
		Content: content, By: "a test", Reason: "It is needed."})
	require.NoError(b.t, err)
	require.Equal(b.t, version, active.Version)
	return version
}

// For is the same database for one case of a test whose cases share it.
func (b *Bench) For(t testing.TB) *Bench {
	shared := *b
	shared.t = t
	return &shared
}

// Replica is one more ledger of a service, with connections of its own.
func (b *Bench) Replica(service string) *ledger.Ledger {
	b.t.Helper()
	l, err := ledger.New(ledger.Config{Pool: b.DB.Pool("holdpoint_" + service), Service: service})
	require.NoError(b.t, err)
	return l
}

// Event is a delivery that nobody proposed anything for yet.
func Event(key string) ledger.Claim {
	payload := []byte(fmt.Sprintf(`{"event_id":%q}`, key))
	value, err := canonical.Parse(payload)
	if err != nil {
		panic(err)
	}
	hash := canonical.Hash(value)
	return ledger.Claim{
		CommandID: uuid.New(), TenantID: Tenant, Key: key, Source: Source, RulesVersion: 1, PayloadHash: hash,
		HashVersion: canonical.HashVersion, HashUnder: func(int) (canonical.Digest, error) { return hash, nil },
		Payload: payload, ContentType: "application/json", CorrelationID: "corr-" + key,
	}
}

// Other is the same delivery with another payload.
func Other(c ledger.Claim, payload string) ledger.Claim {
	value, err := canonical.Parse([]byte(payload))
	if err != nil {
		panic(err)
	}
	hash := canonical.Hash(value)
	c.CommandID, c.Payload, c.PayloadHash = uuid.New(), []byte(payload), hash
	c.HashUnder = func(int) (canonical.Digest, error) { return hash, nil }
	return c
}

// Proposal is a delivery that carries its proposal, for a contact of its own.
func Proposal(key string) ledger.Claim {
	c := Event(key)
	c.Intent = Intent(key, "c-"+key)
	return c
}

// Intent is a small canonical snapshot.
func Intent(key, record string) *ledger.Intent {
	text, err := canonical.Canonical([]byte(fmt.Sprintf(
		`{"action_type":%q,"key":%q,"revision":1,"target":{"system":"crm","record_id":%q},"tenant_id":%q}`,
		ActionType, key, record, Tenant)))
	if err != nil {
		panic(err)
	}
	value, err := canonical.Parse(text)
	if err != nil {
		panic(err)
	}
	return &ledger.Intent{Revision: 1, Canonical: text, Hash: canonical.Hash(value), ActionType: ActionType,
		Model: json.RawMessage(`{"provider_class":"test","name":"m","revision":"1"}`)}
}

// Worker is a delivery by a worker that wants the lease.
func Worker(key string, lease time.Duration) ledger.Claim {
	c := Event(key)
	c.Lease = &ledger.LeaseTerms{Owner: uuid.New(), Duration: lease, MaxLifetime: time.Hour}
	return c
}

// Claim claims and requires that each item was answered.
func (b *Bench) Claim(claims ...ledger.Claim) []ledger.Claimed {
	b.t.Helper()
	answers, err := b.Intake.Claim(b.t.Context(), claims)
	require.NoError(b.t, err)
	return answers
}

// Ref names the intent of a claim, as a new event would.
func Ref(c ledger.Claim) ledger.IntentRef {
	return ledger.IntentRef{EventID: uuid.Must(uuid.NewV7()), TenantID: c.TenantID, RunID: ledger.RunID(c.TenantID, c.Key),
		IntentHash: c.Intent.Hash}
}

// Decision is a decision about an undecided intent, with all that its route needs.
func Decision(u *ledger.Undecided, event uuid.UUID, route string) ledger.Decision {
	return ledger.Decision{
		EventID: event, DecisionID: uuid.New(), Intent: u, Route: route, PolicyVersion: PolicyVersion, Reasons: []byte(`[]`),
		ReasonCodes: []string{"test"}, Summary: "decided by a test", DecideWithin: time.Hour, ExecuteWithin: time.Hour,
		Audience: []string{"reviewer"},
		Effects: []ledger.EffectRequest{{Connector: Connector, Operation: "update", TargetSystem: "crm",
			TargetRecord: "c-" + u.Key}},
	}
}

// Decide decides the intents of claims.
func (b *Bench) Decide(route string, claims ...ledger.Claim) {
	b.t.Helper()
	refs := make([]ledger.IntentRef, len(claims))
	for i, c := range claims {
		refs[i] = Ref(c)
	}
	waiting, err := b.Policy.Undecided(b.t.Context(), refs)
	require.NoError(b.t, err)
	require.Len(b.t, waiting, len(claims))
	decisions := make([]ledger.Decision, len(waiting))
	for i := range waiting {
		decisions[i] = Decision(&waiting[i], uuid.Must(uuid.NewV7()), route)
		decisions[i].PolicyVersion = b.PolicyVersion
	}
	moved, err := b.Policy.Decide(b.t.Context(), decisions, func(_ *ledger.Decision, err error) { require.NoError(b.t, err) })
	require.NoError(b.t, err)
	require.Equal(b.t, len(claims), moved)
}

// Asked is a run that waits for people, with its one pending approval.
type Asked struct {
	Effect     ledger.EffectKey // that an approval would make
	ApprovalID uuid.UUID
	IntentHash canonical.Digest
}

// Asked makes runs that wait for people, one for each key.
func (b *Bench) Asked(keys ...string) []Asked {
	b.t.Helper()
	claims := make([]ledger.Claim, len(keys))
	for i, key := range keys {
		claims[i] = Proposal(key)
	}
	b.Claim(claims...)
	b.Decide(config.RouteHumanReview, claims...)
	asked := make([]Asked, len(keys))
	for i, key := range keys {
		asked[i] = b.Pending(key)
		asked[i].IntentHash = claims[i].Intent.Hash
	}
	return asked
}

// Pending is the approval of a run that waits now.
func (b *Bench) Pending(key string) Asked {
	b.t.Helper()
	effect := ledger.EffectKey{TenantID: Tenant, RunID: ledger.RunID(Tenant, key), Revision: 1, Ordinal: 1}
	id := b.Text(`select approval_id from approvals where run_id = $1 and state = 'pending'`, effect.RunID)
	hash := b.Text(`select encode(intent_hash, 'hex') from approvals where run_id = $1 and state = 'pending'`, effect.RunID)
	digest, err := canonical.ParseDigest(hash)
	require.NoError(b.t, err)
	return Asked{Effect: effect, ApprovalID: uuid.MustParse(id), IntentHash: digest}
}

// Vote is a decision of a person who may make it, on what was shown.
func (a Asked) Vote(subject, decision string) ledger.Vote {
	return ledger.Vote{
		CommandID: uuid.New(), TenantID: a.Effect.TenantID, RunID: a.Effect.RunID, ApprovalID: a.ApprovalID, Decision: decision,
		Reviewer: ledger.Reviewer{Issuer: "https://id.example", Subject: subject, ID: subject, Authority: []byte(`{"roles":["reviewer"]}`)},
		Reason:   "because", Channel: "web", Shown: a.IntentHash, Quorum: 1,
		Effects: []ledger.EffectRequest{{Connector: Connector, Operation: "update", TargetSystem: "crm", TargetRecord: "c-1"}},
	}
}

// Vote stores votes and returns what each came to.
func (b *Bench) Vote(votes ...ledger.Vote) []ledger.Voted {
	b.t.Helper()
	voted, err := b.Approval.Vote(b.t.Context(), votes)
	require.NoError(b.t, err)
	return voted
}

// Approved makes runs whose effect waits to be sent, one for each key.
func (b *Bench) Approved(keys ...string) []ledger.EffectKey {
	b.t.Helper()
	claims := make([]ledger.Claim, len(keys))
	effects := make([]ledger.EffectKey, len(keys))
	for i, key := range keys {
		claims[i] = Proposal(key)
		effects[i] = ledger.EffectKey{TenantID: Tenant, RunID: ledger.RunID(Tenant, key), Revision: 1, Ordinal: 1}
	}
	b.Claim(claims...)
	b.Decide(config.RouteAuto, claims...)
	return effects
}

// ApprovedStages makes a run whose effects wait to be sent, one for each stage that is named, and returns them in their order.
func (b *Bench) ApprovedStages(key string, stages ...int) []ledger.EffectKey {
	b.t.Helper()
	claim := Proposal(key)
	b.Claim(claim)
	waiting, err := b.Policy.Undecided(b.t.Context(), []ledger.IntentRef{Ref(claim)})
	require.NoError(b.t, err)
	d := Decision(&waiting[0], uuid.Must(uuid.NewV7()), config.RouteAuto)
	d.PolicyVersion, d.Effects = b.PolicyVersion, EffectsOf(key, stages...)
	moved, err := b.Policy.Decide(b.t.Context(), []ledger.Decision{d}, func(_ *ledger.Decision, err error) { require.NoError(b.t, err) })
	require.NoError(b.t, err)
	require.Equal(b.t, 1, moved)
	effects := make([]ledger.EffectKey, len(stages))
	for i := range stages {
		effects[i] = ledger.EffectKey{TenantID: Tenant, RunID: ledger.RunID(Tenant, key), Revision: 1, Ordinal: i + 1}
	}
	return effects
}

// EffectsOf asks for one effect in each stage, each on a target of its own.
func EffectsOf(key string, stages ...int) []ledger.EffectRequest {
	effects := make([]ledger.EffectRequest, len(stages))
	for i, stage := range stages {
		effects[i] = ledger.EffectRequest{ActionType: ActionType, Connector: Connector, Operation: "update", TargetSystem: "crm",
			TargetRecord: fmt.Sprintf("c-%s-%d", key, i+1), Stage: stage}
	}
	return effects
}

// Lease leases the effects for the given time.
func (b *Bench) Lease(duration time.Duration, effects ...ledger.EffectKey) []ledger.Leased {
	b.t.Helper()
	leased, err := b.Dispatcher.Lease(b.t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: duration, Requested: effects,
		Free: map[string]int{Tenant + "/" + Connector: 1000}})
	require.NoError(b.t, err)
	return leased
}

// Run reads one run.
func (b *Bench) Run(key string) ledger.Run {
	b.t.Helper()
	runs, err := b.Intake.Runs(b.t.Context(), Tenant, ledger.RunID(Tenant, key))
	require.NoError(b.t, err)
	require.Len(b.t, runs, 1)
	return runs[0]
}

// Count counts rows as the database's owner.
func (b *Bench) Count(query string, args ...any) int {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.Owner.QueryRow(context.WithoutCancel(b.t.Context()), query, args...).Scan(&n))
	return n
}

// Exec runs a statement as the database's owner, such as one that moves a deadline into the past.
func (b *Bench) Exec(statement string, args ...any) {
	b.t.Helper()
	_, err := b.Owner.Exec(b.t.Context(), statement, args...)
	require.NoError(b.t, err)
}

// Text reads one value as text, "" for null, as the database's owner.
func (b *Bench) Text(query string, args ...any) string {
	b.t.Helper()
	var text *string
	require.NoError(b.t, b.Owner.QueryRow(context.WithoutCancel(b.t.Context()), query, args...).Scan(&text))
	if text == nil {
		return ""
	}
	return *text
}

// AwaitBlocked waits until n sessions of this database wait for a lock.
func (b *Bench) AwaitBlocked(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return b.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) >= n
	}, patience, 2*time.Millisecond, "no session waits for a lock")
}

// patience bounds every wait; a shared machine may be slow.
const patience = 30 * time.Second
