package config

import (
	"slices"
	"strconv"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Bounds and defaults of a source. The largest body is what a NATS server carries by default, since one limit holds on
// both ways in.
const (
	defaultMaxBytes = 256 << 10
	largestMaxBytes = 1 << 20

	defaultLease       = time.Minute
	defaultMaxLifetime = 15 * time.Minute
	defaultTries       = 5
)

func (d *declared) readSources(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("sources") {
		s := &Source{
			ID:            part.id("id", slug),
			Mode:          part.oneOf("mode", ModeInline, ModeWorker),
			MaxBytes:      int64(part.number("max_bytes", defaultMaxBytes, 1, largestMaxBytes)),
			Proposal:      part.pointer("proposal"),
			CorrelationID: part.pointer("correlation_id"),
			Requester:     part.pointer("requester"),
			Link:          part.pointer("link"),
			Corrects:      part.pointer("corrects"),
			Attempts:      part.number("attempts", defaultTries, 1, 100),
		}
		s.Schema = d.schema(part, false)
		s.Lease = readLease(part)
		s.Rules = readSourceRules(part)
		s.Signature = readSignature(part, s.Rules)
		s.Proposer = d.readProposer(part, s)
		s.Agent = d.readAgent(part, s)
		if s.Mode == ModeWorker && s.Proposal != "" {
			part.fail("proposal", "is for mode %s; in mode %s the worker submits it", ModeInline, ModeWorker)
		}
		unique(seen, part, "id", s.ID)
		part.close()
		d.places[s] = part
		d.Sources = append(d.Sources, s)
	}
}

func readLease(o *object) Lease {
	part := o.object("lease")
	if part == nil {
		return Lease{defaultLease, defaultMaxLifetime}
	}
	lease := Lease{part.duration("duration", defaultLease), part.duration("max_lifetime", defaultMaxLifetime)}
	if lease.Duration > lease.MaxLifetime {
		part.fail("duration", "is %s, which must not be longer than max_lifetime, %s", lease.Duration, lease.MaxLifetime)
	}
	part.close()
	return lease
}

// readSourceRules holds the versions in ascending order: the last is active and all others stay readable (K15).
func readSourceRules(o *object) []*SourceRules {
	var rules []*SourceRules
	var versions []int
	for _, part := range o.objects("rules") {
		r := &SourceRules{Version: part.number("version", 0, 1, 1<<30)}
		switch {
		case r.Version == 0:
			part.fail("version", "is missing; versions count up from 1")
		case len(versions) > 0 && r.Version <= versions[len(versions)-1]:
			part.fail("version", "is %d after %d; versions must ascend, and the last one is active",
				r.Version, versions[len(versions)-1])
		}
		r.Key = readKey(part)
		r.Hash = readHash(part)
		r.OverlapWith = part.number("overlap_with", 0, 0, 1<<30)
		if r.OverlapWith != 0 && !slices.Contains(versions, r.OverlapWith) {
			part.fail("overlap_with", "is %d, which must be an earlier version of this source", r.OverlapWith)
		}
		versions = append(versions, r.Version)
		part.close()
		rules = append(rules, r)
	}
	if len(rules) == 0 && len(o.items("rules")) == 0 {
		o.fail("rules", "is missing; it must list at least one version with key and hash")
	}
	return rules
}

func readKey(o *object) KeyRule {
	part := o.needObject("key")
	k := KeyRule{
		Header:     part.optID("header", header),
		CloudEvent: part.optFlag("cloud_event"),
		Pointers:   part.pointers("pointers"),
		CEL:        part.optText("cel"),
	}
	forms := 0
	for _, set := range []bool{k.Header != "", k.CloudEvent, len(k.Pointers) > 0, k.CEL != ""} {
		if set {
			forms++
		}
	}
	if forms != 1 {
		part.problems.add(part.pos, "key must have exactly one of header, cloud_event, pointers, cel; it has %d", forms)
	}
	if k.CEL != "" {
		checkKeyExpression(part, k.CEL)
	}
	part.close()
	return k
}

// NewKeyEnv is the environment of key expressions: `body` with numbers as their exact decimal text, and `headers` under
// their lower-case names.
func NewKeyEnv() (*cel.Env, error) {
	return cel.NewEnv(cel.Variable("body", cel.DynType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)))
}

// checkKeyExpression compiles the expression in the environment that KeyRule documents.
func checkKeyExpression(o *object, expression string) {
	env, err := NewKeyEnv()
	if err != nil {
		o.fail("cel", "cannot be checked: %v", err)
		return
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		o.fail("cel", "is not valid: %v", issues.Err())
		return
	}
	if out := ast.OutputType(); !out.IsExactType(cel.StringType) && !out.IsExactType(cel.DynType) {
		o.fail("cel", "yields %s, but a key is a string; write string(%s)", out, strconv.Quote(expression))
	}
}

func readHash(o *object) HashRule {
	part := o.object("hash")
	if part == nil {
		return HashRule{}
	}
	h := HashRule{Include: part.pointers("include"), Exclude: part.pointers("exclude")}
	if _, err := canonical.NewSelection(h.Include, h.Exclude); err != nil {
		part.problems.add(part.pos, "hash: %v", err)
	}
	part.close()
	return h
}
