package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// explained is the part of a run's record that people are shown first; --json shows all of it.
type explained struct {
	Run struct {
		Key           string `json:"idempotency_key"`
		ID            string `json:"run_id"`
		State         string
		Outcome       string
		Reason        string `json:"outcome_reason"`
		Source        string
		CorrelationID string    `json:"correlation_id"`
		PayloadHash   string    `json:"payload_hash"`
		CreatedAt     time.Time `json:"created_at"`
	}
	Intents []struct {
		Revision int
		Hash     string `json:"intent_hash"`
		Action   string `json:"action_type"`
		Model    struct {
			Class    string `json:"provider_class"`
			Name     string
			Revision string
		}
		At time.Time
	}
	Corrects *struct {
		Key, By, Reason, Outcome string
		Effects                  []struct {
			Operation  string `json:"operation_id"`
			State      string
			ExternalID string `json:"external_id"`
		}
	}
	CorrectedBy []struct {
		Key, By, Reason string
		At              time.Time
	} `json:"corrected_by"`
	Decisions []struct {
		Route   string
		Version string `json:"policy_version"`
		Reasons []struct{ Code, Message string }
		At      time.Time
	}
	Approvals []struct {
		ID       string    `json:"approval_id"`
		State    string    `json:"state"`
		DecideBy time.Time `json:"decide_by"`
		Reviews  []struct {
			Decision        string
			Reviewer        string `json:"reviewer_id"`
			Issuer, Subject string
			Hash            string `json:"intent_hash"`
			Authority       struct{ Roles []string }
			Reason          string
			Channel         string
			At              time.Time `json:"decided_at"`
		}
		Glass *struct {
			By       string    `json:"broken_by_id"`
			ReviewBy time.Time `json:"review_by"`
			Verdict  string
			Reviewer string `json:"reviewer_id"`
			Reason   string
		} `json:"break_glass"`
	}
	Effects []struct {
		Operation  string `json:"operation_id"`
		Connector  string
		State      string
		Hold       string `json:"hold_reason"`
		ExternalID string `json:"external_id"`
		Attempts   []struct {
			Attempt int
			At      time.Time `json:"started_at"`
			Class   string
			Status  int    `json:"http_status"`
			Request string `json:"provider_request_id"`
			Detail  string
		}
		Lookups []struct {
			At       time.Time `json:"looked_at"`
			Verdict  string
			Evidence string
		}
	}
	ProviderEvents []struct {
		ID        string    `json:"event_id"`
		At        time.Time `json:"received_at"`
		Connector string
		Status    string
		State     string
		Detail    string
	} `json:"provider_events"`
	Readings []struct {
		Ordinal int       // of the action
		At      time.Time `json:"read_at"`
		Found   bool
		Version string
		Error   string
	}
}

// explain answers for a person: was it processed, who or what authorized it, was anything sent, what did the provider say (O1).
func explain(out io.Writer, all json.RawMessage, raw bool) error {
	if raw {
		_, err := fmt.Fprintln(out, string(all))
		return err
	}
	var e explained
	if err := json.Unmarshal(all, &e); err != nil {
		return fmt.Errorf("read the run's record: %w", err)
	}
	p := printer{out}
	p.line("run       %s   key %s   source %s   correlation %s", e.Run.ID, e.Run.Key, e.Run.Source, e.Run.CorrelationID)
	p.line("state     %s%s%s", e.Run.State, after(", ", e.Run.Outcome), after(": ", e.Run.Reason))
	p.line("received  %s   payload %s", stamp(e.Run.CreatedAt), e.Run.PayloadHash)
	for _, i := range e.Intents {
		p.line("drafted   %s   %s revision %d   intent %s%s", stamp(i.At), i.Action, i.Revision, i.Hash,
			after("   by ", i.Model.Class+after(" ", i.Model.Name)+after(" ", i.Model.Revision)))
	}
	e.printCorrections(p)
	for _, d := range e.Decisions {
		p.line("policy    %s   %s   version %s", stamp(d.At), d.Route, d.Version)
		for _, r := range d.Reasons {
			p.line("          - %s: %s", r.Code, r.Message)
		}
	}
	for _, a := range e.Approvals {
		p.line("approval  %s   %s   decide by %s", a.ID, a.State, stamp(a.DecideBy))
		for _, v := range a.Reviews {
			p.line("          %s at %s by %s (%s#%s), as %s, over %s%s", v.Decision, stamp(v.At), v.Reviewer, v.Issuer, v.Subject,
				strings.Join(v.Authority.Roles, ", "), v.Channel, after(": ", v.Reason))
			p.line("          on intent %s", v.Hash)
		}
		if g := a.Glass; g != nil {
			said := "nobody else has looked at it yet"
			if g.Verdict != "" {
				said = g.Verdict + ", says " + g.Reviewer + after(": ", g.Reason)
			}
			p.line("          approved alone (break-glass) by %s, to be looked at by %s: %s", g.By, stamp(g.ReviewBy), said)
		}
	}
	if len(e.Effects) == 0 {
		p.line("sent      nothing")
	}
	for _, f := range e.Effects {
		p.line("effect    %s   %s   %s%s%s", f.Operation, f.Connector, f.State, after(" ", f.Hold), after("   provider's id ", f.ExternalID))
		for _, a := range f.Attempts {
			class := a.Class
			if class == "" {
				class = "no outcome recorded"
			}
			p.line("          attempt %d at %s: %s%s%s%s", a.Attempt, stamp(a.At), class, status(a.Status), after("   request ", a.Request), after("   ", a.Detail))
		}
		for _, l := range f.Lookups {
			p.line("          lookup at %s: %s   %s", stamp(l.At), l.Verdict, l.Evidence)
		}
	}
	for _, h := range e.ProviderEvents {
		p.line("webhook   %s   %s   event %s: %s   %s%s", stamp(h.At), h.Connector, h.ID, h.Status, h.State, after(": ", h.Detail))
	}
	for _, g := range e.Readings {
		held := "not there"
		switch {
		case g.At.IsZero():
			held = "not read yet"
		case g.Found:
			held = "found"
		}
		action := ""
		if g.Ordinal > 1 {
			action = fmt.Sprintf("of action %d ", g.Ordinal)
		}
		p.line("target    %s   %s%s%s%s", stamp(g.At), action, held, after("   version ", g.Version), after("   last try: ", g.Error))
	}
	return p.timeline(all)
}

// printCorrections tells what the run corrects, and what corrected it (K10).
func (e *explained) printCorrections(p printer) {
	if c := e.Corrects; c != nil {
		p.line("corrects  key %s (%s)   by %s: %s", c.Key, c.Outcome, c.By, c.Reason)
		for _, effect := range c.Effects {
			p.line("          - %s %s%s", effect.Operation, effect.State, after("   provider id ", effect.ExternalID))
		}
	}
	for _, c := range e.CorrectedBy {
		p.line("corrected %s   under key %s   by %s: %s", stamp(c.At), c.Key, c.By, c.Reason)
	}
}

// timeline tells what happened in its order, as the page of the run does.
func (p printer) timeline(all json.RawMessage) error {
	steps, err := ledger.Timeline(all)
	for _, s := range steps {
		what := strings.TrimPrefix(s.What, "step_")
		p.line("history   %s   %s   %s%s%s", stamp(s.At), s.Actor, what, after("   ", s.From), after(" -> ", s.To))
	}
	return err
}

type printer struct{ out io.Writer }

func (p printer) line(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

func after(separator, s string) string {
	if s == "" {
		return ""
	}
	return separator + s
}

func status(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf(" (HTTP %d)", code)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
