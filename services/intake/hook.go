package intake

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// newVerifier is nil where the source's events need no signature.
func newVerifier(declared *config.Source) (*signature.Verifier, error) {
	if declared.Signature == nil {
		return nil, nil
	}
	v, err := signature.New(*declared.Signature)
	if err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	return v, nil
}

// genuine holds a delivery against its signature, where its source wants one. It does so on every door: an API key says
// who sent a delivery, and the signature that the body is the one that was signed. A delivery that is repeated with its
// good signature is let through here, and is a duplicate by its key, which is signed with the body (K3).
func (s *source) genuine(d *delivery) *contracts.Problem {
	if s.verifier == nil || d.genuine {
		return nil
	}
	_, refusal := s.verifier.Verify(d.headers, d.raw, d.takenAt())
	if refusal == nil {
		d.genuine = true
		return nil
	}
	code := contracts.CodeBadSignature
	if refusal.Stale() {
		code = contracts.CodeStaleSignature
	}
	return newProblemf(code, "%s (%s)", refusal.Detail, refusal.Reason)
}

// hook takes an event from a sender that can hold no API key, but signs what it sends. A stranger is told the same of a
// tenant that there is not, of a source that there is not, and of one that wants no signature.
func (d *httpDoor) hook(w http.ResponseWriter, r *http.Request) {
	what := counted{door: doorHTTP, verb: "hook"}
	answer := refuse(newProblem(contracts.CodeUnknownSource, "No signed deliveries are taken here."))
	if c := d.in.signedCaller(r.PathValue("tenant"), r.PathValue("source")); c != nil {
		what.tenant = c.tenant.ID
		answer = d.delivered(d.in.signedEvent)(w, r, c)
	}
	what.result = answer.result
	d.in.counters.answer(r.Context(), what)
	write(w, &answer)
}

// signedEvent looks at the signature before it counts against the tenant's rate, which strangers must not use up.
func (in *Intake) signedEvent(ctx context.Context, t *tenant, s *source, d *delivery) reply {
	problem := d.acceptable(s.MaxBytes)
	if problem == nil {
		problem = s.genuine(d)
	}
	if problem != nil {
		return refuse(problem)
	}
	if answer, over := t.overRate(1); over {
		return answer
	}
	return in.event(ctx, t, s, d)
}

// signedCaller is whoever signs for a source. The colon keeps the name apart from those of API keys.
func (in *Intake) signedCaller(tenant, source string) *caller {
	t := in.tenants[tenant]
	if t == nil || t.sources[source] == nil || t.sources[source].verifier == nil {
		return nil
	}
	return &caller{tenant: t, name: "hook:" + t.sources[source].Signature.Scheme}
}
