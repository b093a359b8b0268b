package ledgerbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outbox"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

const (
	tenant    = "measure"
	source    = "measure"
	connector = "measure"
	role      = "measure"
)

// policy is what decisions are made under; it decides nothing.
var policy = []byte("measure")

// flow is the ledgers of the services that a run meets on its way, over one pool.
type flow struct {
	pool                                 *pgxpool.Pool
	intake, policy, approval, dispatcher *ledger.Ledger
	outbox                               *outbox.Store
	review                               bool // people decide, not policy alone
}

func openFlow(ctx context.Context, url string, connections int, review bool) (*flow, error) {
	pool, err := postgres.Open(ctx, postgres.PoolConfig{URL: url, MaxConns: int32(connections), ApplicationName: "holdpoint-measure"})
	if err != nil {
		return nil, err
	}
	f := &flow{pool: pool, outbox: outbox.New(pool), review: review}
	var errs []error
	for service, into := range map[string]**ledger.Ledger{
		ledger.Intake: &f.intake, ledger.Policy: &f.policy, ledger.Approval: &f.approval, ledger.Dispatcher: &f.dispatcher,
	} {
		l, err := ledger.New(ledger.Config{Pool: pool, Service: service})
		*into = l
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		pool.Close()
		return nil, err
	}
	_, err1 := f.intake.ActivateRules(ctx, tenant, source, 1)
	_, _, err2 := f.policy.ActivatePolicy(ctx, ledger.PolicyActivation{TenantID: tenant, Version: config.PolicyVersionOf(policy),
		Content: policy, By: "measure", Reason: "Decisions are measured."})
	if err := errors.Join(err1, err2); err != nil {
		pool.Close()
		return nil, err
	}
	return f, nil
}

func (f *flow) close() { f.pool.Close() }

// step moves a batch of runs on and returns how many moved.
type step struct {
	name string
	run  func(context.Context, []ledger.Claim) (int, error)
}

// steps are the moves of a run, in their order.
func (f *flow) steps() []step {
	if f.review {
		return []step{{"claim", f.claim}, {"ask", f.decide}, {"vote", f.vote}, {"send", f.send}}
	}
	return []step{{"claim", f.claim}, {"decide", f.decide}, {"send", f.send}}
}

// batch sends new runs the whole way: what intake, policy, the approval service, the dispatcher and the relay do, with an answer
// of the provider that costs nothing.
func (f *flow) batch(ctx context.Context, size int) error {
	claims := make([]ledger.Claim, size)
	for i := range claims {
		claims[i] = newClaim()
	}
	for _, step := range f.steps() {
		done, err := step.run(ctx, claims)
		if err != nil {
			return err
		}
		if done != size {
			return fmt.Errorf("%s: %d of %d runs moved", step.name, done, size)
		}
	}
	return f.clear(ctx, size)
}

func newClaim() ledger.Claim {
	key := uuid.NewString()
	payload := fmt.Appendf(nil, `{"event_id":%q,"contact":{"id":"c-1842","field":"job_title","value":"Head of Operations"}}`, key)
	text := fmt.Appendf(nil, `{"action_type":"crm.contact.update","change":{"job_title":"Head of Operations"},"key":%q,"revision":1,`+
		`"target":{"record_id":%q,"system":"crm"},"tenant_id":%q}`, key, key, tenant)
	return ledger.Claim{
		CommandID: uuid.New(), TenantID: tenant, Key: key, Source: source, RulesVersion: 1, PayloadHash: digest(payload),
		HashVersion: canonical.HashVersion, Payload: payload, ContentType: "application/json", CorrelationID: key,
		Intent: &ledger.Intent{Revision: 1, Canonical: text, Hash: digest(text), ActionType: "crm.contact.update",
			Model: []byte(`{"provider_class":"measure","name":"none","revision":"1"}`)},
	}
}

func (f *flow) claim(ctx context.Context, claims []ledger.Claim) (accepted int, err error) {
	answers, err := f.intake.Claim(ctx, claims)
	for _, a := range answers {
		err = errors.Join(err, a.Err)
		if a.Err == nil && a.Run.Version == 1 {
			accepted++
		}
	}
	return accepted, err
}

