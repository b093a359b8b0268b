package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// apiRoutes is the API for back-office and chat integrations. Whoever calls shows the human's own access token and not the
// integration's (A13, A15).
func (a *Approval) apiRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/approvals", a.asPerson(a.apiList))
	mux.HandleFunc("GET /v1/approvals/{approval}", a.asPerson(a.apiGet))
	mux.HandleFunc("POST /v1/approvals/decisions", a.asPerson(a.apiDecideMany))
	mux.HandleFunc("POST /v1/approvals/{approval}/decision", a.asPerson(a.apiDecide))
	mux.HandleFunc("POST /v1/approvals/{approval}/withdrawal", a.asPerson(a.apiWithdraw))
	mux.HandleFunc("POST /v1/approvals/{approval}/judgement", a.asPerson(a.apiJudgeGlass))
	mux.HandleFunc("GET /v1/unattended", a.asPerson(a.apiUnattended))
	mux.HandleFunc("POST /v1/unattended/{run}/withdrawal", a.asPerson(a.apiTakeBack))
	mux.HandleFunc("POST /v1/unattended/{run}/judgement", a.asPerson(a.apiJudge))
	mux.HandleFunc("GET /v1/desk", a.asPerson(a.apiDesk))
	mux.HandleFunc("GET /v1/desk/{operation}", a.asPerson(a.apiDeskCase))
	mux.HandleFunc("POST /v1/desk/{operation}/resolution", a.asPerson(a.apiResolve))
	mux.HandleFunc("GET /v1/tenants/{tenant}/switches", a.asPerson(a.apiSwitches))
	mux.HandleFunc("GET /v1/tenants/{tenant}/switches/{switch}", a.asPerson(a.apiSwitch))
	mux.HandleFunc("POST /v1/tenants/{tenant}/switches/{switch}/closing", a.asPerson(a.apiCloseSwitch))
	mux.HandleFunc("POST /v1/tenants/{tenant}/switches/{switch}/opening", a.asPerson(a.apiOpenSwitch))
}

// asPerson lets people through who show their own token.
func (a *Approval) asPerson(next func(http.ResponseWriter, *http.Request, *identity)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		who, err := a.provider.bearer(r.Context(), token)
		switch {
		case errors.Is(err, errProvider):
			a.env.Log.Error("the identity provider cannot be asked", "error", err)
			a.problem(w, contracts.CodeUnavailable, "The identity provider cannot be reached now. Try again.")
		case errors.Is(err, errNotAPerson):
			a.problem(w, contracts.CodeForbidden, err.Error())
		case err != nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			a.problem(w, contracts.CodeUnauthenticated, errCredential.Error())
		default:
			next(w, r, who)
		}
	}
}

// apiList lists what the person may see, narrowed by the query: state, correlation_id, key.
func (a *Approval) apiList(w http.ResponseWriter, r *http.Request, who *identity) {
	q := r.URL.Query()
	list, _, err := a.queue(r.Context(), who, ledger.ApprovalFilter{State: q.Get("state"), CorrelationID: q.Get("correlation_id"), Key: q.Get("key")})
	if err != nil {
		a.failed(w, err)
		return
	}
	items := make([]contracts.Approval, len(list))
	for i := range list {
		items[i] = summary(&list[i].ApprovalSummary)
	}
	a.answer(w, http.StatusOK, contracts.ApprovalList{Approvals: items})
}

// queue lists approvals of all tenants in which the person has a role and is not disabled. There may be more than it lists.
func (a *Approval) queue(ctx context.Context, who *identity, f ledger.ApprovalFilter, narrow ...func(*tenant, *ledger.ApprovalFilter)) (
	all []ledger.Listed, more bool, err error) {
	for _, t := range a.tenantsOf(who) {
		if f.TenantID != "" && f.TenantID != t.ID {
			continue
		}
		f := f
		f.TenantID, f.Audience = t.ID, append(who.roles(t), t.delegatedRoles(who, time.Now())...) // a card says by the database's clock
		if who.holds(t, []string{roleOperator}) {
			f.Audience = nil
		}
		for _, change := range narrow {
			change(t, &f)
		}
		list, err := a.env.Ledger.Queue(ctx, f)
		if err != nil {
			return nil, false, err
		}
		all, more = append(all, list...), more || len(list) == cmp.Or(f.Limit, ledger.DefaultListed)
	}
	slices.SortStableFunc(all, ranking(f.Oldest))
	return all, more, nil
}

