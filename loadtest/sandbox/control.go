package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// controlBody bounds a control request: a list of a million references fits.
const controlBody = 128 << 20

// longestWait bounds a long poll.
const longestWait = time.Minute

// Filter selects writes. Empty fields select all.
type Filter struct{ Reference, System string }

// Check is what the ledger holds of a list of expected references.
type Check struct {
	References        int            `json:"references"` // asked for
	Missing           int            `json:"missing"`    // of these, without any accepted write
	MissingReferences []string       `json:"missing_references"`
	Duplicates        map[string]int `json:"duplicates"` // reference to its accepted writes, where more than one
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := errors.Join(s.ledger.read(func() {}), s.inbox.healthy()); err != nil {
		respond(w, http.StatusServiceUnavailable, unavailable(err).view())
		return
	}
	respond(w, http.StatusOK, map[string]string{"status": "ok"})
}

// addFaults takes one rule or an array of rules, all or none.
func (s *Server) addFaults(w http.ResponseWriter, r *http.Request) {
	var added []Rule
	if refused := decodeRules(w, r, &added); refused != nil {
		respond(w, refused.status, refused.view())
		return
	}
	ids := s.rules.add(added)
	for _, rule := range added {
		if rule.Fault.Kind == RefuseConnection {
			s.refuseConnections(time.Duration(rule.Fault.Duration))
		}
	}
	respond(w, http.StatusCreated, map[string][]string{"ids": ids})
}

func decodeRules(w http.ResponseWriter, r *http.Request, rules *[]Rule) *problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, controlBody))
	if err != nil {
		return badRequest("read the rules: %v", err)
	}
	if body = bytes.TrimSpace(body); !bytes.HasPrefix(body, []byte("[")) {
		body = bytes.Join([][]byte{[]byte("["), body, []byte("]")}, nil)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a mistyped match would fire on everything
	if err := decoder.Decode(rules); err != nil {
		return badRequest("rules: %v", err)
	}
	var errs []error
	for i := range *rules {
		if err := (*rules)[i].validate(); err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return invalid("invalid_rule", "%v", err)
	}
	return nil
}

// refuseConnections also ends idle keep-alive connections, over which a caller would otherwise still get through.
func (s *Server) refuseConnections(d time.Duration) {
	s.http.SetKeepAlivesEnabled(false)
	s.gate.refuse(d, func() { s.http.SetKeepAlivesEnabled(true) })
}

// listFaults answers the rules with their history, at once or when ?id= has fired ?fired= times, within ?wait=.
func (s *Server) listFaults(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	id, fired := query.Get("id"), number(query.Get("fired"))
	s.wait(r, func() bool {
		for _, state := range s.rules.list() {
			if state.ID == id {
				return state.Fired >= fired
			}
		}
		return true // nothing to wait for
	})
	respond(w, http.StatusOK, s.rules.list())
}

func (s *Server) clearFaults(w http.ResponseWriter, _ *http.Request) {
	s.rules.clear()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) setPersonality(w http.ResponseWriter, r *http.Request) {
	changeSystem(s, w, r, "personality", s.personalities, func(p *Personality, system string) error { return p.validate(system) })
}

// changeSystem stores a setting of the system in the path, where it is valid.
func changeSystem[T any](s *Server, w http.ResponseWriter, r *http.Request, what string, all map[string]T, validate func(*T, string) error) {
	system := r.PathValue("system")
	if !slices.Contains(writable, system) {
		respond(w, http.StatusNotFound, notFound("system").view())
		return
	}
	var setting T
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, controlBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&setting)
	if err == nil {
		err = validate(&setting, system)
	}
	if err != nil {
		respond(w, http.StatusBadRequest, badRequest("%s: %v", what, err).view())
		return
	}
	s.mu.Lock()
	all[system] = setting
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// listWrites answers one write a line, at once or when there are ?at_least= of them, within ?wait=.
func (s *Server) listWrites(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	filter := Filter{Reference: query.Get("reference"), System: query.Get("system")}
	atLeast := number(query.Get("at_least"))
	var found []*Write
	var err error
	s.wait(r, func() bool {
		found, err = s.ledger.find(filter)
		return err != nil || len(found) >= atLeast
	})
	if err != nil {
		respond(w, http.StatusInternalServerError, unavailable(err).view())
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	encoder := json.NewEncoder(w)
	for _, write := range found {
		if encoder.Encode(write) != nil {
			return // the caller has gone
		}
	}
}

func (s *Server) getSummary(w http.ResponseWriter, _ *http.Request) {
	summary, err := s.ledger.summarize()
	if err != nil {
		respond(w, http.StatusInternalServerError, unavailable(err).view())
		return
	}
	respond(w, http.StatusOK, summary)
}

// checkReferences takes a JSON array of references, or an object with such an array as "references".
func (s *Server) checkReferences(w http.ResponseWriter, r *http.Request) {
	var in struct {
		References []string `json:"references"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, controlBody))
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = json.Unmarshal(body, &in.References)
	} else if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		respond(w, http.StatusBadRequest, badRequest("references: %v", err).view())
		return
	}
	check, err := s.ledger.check(in.References)
	if err != nil {
		respond(w, http.StatusInternalServerError, unavailable(err).view())
		return
	}
	respond(w, http.StatusOK, check)
}

// wait calls done until it is true, for at most ?wait=, and at least once.
func (s *Server) wait(r *http.Request, done func() bool) {
	d, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || d <= 0 {
		done()
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(d, longestWait))
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.ledger.news.await(ctx, done)
}

// number reads a count; what is no number is 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
