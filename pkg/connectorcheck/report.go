package connectorcheck

import (
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// IndexLag is the finding about the declared index lag, which is no capability of its own.
const IndexLag = "index_lag"

// Finding is what was found of one capability.
type Finding struct {
	Capability string `json:"capability"` // or IndexLag
	Proved     bool   `json:"proved"`
	Evidence   string `json:"evidence"` // one line, with nothing of a body but ids
}

// Report is what the check of one operation found: a finding for all that is declared, and none for what is not.
type Report struct {
	Connector   string        `json:"connector"`
	Operation   string        `json:"operation"`
	Digest      string        `json:"digest"` // of the declaration; see config.Standing
	Target      string        `json:"target"` // scheme and host that were called
	CheckedAt   time.Time     `json:"checked_at"`
	OperationID string        `json:"operation_id"` // of the one write that was meant to succeed
	ExternalID  string        `json:"external_id"`  // the provider's id of it
	Findings    []Finding     `json:"findings"`
	Lag         time.Duration `json:"-"` // the longest after the write that the lookup did not find it
}

// Passed reports whether all that is declared was proved.
func (r *Report) Passed() bool {
	for _, f := range r.Findings {
		if !f.Proved {
			return false
		}
	}
	return true
}

// Proof is the report as checks.yaml keeps it.
func (r *Report) Proof(tool string) *config.Proof {
	p := &config.Proof{CheckedAt: r.CheckedAt, Target: r.Target, Tool: tool, IndexLag: r.Lag}
	for _, f := range r.Findings {
		if f.Proved && f.Capability != IndexLag {
			p.Capabilities = append(p.Capabilities, f.Capability)
		}
	}
	return p
}

// found adds a finding.
func (r *Report) found(capability string, proved bool, evidence string, args ...any) {
	r.Findings = append(r.Findings, Finding{capability, proved, fmt.Sprintf(evidence, args...)})
}
