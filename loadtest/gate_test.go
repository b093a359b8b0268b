package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
)

// gate plays the approval service of a system, with a real sign-in. The hooks see the position of a run in the order of
// claims, from 1.
type gate struct {
	*system
	verifier *oidc.IDTokenVerifier

	refuse  func(run, try int) int // status of a try to decide that fails; 0 lets it through
	rival   func(run int) string   // the decision of somebody else who comes first; "" for nobody
	quick   bool                   // the rival decides before the request is looked at
	deaf    bool                   // rejected runs are executed
	waiting map[string]*waitingRun // by approval id

	deciders map[string]int // decisions by the subject of who made them
}

type waitingRun struct {
	run, tries  int
	key, record string
	hash        string
	status      string
}

// provider signs in the people of all tests of the binary. It ends with the process.
var provider = sync.OnceValues(func() (*demoidp.Provider, error) { return startProvider(demoidp.Config{}) })

func startProvider(c demoidp.Config) (*demoidp.Provider, error) {
	c.Addr, c.People, c.Clients = "127.0.0.1:0", demoidp.DemoPeople(), demoidp.DemoClients()
	p, err := demoidp.New(c)
	if err == nil {
		go func() { _ = p.Run(context.Background()) }()
	}
	return p, err
}

// newReviewSystem is a system in which nothing is executed before a person approves it.
func newReviewSystem(t *testing.T) *system {
	t.Helper()
	p, err := provider()
	require.NoError(t, err)
	known, err := oidc.NewProvider(t.Context(), p.Issuer())
	require.NoError(t, err)
	s := newSystem(t)
	s.opts.flow = "review"
	s.gate = &gate{
		system: s, verifier: known.Verifier(&oidc.Config{SkipClientIDCheck: true}),
		refuse: func(int, int) int { return 0 }, rival: func(int) string { return "" },
		waiting: map[string]*waitingRun{}, deciders: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/approvals", s.gate.list)
	mux.HandleFunc("POST /v1/approvals/{id}/decision", s.gate.decide)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var people []person
	for _, who := range demoidp.DemoPeople() {
		people = append(people, person{Login: who.Subject, Password: who.Password, Name: who.Name, Groups: who.Groups})
	}
	s.ready["approval_url"], s.ready["oidc_issuer"], s.ready["people"] = server.URL, p.Issuer(), people
	s.writeReady()
	return s
}

// ask makes the run wait and tells the tenant.
func (g *gate) ask(run int, key string, proposal contracts.Proposal) {
	w := &waitingRun{run: run, key: key, record: proposal.Target.RecordID, hash: "hash-of-" + key, status: "pending"}
	g.mu.Lock()
	g.waiting["apr-"+key] = w
	g.mu.Unlock()
	if g.quick {
		g.mu.Lock()
		w.status = status(g.rival(run))
		g.mu.Unlock()
		g.follow(w)
	}
	g.publish("awaiting_human", &contracts.RunAwaitingHuman{RunRef: refOf(key), IntentRevision: 1, IntentHash: w.hash,
		Reasons: []string{"rule"}})
}

func status(decision string) string {
	return map[string]string{"approve": "approved", "reject": "rejected"}[decision]
}

// follow does what a decision leads to.
func (g *gate) follow(w *waitingRun) {
	if w.status == "approved" || g.deaf {
		g.execute(w.run, w.key, w.record)
		return
	}
	g.end(w.key, contracts.OutcomeRejected)
}

// who returns the subject of a person's own access token, "" where there is none.
func (g *gate) who(r *http.Request) string {
	token, err := g.verifier.Verify(r.Context(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if err != nil {
		return ""
	}
	return token.Subject
}

func (g *gate) list(w http.ResponseWriter, r *http.Request) {
	if g.who(r) == "" {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	key := r.URL.Query().Get("key")
	g.mu.Lock()
	defer g.mu.Unlock()
	waits := g.waiting["apr-"+key]
	json.NewEncoder(w).Encode(map[string]any{"approvals": []contracts.Approval{
		{ApprovalID: "apr-other", TenantID: "other", IdempotencyKey: key, Status: "pending"},
		{ApprovalID: "apr-" + key, TenantID: "demo", IdempotencyKey: key, Status: waits.status},
	}})
}

func (g *gate) decide(w http.ResponseWriter, r *http.Request) {
	var body contracts.DecisionRequest
	err := json.NewDecoder(r.Body).Decode(&body)
	who := g.who(r)
	g.mu.Lock()
	waits := g.waiting[r.PathValue("id")]
	waits.tries++
	refused := g.refuse(waits.run, waits.tries)
	switch {
	case who == "":
		refused = http.StatusUnauthorized
	case err != nil, body.Reason == "", body.IntentHash != waits.hash, r.Header.Get("Idempotency-Key") != waits.key:
		refused = http.StatusUnprocessableEntity
	}
	if refused != 0 {
		g.mu.Unlock()
		http.Error(w, "not now", refused)
		return
	}
	code, result := http.StatusOK, status(body.Decision)
	decision := body.Decision
	if rival := g.rival(waits.run); rival != "" {
		code, result, decision = http.StatusConflict, "already_decided", rival
	}
	first := waits.status == "pending"
	if first {
		waits.status = status(decision)
	} else {
		code, result = http.StatusConflict, "already_decided"
	}
	g.deciders[who]++
	g.mu.Unlock()
	if first {
		g.follow(waits) // before the answer: a run may end first
	}
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(contracts.DecisionAnswer{Result: result, Status: waits.status})
}

func TestReviewer(t *testing.T) {
	t.Parallel()

	t.Run("TokenIsKeptWhileItLives", func(t *testing.T) {
		t.Parallel()
		p, err := provider()
		require.NoError(t, err)
		r := &reviewer{issuer: p.Issuer(), person: person{Login: "nora", Password: demoidp.DemoPassword}}
		first, err := r.token(t.Context())
		require.NoError(t, err)
		second, err := r.token(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, second)
	})

	t.Run("TokenIsRenewedBeforeItExpires", func(t *testing.T) {
		t.Parallel()
		p, err := startProvider(demoidp.Config{TokenLifetime: time.Minute})
		require.NoError(t, err)
		r := &reviewer{issuer: p.Issuer(), person: person{Login: "nora", Password: demoidp.DemoPassword}}
		first, err := r.token(t.Context())
		require.NoError(t, err)
		second, err := r.token(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, first, second)
	})

	t.Run("WrongPasswordNamesThePerson", func(t *testing.T) {
		t.Parallel()
		p, err := provider()
		require.NoError(t, err)
		r := &reviewer{issuer: p.Issuer(), person: person{Login: "nora", Password: "guess"}}
		_, err = r.token(t.Context())
		require.ErrorIs(t, err, demoidp.ErrRefused)
		require.ErrorContains(t, err, "nora")
	})
}
