package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// ready is what --ready-file holds, and what the operator verbs find a running `up` by.
type ready struct {
	IntakeURL   string        `json:"intake_url"`
	ApprovalURL string        `json:"approval_url"`
	NATSURL     string        `json:"nats_url"`
	DatabaseURL string        `json:"database_url"`
	SandboxURL  string        `json:"sandbox_url"`
	OpsURL      string        `json:"ops_url"`
	OIDCIssuer  string        `json:"oidc_issuer"`
	WebhookURL  string        `json:"webhook_url"`
	People      []personReady `json:"people"`
	APIKey      string        `json:"api_key"`
	PID         int           `json:"pid"`
}

// personReady is one of the demo people, for who wants to sign in.
type personReady struct {
	Login    string   `json:"login"`
	Password string   `json:"password"`
	Name     string   `json:"name"`
	Groups   []string `json:"groups"`
}

func demoPeople() []personReady {
	people := []personReady{}
	for _, p := range demoidp.DemoPeople() {
		people = append(people, personReady{p.Subject, p.Password, p.Name, p.Groups})
	}
	return people
}

// announcer says where everything is, once it is up.
type announcer struct {
	flags     upFlags
	at        upAddresses
	listening map[string]string // service to host:port
	signIn    signIn
	health    *service.Health
}

// readyFileIn is where a running `up` can be found by the verbs.
func readyFileIn(dir string) string { return filepath.Join(dir, "ready.json") }

// Run announces, waits for the end, and takes the announcement back. Whoever listens did so before any part ran.
func (a announcer) Run(ctx context.Context) error {
	r := ready{IntakeURL: "http://" + a.listening[ledger.Intake], NATSURL: a.at.tenantNATS, DatabaseURL: a.at.database,
		SandboxURL: a.at.sandbox,
		OpsURL:     "http://" + a.health.Addr(), ApprovalURL: a.signIn.url, OIDCIssuer: a.signIn.issuer, People: a.signIn.people,
		WebhookURL: "http://" + a.listening[ledger.Reconciler], APIKey: roster.DemoKey, PID: os.Getpid()}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []string{readyFileIn(a.at.data), a.flags.readyFile} {
		if file == "" {
			continue
		}
		if err := writeWhole(file, append(text, '\n')); err != nil {
			return fmt.Errorf("write the ready file: %w", err)
		}
		defer os.Remove(file)
	}
	a.print(r)
	<-ctx.Done()
	fmt.Println("\nStopping: calls in flight are finished first.")
	return nil
}

// writeWhole makes a file appear with all its content or not at all: somebody may be waiting for it.
func writeWhole(file string, content []byte) error {
	partial := file + ".partial"
	if err := os.WriteFile(partial, content, 0o600); err != nil { // it holds the database's password
		return err
	}
	return os.Rename(partial, file)
}

func (a announcer) print(r ready) {
	fmt.Printf(`Holdpoint is up. Ctrl-C stops it; %s.

  HTTP API   %s
  approvals  %s   (sign in as nora, password demo)
  NATS       %s
  Postgres   %s
  sandbox    %s   (the world that effects reach: /mail is its mailbox, /_sandbox/writes lists what was written)
  webhooks   %s   (where the sandbox tells what became of refunds)
  health     %s/readyz, /metrics

Try it: an event whose proposal the example rules let through.

  curl -sS %s/v1/sources/crm-enrichment/events -H 'Authorization: Bearer %s' \
    -H 'Content-Type: application/json' -H 'Idempotency-Key: first' -d '%s'

The same over NATS, under another key, with the nats command-line tool:

  nats --server %s pub --jetstream holdpoint.ingress.demo.crm-enrichment -H Idempotency-Key:second '%s'

Then ask what became of it:

  %s explain first --tenant demo%s
`, a.kept(), r.IntakeURL, r.ApprovalURL, r.NATSURL, r.DatabaseURL, r.SandboxURL, r.WebhookURL, r.OpsURL,
		r.IntakeURL, r.APIKey, demoEvent("c-1001"), r.NATSURL, demoEvent("c-1002"), callAgain(), a.dataFlag())
}

// dataFlag is what the verbs need to find this `up`.
func (a announcer) dataFlag() string {
	if a.at.data == defaultDataDir() {
		return ""
	}
	return " --data " + quoted(a.at.data)
}

func (a announcer) kept() string {
	if a.flags.ephemeral {
		return "nothing is kept"
	}
	return "state is kept in " + a.at.data
}

// demoEvent proposes a small change of one contact, from evidence read now.
func demoEvent(contact string) string {
	return fmt.Sprintf(`{"event_id":"demo-%[1]s","proposal":{"action_type":"crm.contact.update","target":{"system":"crm","record_id":"%[1]s"},`+
		`"proposed_change":{"fields":{"city":"Lisbon"}},"current_version":"1","evidence":[{"source":"crm","version":"1","observed_at":"%[2]s"}],`+
		`"workflow_version":"crm-enrichment@3"}}`, contact, time.Now().UTC().Format(time.RFC3339))
}
