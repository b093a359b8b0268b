// Package intent turns a proposal into the canonical, immutable snapshot that a rule or a person authorises, and reads
// it back. The snapshot's hash covers everything that decides what would happen: tenant, run key, revision, the
// action's type, connector, credential reference, target, whole change and expected version, the evidence, and the
// workflow and policy version (A11). Policy, approval and dispatch all read this one tree, so no two of them can see
// different values (HASH-04).
package intent

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/policy"
)

// format names the layout of a snapshot; it is part of the hashed bytes.
const format = "holdpoint-intent-1"

// Origin is what a snapshot says of the run besides the proposal.
type Origin struct {
	TenantID      string
	Key           string
	Source        string
	Revision      int
	PolicyVersion string
	Action        *config.Action // nil where the type is not registered; policy rejects it then (P1)
	Connector     *config.Connector
}

// Build makes the snapshot of a proposal that Check has found nothing wrong with.
func Build(proposal canonical.Value, origin Origin) (*ledger.Intent, error) {
	take := func(name string) canonical.Value {
		v, _ := proposal.Get(name)
		return v
	}
	var action config.Action
	var connector config.Connector
	if origin.Action != nil {
		action = *origin.Action
	}
	if origin.Connector != nil {
		connector = *origin.Connector
	}
	change, err := canonical.NewObject(
		canonical.Member{Name: "ordinal", Value: canonical.NewInt(1)},
		canonical.Member{Name: "action_type", Value: take("action_type")},
		canonical.Member{Name: "connector", Value: text(action.Connector)},
		canonical.Member{Name: "operation", Value: text(action.Operation)},
		canonical.Member{Name: "destination", Value: text(connector.BaseURL)},
		canonical.Member{Name: "credential", Value: text(connector.Credential())},
		canonical.Member{Name: "target", Value: take("target")},
		canonical.Member{Name: "proposed_change", Value: take("proposed_change")},
		canonical.Member{Name: "current_version", Value: take("current_version")},
	)
	if err != nil {
		return nil, fmt.Errorf("build intent: %w", err)
	}
	whole, err := canonical.NewObject(
		canonical.Member{Name: "format", Value: text(format)},
		canonical.Member{Name: "tenant_id", Value: text(origin.TenantID)},
		canonical.Member{Name: "run_key", Value: text(origin.Key)},
		canonical.Member{Name: "source", Value: text(origin.Source)},
		canonical.Member{Name: "revision", Value: canonical.NewInt(int64(origin.Revision))},
		canonical.Member{Name: "actions", Value: canonical.NewArray(change)},
		canonical.Member{Name: "evidence", Value: take("evidence")},
		canonical.Member{Name: "assumptions", Value: take("assumptions")},
		canonical.Member{Name: "uncertainty", Value: take("uncertainty")},
		canonical.Member{Name: "model", Value: take("model")},
		canonical.Member{Name: "workflow_version", Value: take("workflow_version")},
		canonical.Member{Name: "policy_version", Value: text(origin.PolicyVersion)},
	)
	if err != nil {
		return nil, fmt.Errorf("build intent: %w", err)
	}
	bytes := whole.AppendCanonical(make([]byte, 0, usualSize))
	near, err := nearHash(origin.Action, take("target"), take("proposed_change"))
	if err != nil {
		return nil, err
	}
	built := &ledger.Intent{Revision: origin.Revision, Canonical: bytes, Hash: sha256.Sum256(bytes),
		ActionType: take("action_type").Text(), NearHash: near}
	if model := take("model"); model.Kind() == canonical.Object {
		built.Model = model.AppendCanonical(nil)
	}
	return built, nil
}

// usualSize is what most snapshots fit into, in bytes.
const usualSize = 1 << 10

func text(s string) canonical.Value { return canonical.MustString(s) }

// Snapshot is an intent as it is read back. Change and Evidence are parts of the one tree that was hashed.
type Snapshot struct {
	TenantID        string
	RunKey          string
	Revision        int
	ActionType      string
	Connector       string
	Operation       string
	Destination     string // base URL of the connector when the intent was submitted
	Credential      string // env:NAME or file:PATH of the connector's credential, "" where it has none
	TargetSystem    string
	TargetRecord    string
	Target          canonical.Value
	Change          canonical.Value
	CurrentVersion  string // "" where the proposal names none
	Evidence        []Evidence
	Uncertainty     string
	WorkflowVersion string
	PolicyVersion   string // that was active when the intent was submitted
	Tree            canonical.Value
}

// Evidence is one thing that the proposer read.
type Evidence struct {
	Source     string
	Version    string
	URL        string
	ObservedAt time.Time
}

// Read parses a stored snapshot and checks that the bytes are the ones that were hashed.
func Read(stored []byte, hash canonical.Digest) (*Snapshot, error) {
	if sha256.Sum256(stored) != hash {
		return nil, fmt.Errorf("read intent: the stored bytes do not have the hash %s that was authorised", hash)
	}
	tree, err := canonical.Parse(stored)
	if err != nil {
		return nil, fmt.Errorf("read intent: %w", err)
	}
	s := &Snapshot{Tree: tree, TenantID: at(tree, "/tenant_id"), RunKey: at(tree, "/run_key"),
		ActionType: at(tree, "/actions/0/action_type"),
		Connector:  at(tree, "/actions/0/connector"), Operation: at(tree, "/actions/0/operation"),
		Destination: at(tree, "/actions/0/destination"), Credential: at(tree, "/actions/0/credential"),
		TargetSystem: at(tree, "/actions/0/target/system"), TargetRecord: at(tree, "/actions/0/target/record_id"),
		CurrentVersion: at(tree, "/actions/0/current_version"), Uncertainty: at(tree, "/uncertainty"),
		WorkflowVersion: at(tree, "/workflow_version"), PolicyVersion: at(tree, "/policy_version")}
	if at(tree, "/format") != format {
		return nil, fmt.Errorf("read intent: format %q is not one that this release reads (%s)", at(tree, "/format"),
			format)
	}
	revision, _ := tree.Pointer("/revision")
	number, _ := revision.Int64()
	s.Revision = int(number)
	s.Target, _ = tree.Pointer("/actions/0/target")
	s.Change, _ = tree.Pointer("/actions/0/proposed_change")
	evidence, _ := tree.Get("evidence")
	if evidence.Kind() == canonical.Array {
		for item := range evidence.Items() {
			observed, _ := time.Parse(time.RFC3339, at(item, "/observed_at"))
			s.Evidence = append(s.Evidence, Evidence{at(item, "/source"), at(item, "/version"), at(item, "/url"),
				observed})
		}
	}
	return s, nil
}

// at is the text at a pointer, or "" where there is none.
func at(v canonical.Value, pointer string) string {
	found, ok := v.Pointer(pointer)
	if !ok || found.Kind() != canonical.String {
		return ""
	}
	return found.Text()
}

// Input is what policy decides by, at a moment of the database's clock.
func (s *Snapshot) Input(now time.Time) policy.Input {
	in := policy.Input{ActionType: s.ActionType, Target: policy.Target{System: s.TargetSystem,
		RecordID: s.TargetRecord},
		ProposedChange: s.Change, CurrentVersion: s.CurrentVersion, WorkflowVersion: s.WorkflowVersion,
		Uncertainty: s.Uncertainty, Now: now}
	for _, e := range s.Evidence {
		in.Evidence = append(in.Evidence, policy.Evidence{Source: e.Source, Version: e.Version, URL: e.URL,
			ObservedAt: e.ObservedAt})
	}
	return in
}
