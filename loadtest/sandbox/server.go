package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"
)

// shutdownGrace is how long a stopping sandbox lets answers finish.
const shutdownGrace = 5 * time.Second

// Server is one sandbox.
type Server struct {
	cfg     Config
	gate    *gate
	ledger  *ledger
	inbox   *inbox
	rules   *rules
	http    *http.Server
	smtp    *smtp.Server
	signals *http.Client
	closing chan struct{} // closed when Run begins to stop: whoever hangs or delays lets go

	smtpListener net.Listener
	tellings     sync.WaitGroup // webhooks on their way
	arrived      arrivals

	boot     string // makes request ids unique across restarts
	requests atomic.Uint64

	mu            sync.Mutex
	personalities map[string]Personality
	destinations  map[string]Destination
	unused        map[net.Conn]bool // connections that have not sent a byte yet
}

// New opens the ledger and the listeners, so that Addr and SMTPAddr are known. Run must follow; it closes them.
func New(cfg Config) (*Server, error) {
	cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sandbox configuration: %w", err)
	}
	s := &Server{
		cfg:           cfg,
		signals:       &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		closing:       make(chan struct{}),
		boot:          randomHex(4),
		personalities: map[string]Personality{Payments: cfg.Payments, CRM: cfg.CRM},
		destinations:  map[string]Destination{},
		unused:        map[net.Conn]bool{},
	}
	maps.Copy(s.personalities, cfg.Others)
	maps.Copy(s.destinations, cfg.Webhooks)
	if err := s.open(); err != nil {
		return nil, err
	}
	s.rules = &rules{news: s.ledger.news}
	s.smtp = s.newMailServer()
	s.http = &http.Server{Handler: s.identified(s.routes()), ReadHeaderTimeout: 10 * time.Second, ConnState: s.noteConn}
	return s, nil
}

// open opens all that must be closed again, or nothing.
func (s *Server) open() (err error) {
	if s.ledger, err = openLedger(s.cfg.DataDir, s.cfg.CommitDelay); err != nil {
		return fmt.Errorf("open the sandbox's ledger: %w", err)
	}
	if s.inbox, err = openInbox(s.cfg.DataDir, s.cfg.CommitDelay, s.ledger.news); err != nil {
		return errors.Join(fmt.Errorf("open the sandbox's inbox: %w", err), s.ledger.journal.close())
	}
	if s.gate, err = openGate(s.cfg.Addr); err != nil {
		return errors.Join(fmt.Errorf("sandbox cannot listen: %w", err), s.closeJournals())
	}
	if s.smtpListener, err = net.Listen("tcp", s.cfg.SMTPAddr); err != nil {
		return errors.Join(fmt.Errorf("sandbox cannot listen for mail: %w", err), s.gate.Close(), s.closeJournals())
	}
	return nil
}

func (s *Server) closeJournals() error { return errors.Join(s.inbox.close(), s.ledger.journal.close()) }

// Run makes a sandbox and serves it until the context ends: New and Server.Run in one.
func Run(ctx context.Context, cfg Config) error {
	s, err := New(cfg)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// Addr is the host:port that the sandbox listens on.
func (s *Server) Addr() string { return s.gate.addr }

// SMTPAddr is the host:port that the sandbox takes mail on.
func (s *Server) SMTPAddr() string { return s.smtpListener.Addr().String() }

// URL is the base of all addresses, such as http://127.0.0.1:4010.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Run serves until the context ends and returns nil then. It returns an error where a listener or the ledger failed.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 2)
	go func() { served <- s.http.Serve(s.gate) }()
	go func() { served <- s.smtp.Serve(s.smtpListener) }()
	err := s.announce()
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
			err = fmt.Errorf("serve the sandbox: %w", err)
		}
	}
	return errors.Join(err, s.stop())
}

// stop lets the hanging go, the others finish, and closes the ledger last.
func (s *Server) stop() error {
	close(s.closing)
	mailErr := s.stopMail()
	s.dropUnused()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Logger.Warn("sandbox cuts off answers that did not finish; their writes are in the ledger")
		err = s.http.Close()
	}
	if err != nil {
		err = fmt.Errorf("stop the sandbox: %w", err)
	}
	s.tellings.Wait()
	return errors.Join(mailErr, err, s.closeJournals())
}

// noteConn keeps track of connections that nobody has used. HTTP clients dial such ones in advance, and
// http.Server.Shutdown would wait five seconds for each.
func (s *Server) noteConn(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateNew {
		s.unused[conn] = true
		return
	}
	delete(s.unused, conn)
}

