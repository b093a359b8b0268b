// Package intent turns a proposal into the canonical, immutable snapshot that a rule or a person authorises, and reads
// it back. The snapshot's hash covers everything that decides what would happen: tenant, run key, revision, the
// action's type, connector, credential reference, target, whole change and expected version, the evidence, and the
// workflow and policy version (A11). Policy, approval and dispatch all read this one tree, so no two of them can see
// different values (HASH-04).
package intent

import (
	"crypto/sha256"
	"errors"
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
	// Registered is the action of a type with its connector, nil where the type is not registered; policy rejects it then (P1).
	Registered func(actionType string) (*config.Action, *config.Connector)
}

// Build makes the snapshot of a proposal that Check has found nothing wrong with.
func Build(proposal canonical.Value, origin Origin) (*ledger.Intent, error) {
	built := &ledger.Intent{Revision: origin.Revision}
	var actions []canonical.Value
	var kinds []string
	stage := 0
	for i, pointer := range ActionsAt(proposal) {
		proposed, _ := proposal.Pointer(pointer)
		kind, _ := proposed.Get("action_type")
		action, connector := origin.Registered(kind.Text())
		members := changeOf(i+1, proposed, action, connector)
		if pointer != "" {
			stage = stageOf(proposed, stage+1)
			members = append(members, canonical.Member{Name: "stage", Value: canonical.NewInt(int64(stage))})
		}
		change, err := canonical.NewObject(members...)
		if err != nil {
			return nil, fmt.Errorf("build intent: %w", err)
		}
		if i == 0 {
			if built.NearHash, err = nearHash(action, proposed); err != nil {
				return nil, err
			}
		}
		actions, kinds = append(actions, change), append(kinds, kind.Text())
	}
	whole, err := wholeOf(proposal, origin, actions)
	if err != nil {
		return nil, fmt.Errorf("build intent: %w", err)
	}
	built.Canonical = whole.AppendCanonical(make([]byte, 0, usualSize))
	built.Hash, built.ActionType = sha256.Sum256(built.Canonical), config.KindOf(kinds)
	if model, _ := proposal.Get("model"); model.Kind() == canonical.Object {
		built.Model = model.AppendCanonical(nil)
	}
	return built, nil
}

// stageOf is the stage that an action names, or else the next.
func stageOf(proposed canonical.Value, next int) int {
	named, _ := proposed.Get("stage")
	if stage, ok := named.Int64(); ok {
		return int(stage)
	}
	return next
}

// changeOf is all of one action. The one action of a proposal has no stage.
func changeOf(ordinal int, proposed canonical.Value, registered *config.Action, at *config.Connector) []canonical.Member {
	var action config.Action
	var connector config.Connector
	if registered != nil {
		action = *registered
	}
	if at != nil {
		connector = *at
	}
	return []canonical.Member{
		{Name: "ordinal", Value: canonical.NewInt(int64(ordinal))},
		{Name: "action_type", Value: member(proposed, "action_type")},
		{Name: "connector", Value: text(action.Connector)},
		{Name: "operation", Value: text(action.Operation)},
		{Name: "destination", Value: text(connector.BaseURL)},
		{Name: "credential", Value: text(connector.Credential())},
		{Name: "target", Value: member(proposed, "target")},
		{Name: "proposed_change", Value: member(proposed, "proposed_change")},
		{Name: "current_version", Value: member(proposed, "current_version")},
	}
}

func wholeOf(proposal canonical.Value, origin Origin, actions []canonical.Value) (canonical.Value, error) {
	return canonical.NewObject(
		canonical.Member{Name: "format", Value: text(format)},
		canonical.Member{Name: "tenant_id", Value: text(origin.TenantID)},
		canonical.Member{Name: "run_key", Value: text(origin.Key)},
		canonical.Member{Name: "source", Value: text(origin.Source)},
		canonical.Member{Name: "revision", Value: canonical.NewInt(int64(origin.Revision))},
		canonical.Member{Name: "actions", Value: canonical.NewArray(actions...)},
		canonical.Member{Name: "evidence", Value: member(proposal, "evidence")},
		canonical.Member{Name: "assumptions", Value: member(proposal, "assumptions")},
		canonical.Member{Name: "uncertainty", Value: member(proposal, "uncertainty")},
		canonical.Member{Name: "model", Value: member(proposal, "model")},
		canonical.Member{Name: "workflow_version", Value: member(proposal, "workflow_version")},
		canonical.Member{Name: "policy_version", Value: text(origin.PolicyVersion)},
	)
}

