//go:build holdpoint_crash

package fault

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled reports whether this build can crash on demand.
const Enabled = true

// exitHarnessFault is the exit code for a crash that could not be carried out as asked; the harness expects a signal
// or a clean end, so it cannot mistake this for either.
const exitHarnessFault = 97

// controlPatience bounds the call to the harness; it only has to arm a proxy.
const controlPatience = 10 * time.Second

// plan is what this process was told to do.
type plan struct {
	spec    *Spec // nil: never crash
	control string

	mu          sync.Mutex
	occurrences int
	reached     map[string]bool
	file        *os.File // nil: record nothing
}

var planned = sync.OnceValue(readPlan)

func readPlan() *plan {
	p := &plan{control: os.Getenv("HOLDPOINT_CRASH_CONTROL"), reached: map[string]bool{}}
	if text := os.Getenv("HOLDPOINT_CRASH"); text != "" {
		spec, err := ParseSpec(text)
		if err != nil {
			harnessFault("HOLDPOINT_CRASH: %v", err)
		}
		if spec.Side == Mid && p.control == "" {
			harnessFault("HOLDPOINT_CRASH=%s needs HOLDPOINT_CRASH_CONTROL", text)
		}
		p.spec = &spec
	}
	if path := os.Getenv("HOLDPOINT_CRASH_REACHED"); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			harnessFault("HOLDPOINT_CRASH_REACHED: %v", err)
		}
		p.file = file
	}
	return p
}

// Before marks that the boundary is about to be crossed by a batch that touches the runs of keys.
func (s *Site) Before(ctx context.Context, keys ...string) {
	p := planned()
	p.record(s, Before)
	switch {
	case p.due(s, Before, keys):
		die(s, Before)
	case p.due(s, Mid, keys):
		p.cut(ctx)
	}
}

// After marks that the boundary has been crossed by a batch that touches the runs of keys.
func (s *Site) After(ctx context.Context, keys ...string) {
	s.AfterFlush(ctx, func(context.Context) error { return nil }, keys...)
}

// AfterFlush is After for a boundary whose other side may still lie in a buffer of this process, such as an ack: a
// crash there first calls flush.
func (s *Site) AfterFlush(ctx context.Context, flush func(context.Context) error, keys ...string) {
	p := planned()
	p.record(s, After)
	if !p.due(s, After, keys) {
		return
	}
	if err := flush(context.WithoutCancel(ctx)); err != nil {
		harnessFault("flush before the crash after %s: %v", s, err)
	}
	die(s, After)
}

// record appends the mark when it is reached for the first time. One write of one line is atomic on a file opened to
// append, so several processes may share the file.
func (p *plan) record(s *Site, side Side) {
	if p.file == nil {
		return
	}
	mark := s.String() + "@" + string(side)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached[mark] {
		return
	}
	p.reached[mark] = true
	if _, err := p.file.WriteString(mark + "\n"); err != nil {
		harnessFault("record %s: %v", mark, err)
	}
}

// due reports, once, that the chosen place is reached for the chosen time.
func (p *plan) due(s *Site, side Side, keys []string) bool {
	if p.spec == nil || p.spec.Service != s.Service || p.spec.Site != s.Name || p.spec.Side != side {
		return false
	}
	if p.spec.Key != "" && !slices.Contains(keys, p.spec.Key) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.occurrences++
	return p.occurrences == p.spec.Occurrence
}

// cut asks the harness to cut the connection under what follows.
func (p *plan) cut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.control, strings.NewReader(p.spec.String()))
	if err != nil {
		harnessFault("HOLDPOINT_CRASH_CONTROL: %v", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		harnessFault("HOLDPOINT_CRASH_CONTROL: %v", err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		harnessFault("HOLDPOINT_CRASH_CONTROL answered %s", response.Status)
	}
}

// die is a power cut: no deferred call, no buffer, no goodbye to any connection.
func die(s *Site, side Side) {
	fmt.Fprintf(os.Stderr, "fault: SIGKILL at %s@%s\n", s, side)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		harnessFault("SIGKILL: %v", err)
	}
	select {} // The signal is on its way; nothing more may happen here.
}

func harnessFault(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "fault: "+format+"\n", args...)
	os.Exit(exitHarnessFault)
}