func (f *flow) decide(ctx context.Context, claims []ledger.Claim) (int, error) {
	refs := make([]ledger.IntentRef, len(claims))
	for i, c := range claims {
		refs[i] = ledger.IntentRef{EventID: newEventID(), TenantID: tenant, RunID: ledger.RunID(tenant, c.Key), IntentHash: c.Intent.Hash}
	}
	waiting, err := f.policy.Undecided(ctx, refs)
	if err != nil {
		return 0, err
	}
	decisions := make([]ledger.Decision, len(waiting))
	for i := range waiting {
		decisions[i] = ledger.Decision{
			EventID: newEventID(), DecisionID: uuid.New(), Intent: &waiting[i], Route: config.RouteAuto, PolicyVersion: config.PolicyVersionOf(policy),
			Reasons: []byte(`[{"code":"rule","rule":"small_change"}]`), ExecuteWithin: time.Hour, Effects: effectsOf(waiting[i].Key),
		}
		if f.review {
			decisions[i].Route, decisions[i].ReasonCodes = config.RouteHumanReview, []string{"rule"}
			decisions[i].DecideWithin, decisions[i].Audience = time.Hour, []string{role}
		}
	}
	var spoiled error
	moved, err := f.policy.Decide(ctx, decisions, func(_ *ledger.Decision, err error) { spoiled = errors.Join(spoiled, err) })
	return moved, errors.Join(err, spoiled)
}

// send leases the effects as their events ask for them, and settles each as done.
func (f *flow) send(ctx context.Context, claims []ledger.Claim) (sent int, err error) {
	request := ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Free: map[string]int{tenant + "/" + connector: len(claims)}}
	for _, c := range claims {
		request.Events = append(request.Events, newEventID())
		request.Requested = append(request.Requested,
			ledger.EffectKey{TenantID: tenant, RunID: ledger.RunID(tenant, c.Key), Revision: 1, Ordinal: 1})
	}
	leased, err := f.dispatcher.Lease(ctx, request)
	if err != nil {
		return 0, err
	}
	settlements := make([]ledger.Settlement, len(leased))
	for i, e := range leased {
		settlements[i] = ledger.Settlement{
			EffectKey: e.EffectKey, Move: "succeed", Attempt: e.Attempt, Owner: e.Owner, NextCheck: ledger.Never, MaybeSent: true,
			ExternalID: "upd-" + e.RunKey, RunKey: e.RunKey, CorrelationID: e.CorrelationID,
			Outcome: &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: "succeeded", Sent: true, HTTPStatus: 200,
				ExternalID: "upd-" + e.RunKey, ProviderRequestID: "req-" + e.RunKey, RequestDigest: e.IntentHash[:]},
		}
	}
	moved, err := f.dispatcher.Settle(ctx, "record_outcomes", settlements)
	for _, m := range moved {
		if m {
			sent++
		}
	}
	return sent, err
}

// eventsPerRun is how many events the flow tells of a run: its intent, its effect, its end; and where people decide, that it
// waits and what was decided.
func (f *flow) eventsPerRun() int {
	if f.review {
		return 5
	}
	return 3
}

func effectsOf(key string) []ledger.EffectRequest {
	return []ledger.EffectRequest{{Connector: connector, Operation: "update", TargetSystem: "crm", TargetRecord: key}}
}

// clear takes as many events out of the outbox as a batch puts in, as a relay would whose broker takes everything.
func (f *flow) clear(ctx context.Context, size int) error {
	_, err := f.outbox.Pass(ctx, 0, f.eventsPerRun()*size, func(_ context.Context, messages []outbox.Message) []outbox.Receipt {
		return make([]outbox.Receipt, len(messages))
	})
	return err
}

func newEventID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func digest(text []byte) canonical.Digest {
	value, err := canonical.Parse(text)
	if err != nil {
		panic(err) // the texts are ours
	}
	return canonical.Hash(value)
}
