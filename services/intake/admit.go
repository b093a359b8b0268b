package intake

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// admit turns a delivery into a claim, or says why it cannot be one. It decides from the event, the configuration and the
// active policy alone, and for a signature that holds its time from when the event was taken, so the same event is admitted alike on
// every door and every replica. Nothing of a body is believed, or even parsed, before its signature.
func (t *tenant) admit(s *source, d *delivery) (ledger.Claim, *contracts.Problem) {
	if problem := d.acceptable(s.MaxBytes); problem != nil {
		return ledger.Claim{}, problem
	}
	if problem := s.genuine(d); problem != nil {
		return ledger.Claim{}, problem
	}
	if problem := d.parse(); problem != nil {
		return ledger.Claim{}, problem
	}
	key, problem := s.active.key(d)
	if problem != nil {
		return ledger.Claim{}, problem
	}
	claim := ledger.Claim{
		CommandID: uuid.New(), TenantID: t.ID, Key: key, Source: s.ID, RulesVersion: s.active.Version,
		PayloadHash: canonical.Hash(s.active.fields.Apply(d.body)), HashVersion: canonical.HashVersion,
		HashUnder: s.hashUnder(d.body),
		Payload:   d.raw, ContentType: sound(d.contentType()), Headers: d.headers.stored(),
		CorrelationID: s.correlation(d.body, key), TraceParent: d.traceParent(), PreviousKey: s.previousKey(d),
		RequestedBy: s.requester(d.body), SentBy: d.sentBy,
	}
	if claim.Callback, problem = t.callback(d); problem != nil {
		return ledger.Claim{}, problem
	}
	if claim.Corrects, problem = t.correction(s, d, key); problem != nil {
		return ledger.Claim{}, problem
	}
	claim.Intent, problem = t.checked(s, d, key)
	return claim, problem
}

// read takes the body in: its size, its type, its JSON.
func (d *delivery) read(limit int64) *contracts.Problem {
	if problem := d.acceptable(limit); problem != nil {
		return problem
	}
	return d.parse()
}

// acceptable looks at a delivery from outside: its size and its type.
func (d *delivery) acceptable(limit int64) *contracts.Problem {
	if int64(len(d.raw)) > limit {
		return newProblemf(contracts.CodeTooLarge, "The body has %d bytes; at most %d are taken.", len(d.raw), limit)
	}
	if size := d.headers.size(); size > maxHeaderBytes {
		return newProblemf(contracts.CodeTooLarge, "The headers have %d bytes; at most %d are taken.", size, maxHeaderBytes)
	}
	return d.checkContentType()
}

func (d *delivery) parse() *contracts.Problem {
	body, err := canonical.Parse(d.raw)
	if err != nil {
		return newProblem(contracts.CodeMalformed, err.Error())
	}
	d.body = body
	return nil
}

// checked holds the body against the source's schema and takes the proposal that an inline event carries (M1).
func (t *tenant) checked(s *source, d *delivery, key string) (*ledger.Intent, *contracts.Problem) {
	inline := s.Mode == config.ModeInline
	if !inline && s.schema == nil {
		return nil, nil
	}
	body := config.NewDocument(d.body)
	if s.schema != nil {
		if errs := s.schema.CheckDocument(body); len(errs) > 0 {
			return nil, invalid(errs, "")
		}
	}
	if !inline {
		return nil, nil
	}
	proposal, ok := body.At(s.Proposal)
	if !ok {
		return nil, invalid([]contracts.FieldError{{Pointer: s.Proposal, Detail: "the proposal is missing"}}, "")
	}
	return t.intent(proposal, s, s.Proposal, key, 1)
}