// tenantsOf are those in which the person has a role, or decides for somebody who has, and is not disabled; by their ids.
func (a *Approval) tenantsOf(who *identity) []*tenant {
	var mine []*tenant
	for _, id := range slices.Sorted(maps.Keys(a.tenants)) {
		t := a.tenant(id)
		if !who.disabled(t) && len(who.roles(t))+len(t.delegatedRoles(who, time.Now())) > 0 {
			mine = append(mine, t)
		}
	}
	return mine
}

func (a *Approval) apiGet(w http.ResponseWriter, r *http.Request, who *identity) {
	t, card, ok := a.apiCard(w, r, who)
	if ok {
		a.answer(w, http.StatusOK, t.describe(card))
	}
}

func (a *Approval) apiCard(w http.ResponseWriter, r *http.Request, who *identity) (*tenant, *ledger.Card, bool) {
	id, err := uuid.Parse(r.PathValue("approval"))
	if err != nil {
		a.failed(w, ledger.ErrNoApproval)
		return nil, nil, false
	}
	t, card, err := a.cardFor(r.Context(), who, id)
	if err != nil {
		a.failed(w, err)
		return nil, nil, false
	}
	return t, card, true
}

// apiDecide takes a decision. The Idempotency-Key header, where it is sent, makes a repeated call the same vote.
func (a *Approval) apiDecide(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.DecisionRequest
	if !a.read(w, r, maxBody, &body) {
		return
	}
	t, card, ok := a.apiCard(w, r, who)
	if !ok {
		return
	}
	voted, err := a.decideAs(r.Context(), who, t, card, commandID(r, who, card.ApprovalID), &body, false)
	if err != nil {
		a.failed(w, err)
		return
	}
	a.voted(w, card, voted)
}

// errHash is an intent hash that cannot be one.
var errHash = errors.New("intent_hash must be the 64 hex digits of the intent that the person was shown.")

// decideAs makes a decision that the API was asked for, alone or together with others.
func (a *Approval) decideAs(ctx context.Context, who *identity, t *tenant, card *ledger.Card, command uuid.UUID,
	body *contracts.DecisionRequest, together bool) (ledger.Voted, error) {
	shown, err := canonical.ParseDigest(body.IntentHash)
	if err != nil {
		return ledger.Voted{}, errHash
	}
	return a.decide(ctx, who, ballot{CommandID: command, Tenant: t, Card: card, Decision: body.Decision, Reason: body.Reason,
		Shown: shown, Token: body.Token, Together: together})
}

// commandID is the same for a call that is repeated under one key by one person.
func commandID(r *http.Request, who *identity, about uuid.UUID) uuid.UUID {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return uuid.New()
	}
	return uuid.NewSHA1(about, []byte(who.Issuer+"\n"+who.Subject+"\n"+key))
}

func (a *Approval) apiWithdraw(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.WithdrawalRequest
	if !a.read(w, r, maxBody, &body) {
		return
	}
	t, card, ok := a.apiCard(w, r, who)
	if !ok {
		return
	}
	voted, err := a.withdraw(r.Context(), who, t, card, body.Reason)
	if err != nil {
		a.failed(w, err)
		return
	}
	a.voted(w, card, voted)
}

// voted tells what a decision came to; what did not decide is a conflict, with what stands.
func (a *Approval) voted(w http.ResponseWriter, card *ledger.Card, v ledger.Voted) {
	answer, p := whatStands(card, v)
	if p == nil {
		a.answer(w, http.StatusOK, answer)
		return
	}
	a.write(w, p.Status, contracts.ProblemContentType, struct {
		*contracts.Problem
		contracts.DecisionAnswer
	}{p, answer})
}