// member is null where there is none.
func member(of canonical.Value, name string) canonical.Value {
	v, _ := of.Get(name)
	return v
}

// usualSize is what most snapshots fit into, in bytes.
const usualSize = 1 << 10

func text(s string) canonical.Value { return canonical.MustString(s) }

// Snapshot is one action of an intent as it is read back, with what all of its actions share. Action, Change and Evidence are parts of
// the one tree that was hashed.
type Snapshot struct {
	Ordinal         int // of the action, from 1
	Stage           int // in which it goes out, from 1 (D10)
	Action          canonical.Value
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

// Read parses a stored snapshot, checks that the bytes are the ones that were hashed, and returns its first action.
func Read(stored []byte, hash canonical.Digest) (*Snapshot, error) {
	return ReadAction(stored, hash, 1)
}

// ReadAction is Read for the action of an ordinal.
func ReadAction(stored []byte, hash canonical.Digest, ordinal int) (*Snapshot, error) {
	actions, err := ReadActions(stored, hash)
	if err != nil {
		return nil, err
	}
	if ordinal < 1 || ordinal > len(actions) {
		return nil, fmt.Errorf("read intent: it has %d actions and none of ordinal %d", len(actions), ordinal)
	}
	return actions[ordinal-1], nil
}

// ReadActions is Read for all actions of the intent, of which there is at least one, in their order.
func ReadActions(stored []byte, hash canonical.Digest) ([]*Snapshot, error) {
	if sha256.Sum256(stored) != hash {
		return nil, fmt.Errorf("read intent: the stored bytes do not have the hash %s that was authorised", hash)
	}
	tree, err := canonical.Parse(stored)
	if err != nil {
		return nil, fmt.Errorf("read intent: %w", err)
	}
	if at(tree, "/format") != format {
		return nil, fmt.Errorf("read intent: format %q is not one that this release reads (%s)", at(tree, "/format"),
			format)
	}
	shared := Snapshot{Tree: tree, TenantID: at(tree, "/tenant_id"), RunKey: at(tree, "/run_key"), Uncertainty: at(tree, "/uncertainty"),
		WorkflowVersion: at(tree, "/workflow_version"), PolicyVersion: at(tree, "/policy_version"), Evidence: evidenceOf(tree)}
	revision, _ := tree.Pointer("/revision")
	number, _ := revision.Int64()
	shared.Revision = int(number)
	actions, _ := tree.Get("actions")
	if actions.Kind() != canonical.Array || actions.Len() == 0 {
		return nil, errors.New("read intent: it has no actions")
	}
	all := make([]*Snapshot, 0, actions.Len())
	for action := range actions.Items() {
		one := shared
		one.read(action, len(all)+1)
		all = append(all, &one)
	}
	return all, nil
}

func (s *Snapshot) read(action canonical.Value, ordinal int) {
	s.Action, s.Ordinal, s.Stage = action, ordinal, stageOf(action, 1)
	s.ActionType, s.Connector, s.Operation = at(action, "/action_type"), at(action, "/connector"), at(action, "/operation")
	s.Destination, s.Credential = at(action, "/destination"), at(action, "/credential")
	s.TargetSystem, s.TargetRecord = at(action, "/target/system"), at(action, "/target/record_id")
	s.CurrentVersion = at(action, "/current_version")
	s.Target, s.Change = member(action, "target"), member(action, "proposed_change")
}

func evidenceOf(tree canonical.Value) (all []Evidence) {
	evidence, _ := tree.Get("evidence")
	if evidence.Kind() != canonical.Array {
		return nil
	}
	for item := range evidence.Items() {
		observed, _ := time.Parse(time.RFC3339, at(item, "/observed_at"))
		all = append(all, Evidence{at(item, "/source"), at(item, "/version"), at(item, "/url"), observed})
	}
	return all
}

// Effect is the write that the action asks for, by what its tenant declares of the operation.
func (s *Snapshot) Effect(t *config.Tenant) ledger.EffectRequest {
	op := t.Operation(s.Connector, s.Operation)
	return ledger.EffectRequest{ActionType: s.ActionType, Connector: s.Connector, Operation: s.Operation, TargetSystem: s.TargetSystem,
		TargetRecord: s.TargetRecord, Stage: s.Stage, InOrder: op != nil && op.InOrder}
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