func (s *Server) dropUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.unused {
		conn.Close() // nothing was asked over it
	}
}

// announce writes the ready file in one step, so that nobody reads half of it.
func (s *Server) announce() error {
	s.cfg.Logger.Info("sandbox is ready", "url", s.URL(), "smtp", s.SMTPAddr(), "data", s.cfg.DataDir)
	if s.cfg.ReadyFile == "" {
		return nil
	}
	content, err := json.Marshal(map[string]any{
		"url": s.URL(), "addr": s.Addr(), "smtp": s.SMTPAddr(), "pid": os.Getpid(),
	})
	if err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(s.cfg.ReadyFile), "."+filepath.Base(s.cfg.ReadyFile)+".tmp")
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	if err := os.Rename(temporary, s.cfg.ReadyFile); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return nil
}

// identified gives every answer its X-Request-Id.
func (s *Server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := "req_" + s.boot + "_" + strconv.FormatUint(s.requests.Add(1), 10)
		w.Header()["X-Request-Id"] = []string{id}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) personalityOf(system string) Personality {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.personalities[system]
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /payments/refunds", s.serve(Payments, Create, createRefund))
	mux.Handle("GET /payments/refunds", s.serve(Payments, Lookup, findRefunds))
	mux.Handle("GET /payments/refunds/{id}", s.serve(Payments, Read, readRefund))
	mux.Handle("POST /crm/contacts", s.serve(CRM, Create, createContact))
	mux.Handle("GET /crm/contacts", s.serve(CRM, Lookup, findContacts))
	mux.Handle("PATCH /crm/contacts/{id}", s.serve(CRM, Update, updateContact))
	mux.Handle("GET /crm/contacts/{id}", s.serve(CRM, Read, readContact))
	mux.Handle("GET /crm/updates", s.serve(CRM, Lookup, findUpdates))

	mux.Handle("POST /hubspot/crm/v3/objects/contacts/batch/upsert", s.serve(HubSpot, Create, upsertRecord))
	mux.Handle("POST /hubspot/crm/v3/objects/contacts/batch/update", s.serve(HubSpot, Update, updateRecord))
	mux.Handle("POST /hubspot/crm/v3/objects/contacts/search", s.serve(HubSpot, Lookup, searchRecords))
	mux.Handle("GET /hubspot/crm/v3/objects/contacts/{id}", s.serve(HubSpot, Read, readRecord))

	mux.Handle("POST /slack/chat.postMessage", s.serve(Slack, Create, postMessage))
	mux.Handle("GET /slack/conversations.history", s.serve(Slack, Lookup, showHistory))

	mux.Handle("POST /n8n/webhook/{name}", s.serve(N8N, Create, startWorkflow))
	mux.Handle("POST /receiver/{name}", s.serve(Receiver, Create, receiveOnce))

	mux.Handle("POST /hooks/{name}", s.serve(Webhooks, Receive, receiveHook))

	mux.HandleFunc("POST /model/v1/chat/completions", s.complete)

	mux.HandleFunc("GET /mail", s.mailsPage)
	mux.HandleFunc("GET /mail/{id}", s.mailPage)
	mux.HandleFunc("GET /hooks", s.hooksPage)
	mux.HandleFunc("GET /hooks/{id}", s.hookPage)

	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("POST /_sandbox/faults", s.addFaults)
	mux.HandleFunc("GET /_sandbox/faults", s.listFaults)
	mux.HandleFunc("DELETE /_sandbox/faults", s.clearFaults)
	mux.HandleFunc("PUT /_sandbox/personality/{system}", s.setPersonality)
	mux.HandleFunc("PUT /_sandbox/webhooks/{system}", s.setWebhook)
	mux.HandleFunc("POST /_sandbox/webhooks/told/{reference}", s.tellAgain)
	mux.HandleFunc("GET /_sandbox/writes", s.listWrites)
	mux.HandleFunc("GET /_sandbox/requests", s.listRequests)
	mux.HandleFunc("GET /_sandbox/mail", s.listMail)
	mux.HandleFunc("GET /_sandbox/hooks", s.listHooks)
	mux.HandleFunc("GET /_sandbox/smtp", s.showSMTP)
	mux.HandleFunc("GET /_sandbox/summary", s.getSummary)
	mux.HandleFunc("POST /_sandbox/summary", s.checkReferences)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusNotFound, notFound("endpoint").view())
	})
	return mux
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}
