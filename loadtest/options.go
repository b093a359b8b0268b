package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"
)

// Doors through which events come in.
const (
	doorHTTP = "http"
	doorNATS = "nats"
	doorBoth = "both"
)

// flatOutPerSecond bounds what a run without key count or rate can send, so that its tables can be made in advance. It
// is several times what two cores can take in.
const flatOutPerSecond = 50_000

// options are the command line.
type options struct {
	readyFile, flow, door, jsonFile string
	keys, duplicates, concurrency   int
	deciders                        int
	rate, rejectShare               float64
	duration, settle                time.Duration
	skipPostgresOnly                bool
}

// validate completes keys and returns every mistake at once.
func (o *options) validate() error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	demand(o.readyFile != "", "--ready-file is missing: `holdpoint up` writes it")
	demand(slices.Contains([]string{doorHTTP, doorNATS, doorBoth}, o.door), "--door %q is not http, nats or both", o.door)
	demand(o.keys >= 0 && o.duplicates >= 1 && o.concurrency >= 1, "--keys, --duplicates or --concurrency is too small")
	demand(o.rate >= 0 && !math.IsInf(o.rate, 0) && !math.IsNaN(o.rate), "--rate %g is not a rate", o.rate)
	demand(o.duration >= 0 && o.settle > 0, "--duration or --settle is too short")
	demand(o.keys <= maxKeys, "--keys is over %d, the most that a key's eight digits can tell apart", maxKeys)
	demand(o.deciders >= 1, "--deciders %d decide nothing", o.deciders)
	demand(o.rejectShare >= 0 && o.rejectShare <= 1, "--reject-share %g is not between 0 and 1", o.rejectShare)
	f, known := flows[o.flow]
	demand(known, "--flow %q is not one of %v", o.flow, slices.Sorted(maps.Keys(flows)))
	demand(!known || f.reviewed() || o.rejectShare == 0,
		"--reject-share is for --flow review: nobody decides --flow %s", o.flow)
	if len(errs) == 0 {
		o.keys = o.keyCount()
	}
	return errors.Join(errs...)
}

func (o *options) keyCount() int {
	perSecond := float64(flatOutPerSecond)
	if o.rate > 0 {
		perSecond = o.rate
	}
	switch {
	case o.keys > 0:
		return o.keys
	case o.duration == 0:
		return 1000
	default:
		return min(maxKeys, max(1, int(math.Ceil(perSecond*o.duration.Seconds()/float64(o.duplicates)))))
	}
}

// ready is what `holdpoint up` says about the running system.
type ready struct {
	IntakeURL   string   `json:"intake_url"`
	ApprovalURL string   `json:"approval_url"`
	NATSURL     string   `json:"nats_url"`
	DatabaseURL string   `json:"database_url"`
	SandboxURL  string   `json:"sandbox_url"`
	OIDCIssuer  string   `json:"oidc_issuer"`
	People      []person `json:"people"`
	APIKey      string   `json:"api_key"`
	Tenant      string   `json:"tenant"`
}

func readReady(path string) (ready, error) {
	r := ready{Tenant: "demo"}
	content, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read the ready file, is `holdpoint up` running? %w", err)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, fmt.Errorf("ready file %s: %w", path, err)
	}
	for name, value := range map[string]string{
		"intake_url": r.IntakeURL, "nats_url": r.NATSURL, "sandbox_url": r.SandboxURL, "api_key": r.APIKey,
	} {
		if value == "" {
			err = errors.Join(err, fmt.Errorf("ready file %s has no %s", path, name))
		}
	}
	return r, err
}
