package intake

import (
	"fmt"
	"mime"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// delivery is one event as a door received it.
type delivery struct {
	raw     []byte
	headers map[string][]string
	body    canonical.Value
}

// header is all values of a header, whatever case its name was sent in.
func (d *delivery) header(name string) []string {
	var all []string
	for n, values := range d.headers {
		if strings.EqualFold(n, name) {
			all = append(all, values...)
		}
	}
	return all
}

func (d *delivery) flatHeaders() map[string]string {
	flat := make(map[string]string, len(d.headers))
	for name, values := range d.headers {
		if !secretHeaders[strings.ToLower(name)] {
			flat[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return flat
}

// secretHeaders are never stored.
var secretHeaders = map[string]bool{"authorization": true, "proxy-authorization": true, "cookie": true}

// admit turns a delivery into a claim, or says why it cannot be one. It decides from the event and the configuration alone, so the
// same event is admitted alike on every door and every replica.
func (t *tenant) admit(s *source, d *delivery) (ledger.Claim, *contracts.Problem) {
	if int64(len(d.raw)) > s.MaxBytes {
		return ledger.Claim{}, contracts.NewProblem(contracts.CodeTooLarge, fmt.Sprintf("The body has %d bytes; this source takes %d.", len(d.raw), s.MaxBytes))
	}
	if problem := checkContentType(d); problem != nil {
		return ledger.Claim{}, problem
	}
	body, err := canonical.Parse(d.raw)
	if err != nil {
		return ledger.Claim{}, contracts.NewProblem(contracts.CodeMalformed, err.Error())
	}
	d.body = body
	active := s.rules[s.ActiveRules().Version]
	key, problem := active.key(d)
	if problem != nil {
		return ledger.Claim{}, problem
	}
	if s.schema != nil {
		if errs := s.schema.Check(body); len(errs) > 0 {
			return ledger.Claim{}, invalid(errs, "")
		}
	}
	claim := ledger.Claim{
		CommandID: uuid.New(), TenantID: t.ID, Key: key, Source: s.ID, RulesVersion: active.Version,
		PayloadHash: canonical.Hash(active.fields.Apply(body)), HashVersion: canonical.HashVersion, HashUnder: s.hashUnder(body),
		Payload: d.raw, ContentType: contentType(d), Headers: d.flatHeaders(), CorrelationID: correlation(s, body, key),
		TraceParent: strings.Join(d.header("traceparent"), ""), PreviousKey: s.previousKey(active, d),
	}
	if s.Mode == config.ModeInline {
		claim.Intent, problem = t.propose(s, body, key)
	}
	return claim, problem
}

// hashUnder hashes the body by older rules: a duplicate is compared under the rules that its run was claimed with (K15).
func (s *source) hashUnder(body canonical.Value) func(int) (canonical.Digest, error) {
	return func(version int) (canonical.Digest, error) {
		r := s.rules[version]
		if r == nil {
			return canonical.Digest{}, fmt.Errorf("source %s no longer declares rules version %d; keep it as long as its runs can be redelivered", s.ID, version)
		}
		return canonical.Hash(r.fields.Apply(body)), nil
	}
}

// previousKey is the key by the rules that are being replaced, while redeliveries under them can still arrive.
func (s *source) previousKey(active *rules, d *delivery) string {
	previous := s.rules[active.OverlapWith]
	if previous == nil {
		return ""
	}
	key, problem := previous.key(d)
	if problem != nil {
		return "" // it could not have been claimed under them
	}
	return key
}

func correlation(s *source, body canonical.Value, key string) string {
	if s.CorrelationID == "" {
		return key
	}
	v, ok := body.Pointer(s.CorrelationID)
	if !ok || v.Text() == "" || len(v.Text()) > maxKeyBytes {
		return key
	}
	return v.Text()
}

// propose takes the inline proposal. An action type that is not registered is let through: policy rejects it, on the record (P1).
func (t *tenant) propose(s *source, body canonical.Value, key string) (*ledger.Intent, *contracts.Problem) {
	proposal, ok := body.Pointer(s.Proposal)
	if !ok {
		return nil, invalid([]contracts.FieldError{{Pointer: s.Proposal, Detail: "the proposal is missing"}}, "")
	}
	return t.intent(proposal, s, s.Proposal, key, 1)
}

func (t *tenant) intent(proposal canonical.Value, s *source, at, key string, revision int) (*ledger.Intent, *contracts.Problem) {
	if errs := intent.Check(proposal); len(errs) > 0 {
		return nil, invalid(errs, at)
	}
	origin := intent.Origin{TenantID: t.ID, Key: key, Source: s.ID, Revision: revision, PolicyVersion: t.PolicyVersion}
	kind, _ := proposal.Get("action_type")
	if a := t.actions[kind.Text()]; a != nil {
		change, _ := proposal.Get("proposed_change")
		if errs := a.schema.Check(change); len(errs) > 0 {
			return nil, invalid(errs, at+"/proposed_change")
		}
		origin.Action = a.Action
	}
	built, err := intent.Build(proposal, origin)
	if err != nil {
		return nil, contracts.NewProblem(contracts.CodeMalformed, err.Error())
	}
	return built, nil
}

func invalid(errs []contracts.FieldError, prefix string) *contracts.Problem {
	p := contracts.NewProblem(contracts.CodeSchemaInvalid, fmt.Sprintf("%d problems; the first at %q: %s.", len(errs),
		prefix+errs[0].Pointer, errs[0].Detail))
	for _, e := range errs {
		p.Errors = append(p.Errors, contracts.FieldError{Pointer: prefix + e.Pointer, Detail: e.Detail})
	}
	return p
}

// checkContentType takes JSON in any spelling. A NATS message need not say what it is.
func checkContentType(d *delivery) *contracts.Problem {
	if encodings := d.header("Content-Encoding"); len(encodings) > 0 && strings.Join(encodings, "") != "identity" {
		return contracts.NewProblem(contracts.CodeUnsupportedMediaType, "Compressed bodies are not accepted; send plain JSON.")
	}
	kind, _, err := mime.ParseMediaType(contentType(d))
	if err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return contracts.NewProblem(contracts.CodeUnsupportedMediaType, fmt.Sprintf("The content type is %q; send application/json.", contentType(d)))
}

func contentType(d *delivery) string {
	values := d.header("Content-Type")
	if len(values) == 0 {
		return "application/json"
	}
	return values[0]
}