// whatStands is what stands after a decision, and a problem where it did not count.
func whatStands(card *ledger.Card, v ledger.Voted) (contracts.DecisionAnswer, *contracts.Problem) {
	answer := contracts.DecisionAnswer{ApprovalID: card.ApprovalID.String(), Result: v.Result, Status: v.State, Approvals: approvals(v.Cast),
		Quorum: v.Quorum, Decisions: decisionsOf(v.Cast), Stages: stagesOf(v.Tally)}
	switch v.Result {
	case ledger.VoteApproved, ledger.VoteRejected, ledger.VoteSentBack, ledger.VoteCounted:
		return answer, nil
	}
	return answer, contracts.NewProblem(conflictCode(v.Result), standing(v))
}

func conflictCode(result string) string {
	if result == ledger.VoteUnknown {
		return contracts.CodeNoApproval
	}
	return contracts.CodeNotDecided
}

// failed tells a refusal, or that something failed.
func (a *Approval) failed(w http.ResponseWriter, err error) {
	p := a.problemFor(err)
	if p.Code == contracts.CodeUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	a.write(w, p.Status, contracts.ProblemContentType, p)
}

// problemFor is how a refusal or a failure is told, which is logged.
func (a *Approval) problemFor(err error) *contracts.Problem {
	var no *refusal
	switch {
	case errors.As(err, &no):
		return contracts.NewProblem(problemOf(no.Code), no.Detail)
	case errors.Is(err, errHash):
		return contracts.NewProblem(contracts.CodeSchemaInvalid, err.Error())
	case errors.Is(err, ledger.ErrNoApproval):
		return contracts.NewProblem(contracts.CodeNoApproval, "")
	case errors.Is(err, ledger.ErrNoUnattended), errors.Is(err, ledger.ErrNoRun):
		return contracts.NewProblem(contracts.CodeNotFound, "No rule let such a run act, or it is not for you to see.")
	case errors.Is(err, ledger.ErrNoOperation):
		return contracts.NewProblem(contracts.CodeNotFound, "There is no such operation, or it is not for you to settle.")
	case errors.Is(err, errNoSwitch):
		return contracts.NewProblem(contracts.CodeNotFound, "There is no such switch, or it is not for you to see.")
	case errors.Is(err, context.Canceled):
		return contracts.NewProblem(contracts.CodeInternal, "The caller went away.")
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrOverloaded):
		a.env.Log.Warn("a request could not be answered now", "error", err)
		return contracts.NewProblem(contracts.CodeUnavailable, "Nothing was decided. Try again.")
	}
	a.env.Log.Error("a request failed", "error", err)
	return contracts.NewProblem(contracts.CodeInternal, "Look again before you decide again: whether it was recorded is not known.")
}

// problemOf a refusal: the code's own where the contract lists it.
func problemOf(code string) string {
	switch code {
	case codeSignInAgain, codeStepUp:
		return contracts.CodeSignInAgain
	case codeReason, codeReasonLong, codeBadDecision:
		return contracts.CodeSchemaInvalid
	}
	return contracts.CodeForbidden
}

// maxBody holds a reason of 2,000 characters, each a pair of escaped surrogates, and the fields around it.
const maxBody = 32 << 10

// read decodes a JSON body of at most so many bytes strictly.
func (a *Approval) read(w http.ResponseWriter, r *http.Request, most int64, into any) bool {
	if kind := r.Header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "application/json") {
		a.problem(w, contracts.CodeUnsupportedMediaType, "Send application/json.")
		return false
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("something follows the object")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		a.problem(w, contracts.CodeTooLarge, "At most "+strconv.FormatInt(most, 10)+" bytes are taken.")
	case err != nil:
		a.problem(w, contracts.CodeMalformed, err.Error())
	}
	return err == nil
}

func (a *Approval) problem(w http.ResponseWriter, code, detail string) {
	p := contracts.NewProblem(code, detail)
	a.write(w, p.Status, contracts.ProblemContentType, p)
}

func (a *Approval) answer(w http.ResponseWriter, status int, body any) {
	a.write(w, status, "application/json", body)
}

func (a *Approval) write(w http.ResponseWriter, status int, contentType string, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // all bodies are strings, numbers, times and JSON that was parsed before
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the caller is gone, and what was decided stays decided
}