// hashUnder hashes the body by other versions of the rules: a duplicate is compared under those that its run was
// claimed with (K15).
func (s *source) hashUnder(body canonical.Value) func(int) (canonical.Digest, error) {
	return func(version int) (canonical.Digest, error) {
		r := s.rules[version]
		switch {
		case r != nil:
			return canonical.Hash(r.fields.Apply(body)), nil
		case version > s.active.Version:
			return canonical.Digest{}, ledger.ErrStaleRules
		}
		return canonical.Digest{}, fmt.Errorf("source %s no longer declares rules version %d; "+
			"keep it as long as its runs can be redelivered", s.ID, version)
	}
}

// previousKey is the key by the rules that are being replaced, while redeliveries under them can still arrive.
func (s *source) previousKey(d *delivery) string {
	previous := s.rules[s.active.OverlapWith]
	if previous == nil {
		return ""
	}
	key, problem := previous.key(d)
	if problem != nil {
		return "" // it could not have been claimed under them
	}
	return key
}

// correlation is the integrator's id of whatever the event belongs to (K12), or the key where the event names none.
func (s *source) correlation(body canonical.Value, key string) string {
	if s.CorrelationID == "" {
		return key
	}
	v, _ := body.Pointer(s.CorrelationID)
	if v.Kind() != canonical.String && v.Kind() != canonical.Number || v.Text() == "" || len(v.Text()) > maxKeyBytes {
		return key
	}
	return v.Text()
}

// longestName bounds the name of whoever asked, in bytes; what is longer is nobody that the configuration could know.
const longestName = 200

// requester is who asked for this, as the event says it. Whether that is a person who may not approve it is the approval
// service's to find out (A5).
func (s *source) requester(body canonical.Value) string {
	if s.Requester == "" {
		return ""
	}
	v, _ := body.Pointer(s.Requester)
	if v.Kind() != canonical.String || len(v.Text()) > longestName {
		return ""
	}
	return sound(v.Text())
}

// intent makes the snapshot of a proposal. An action type that is not registered is let through: policy rejects it, on
// the record (P1).
func (t *tenant) intent(proposal config.Document, s *source, at, key string, revision int) (*ledger.Intent, *contracts.Problem) {
	if errs := intent.Check(proposal); len(errs) > 0 {
		return nil, invalid(errs, at)
	}
	registry, problem := t.registered()
	if problem != nil {
		return nil, problem
	}
	if errs := registry.changes(proposal); len(errs) > 0 {
		return nil, invalid(errs, at)
	}
	built, err := intent.Build(proposal.Value, intent.Origin{TenantID: t.ID, Key: key, Source: s.ID, Revision: revision,
		PolicyVersion: registry.version, Registered: registry.of})
	if err != nil {
		return nil, newProblem(contracts.CodeMalformed, err.Error())
	}
	return built, nil
}

// changes holds what each action changes against the schema of its type.
func (r *registry) changes(proposal config.Document) (wrong []contracts.FieldError) {
	for _, at := range intent.ActionsAt(proposal.Value) {
		kind, _ := proposal.Pointer(at + "/action_type")
		a := r.actions[kind.Text()]
		if a == nil {
			continue
		}
		change, _ := proposal.At(at + "/proposed_change")
		for _, e := range a.schema.CheckDocument(change) {
			wrong = append(wrong, contracts.FieldError{Pointer: at + "/proposed_change" + e.Pointer, Detail: e.Detail})
		}
	}
	return wrong
}

func (r *registry) of(actionType string) (*config.Action, *config.Connector) {
	a := r.actions[actionType]
	if a == nil {
		return nil, nil
	}
	return a.Action, a.connector
}

func invalid(errs []contracts.FieldError, prefix string) *contracts.Problem {
	first := fmt.Sprintf("At %q: %s.", prefix+errs[0].Pointer, errs[0].Detail)
	if len(errs) > 1 {
		first = fmt.Sprintf("%d problems; the first at %q: %s.", len(errs), prefix+errs[0].Pointer, errs[0].Detail)
	}
	p := newProblem(contracts.CodeSchemaInvalid, first)
	for _, e := range errs {
		p.Errors = append(p.Errors, contracts.FieldError{Pointer: prefix + e.Pointer, Detail: e.Detail})
	}
	return p
}
