package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// signalTimeout bounds a callback that nobody answers, which is usual: the process that would have is dead.
const signalTimeout = 5 * time.Second

// signal posts what was accepted to each planned URL and waits for the replies, before the caller gets its answer. A
// crash test kills the caller from there. What becomes of the callback changes nothing for what was accepted.
func (s *Server) signal(faults []*Fault, reference string, accepted any) {
	for _, fault := range faults {
		if err := s.post(fault, accepted); err != nil {
			s.cfg.Logger.Warn("a signal was not answered", "url", fault.URL, "reference", reference, "error", err)
		}
	}
}

func (s *Server) post(fault *Fault, accepted any) error {
	body, err := json.Marshal(accepted)
	if err != nil {
		return err
	}
	timeout := signalTimeout
	if fault.Duration > 0 {
		timeout = time.Duration(fault.Duration)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fault.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.signals.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
