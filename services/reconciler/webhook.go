package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// hook is where the provider of one connector tells what became of writes.
type hook struct {
	tenant, connector string
	declared          *config.ProviderWebhook
	verifier          *signature.Verifier
}

// Bounds of what waits to be stored: together 64 MiB at most, each body as provider_events bounds it. The next provider is told to
// come back.
const (
	maxHookBytes = 256 << 10
	hooksAtOnce  = 64 // in one commit
	hooksWaiting = 192
)

// addHook reads the secrets of a connector that has a webhook.
func (r *Reconciler) addHook(tenant string, c *config.Connector) error {
	if c.Webhook == nil {
		return nil
	}
	verifier, err := signature.New(c.Webhook.Signature)
	if err != nil {
		return fmt.Errorf("signature of its webhook: %w", err)
	}
	r.hooks[tenant+"/"+c.ID] = &hook{tenant, c.ID, c.Webhook, verifier}
	return nil
}

func (r *Reconciler) routes() http.Handler {
	const path = "/v1/connectors/{tenant}/{connector}/webhook"
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/connectors/{tenant}/{connector}/webhook", r.webhook)
	mux.Handle(path, refuseWith(contracts.CodeMethodNotAllowed, "This path takes POST."))
	mux.Handle("/", refuseWith(contracts.CodeNotFound, "Nothing is at this path; providers post to "+path+"."))
	return mux
}

func refuseWith(code, detail string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if code == contracts.CodeMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		writeProblem(w, contracts.NewProblem(code, detail))
	})
}

// webhook stores what a provider tells, and answers when it is on disk: 204, also to what was stored before. A stranger is told the
// same of a tenant that there is not, of a connector that there is not, and of one that takes no webhooks.
func (r *Reconciler) webhook(w http.ResponseWriter, request *http.Request) {
	h := r.hooks[request.PathValue("tenant")+"/"+request.PathValue("connector")]
	if h == nil {
		r.heard.delivery(request.Context(), "", "", contracts.CodeUnknownConnector)
		writeProblem(w, contracts.NewProblem(contracts.CodeUnknownConnector, "No webhooks are taken here."))
		return
	}
	result, problem := r.take(h, w, request)
	if problem != nil {
		result = problem.Code
		writeProblem(w, problem)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
	r.heard.delivery(request.Context(), h.tenant, h.connector, result)
}

// take verifies the body as it was received before anything in it is believed, and stores the event that it holds.
func (r *Reconciler) take(h *hook, w http.ResponseWriter, request *http.Request) (result string, problem *contracts.Problem) {
	if problem = checkContentType(request.Header); problem != nil {
		return "", problem
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxHookBytes))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return "", contracts.NewProblem(contracts.CodeTooLarge, fmt.Sprintf("At most %d bytes are taken.", maxHookBytes))
	case err != nil:
		return "", contracts.NewProblem(contracts.CodeMalformed, "The body ended early.")
	}
	signed, refusal := h.verifier.Verify(request.Header, raw, time.Now())
	if refusal != nil {
		code := contracts.CodeBadSignature
		if refusal.Stale() {
			code = contracts.CodeStaleSignature
		}
		return "", contracts.NewProblem(code, fmt.Sprintf("%s (%s)", refusal.Detail, refusal.Reason))
	}
	event, problem := h.read(raw, signed)
	if problem != nil {
		return "", problem
	}
	return r.receive(request.Context(), event)
}

func (r *Reconciler) receive(ctx context.Context, event ledger.ProviderEvent) (string, *contracts.Problem) {
	result, err := r.received.Do(ctx, event)
	switch {
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrOverloaded):
		r.env.Log.Warn("a provider's event could not be stored now", "error", err)
		return "", contracts.NewProblem(contracts.CodeUnavailable, "Send it again.")
	case err != nil:
		r.env.Log.Error("a provider's event could not be stored", "event", event.ID, "error", err)
		return "", contracts.NewProblem(contracts.CodeInternal, "Send it again; if it goes on, tell the operator.")
	case result == ledger.EventConflict:
		r.env.Log.Error("a provider's event came again with another body; the first stands, and an operator should ask the provider",
			"tenant", event.TenantID, "connector", event.Connector, "event", event.ID)
	case result == ledger.EventStored:
		service.WakeUp(r.wakeEvents)
	}
	return result, nil
}

// checkContentType refuses what is said to be no JSON, or compressed: the signature is over the bytes as they come.
func checkContentType(header http.Header) *contracts.Problem {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	encoding := header.Get("Content-Encoding")
	if err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")) && (encoding == "" || encoding == "identity") {
		return nil
	}
	return contracts.NewProblem(contracts.CodeUnsupportedMediaType, "Send application/json, uncompressed.")
}

func writeProblem(w http.ResponseWriter, p *contracts.Problem) {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is texts and a number
	}
	w.Header().Set("Content-Type", contracts.ProblemContentType)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // who asked is gone
}
