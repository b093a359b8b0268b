package policy

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// Codes of findings: a closed list.
const (
	FindingNeverMatches    = "never_matches"    // the condition is false, or an error, whatever is proposed
	FindingNeverDecides    = "never_decides"    // something stricter always stands beside the rule
	FindingRepeated        = "repeated"         // another rule says the same
	FindingSettled         = "settled"          // a comparison that the schema has decided already
	FindingUnknownField    = "unknown_field"    // the schema has no such field
	FindingManyKinds       = "many_kinds"       // the schema lets in more than one kind that the function takes
	FindingUnreadField     = "unread_field"     // an auto rule lets a field pass that no rule reads
	FindingUnreadThreshold = "unread_threshold" // no rule reads it
	FindingExpired         = "expired"          // the evaluation that the rule relies on has run out
)

// Finding is something about a policy that is most often a mistake, and does not keep it from being used.
type Finding struct {
	Pos     config.Position
	Tenant  string
	RuleID  string // "" where no rule is meant
	Action  string // an action type, "" where none is meant
	Code    string
	Message string // what is the matter, and what to do
}

// Check looks for rules that can never fire and for declarations that nothing reads, in the order of the files. It says
// nothing that is not certain: a condition is looked into as far as the declarations of its action types and their
// schemas go. Its error is New's.
func Check(tenant *config.Tenant) ([]Finding, error) {
	e, err := New(tenant)
	if err != nil {
		return nil, err
	}
	c := &checker{tenant: tenant, engine: e, verdicts: map[*rule]map[string]verdict{}, schemas: map[string]schema{}}
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	for _, a := range tenant.Actions {
		c.schemas[a.Type] = readSchema(a.Schema)
	}
	for _, r := range e.rules {
		c.verdicts[r] = map[string]verdict{}
		for _, name := range c.actionsOf(r) {
			if c.verdicts[r][name], err = foretell(env, r, e.actions[name]); err != nil {
				return nil, fmt.Errorf("rule %s of tenant %s: %w", r.ID, tenant.ID, err)
			}
		}
	}
	for i, r := range e.rules {
		c.checkRule(i, r)
	}
	for _, a := range tenant.Actions {
		c.checkAction(a)
	}
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return c.found, nil
}

// Warn logs what Check finds. A tenant whose policy cannot be used is left to New.
func Warn(log *slog.Logger, tenant *config.Tenant) {
	found, err := Check(tenant)
	if err != nil {
		return
	}
	for _, f := range found {
		log.Warn("policy: "+f.Message, "tenant", f.Tenant, "code", f.Code, "rule", f.RuleID, "action", f.Action,
			"at", f.Pos.String())
	}
}

type checker struct {
	tenant   *config.Tenant
	engine   *Engine
	verdicts map[*rule]map[string]verdict // of each rule, by action type
	schemas  map[string]schema            // by action type
	found    []Finding
}

func (c *checker) add(r *rule, at config.Position, code, format string, args ...any) {
	c.found = append(c.found, Finding{Pos: at, Tenant: c.tenant.ID, RuleID: r.ID, Code: code,
		Message: "rule " + r.ID + " " + fmt.Sprintf(format, args...)})
}

// actionsOf are the types that a rule is for, in the order of the file.
func (c *checker) actionsOf(r *rule) []string {
	var types []string
	for _, a := range c.tenant.Actions {
		if r.Action == "*" || r.Action == a.Type {
			types = append(types, a.Type)
		}
	}
	return types
}

// verdict is what a condition comes to before anything is proposed.
type verdict int

const (
	depends verdict = iota // on the proposal
	always
	never
	fails
)

// foretell evaluates a rule with everything unknown but the declaration of the action type.
func foretell(env *cel.Env, r *rule, a *action) (verdict, error) {
	program, err := env.Program(r.ast, cel.CustomDecoratorV2(strictly), cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return depends, err
	}
	known := map[string]any{}
	for name, value := range a.registered {
		known[name] = value
	}
	var unknown []*cel.AttributePatternType
	for _, name := range readable(env) {
		if _, ok := known[name]; !ok {
			unknown = append(unknown, cel.AttributePattern(name))
		}
	}
	vars, err := cel.PartialVars(known, unknown...)
	if err != nil {
		return depends, err
	}
	value, _, err := program.Eval(vars)
	switch {
	case err != nil:
		return fails, nil //nolint:nilerr // that it fails is the answer
	case value == ref.Val(types.True):
		return always, nil
	case value == ref.Val(types.False):
		return never, nil
	}
	return depends, nil
}

// is reports whether a rule comes to the same for every action type of the list.
func (c *checker) is(v verdict, r *rule, actions []string) bool {
	return len(actions) > 0 && !slices.ContainsFunc(actions, func(name string) bool { return c.verdicts[r][name] != v })
}

func (c *checker) checkRule(index int, r *rule) {
	actions := c.actionsOf(r)
	switch {
	case c.is(never, r, actions):
		c.add(r, r.Pos, FindingNeverMatches, "can never match: its condition is false whatever is proposed; "+
			"take it out, or mend it")
	case c.is(fails, r, actions):
		c.add(r, r.Pos, FindingNeverMatches, "can never be evaluated, so that all it is for goes to a person "+
			"or stricter; mend it")
	default:
		c.checkRivals(index, r, actions)
	}
	if r.Exception != nil && !time.Now().Before(r.Exception.Until) {
		c.add(r, r.Pos, FindingExpired, "lets nothing act: evaluation %s was good until %s; name a newer one", r.Exception.Evaluation,
			r.Exception.Until.UTC().Format(time.RFC3339))
	}
	c.checkBuiltIns(r, actions)
	c.checkReads(r, actions)
	c.checkComparisons(r, actions)
}

// checkRivals looks for another rule beside which this one never decides. Of all that match the strictest stands, so
// the order of the rules does not matter.
func (c *checker) checkRivals(index int, r *rule, actions []string) {
	for i, other := range c.engine.rules {
		if i == index || !covers(other, r) {
			continue
		}
		same := strings.TrimSpace(other.When) == strings.TrimSpace(r.When)
		switch {
		case Stricter(other.Route, r.Route) && c.is(always, other, actions):
			c.add(r, r.Pos, FindingNeverDecides, "can never decide: rule %s always matches as well, and its route "+
				"%s is stricter than %s",
				other.ID, other.Route, r.Route)
			return
		case Stricter(other.Route, r.Route) && same:
			c.add(r, r.Pos, FindingNeverDecides, "can never decide: rule %s has the same condition, and its route "+
				"%s is stricter than %s",
				other.ID, other.Route, r.Route)
			return
		case other.Route == r.Route && same && (i < index || r.Action != other.Action):
			c.add(r, r.Pos, FindingRepeated, "repeats rule %s, which has the same condition and route; take one of "+
				"them out", other.ID)
			return
		}
	}
}

// covers reports whether a rule is for all action types that another is for.
func covers(a, b *rule) bool { return a.Action == "*" || a.Action == b.Action }

// checkBuiltIns looks for auto rules that the built-in checks never let decide.
func (c *checker) checkBuiltIns(r *rule, actions []string) {
	if r.Route != config.RouteAuto {
		return
	}
	for _, name := range actions {
		if c.engine.actions[name].Reversible {
			return
		}
	}
	if len(actions) > 0 {
		c.add(r, r.Pos, FindingNeverDecides, "can never decide: %s cannot be undone, and so goes to a person "+
			"whatever the rules say", strings.Join(actions, ", "))
	}
}

// checkAction looks for what an action type declares and no rule reads.
func (c *checker) checkAction(a *config.Action) {
	ready := c.engine.actions[a.Type]
	read := map[string][]path{}
	auto := false
	for _, r := range ready.rules {
		auto = auto || r.Route == config.RouteAuto
		for _, one := range readsOf(r.ast.NativeRep()) {
			read[one.root] = append(read[one.root], one.path)
		}
	}
	wholeRead := func(root string) bool {
		return slices.ContainsFunc(read[root], func(p path) bool { return len(p.names) == 0 })
	}
	if wholeRead("thresholds") || len(ready.rules) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.Thresholds)) {
		if !slices.ContainsFunc(read["thresholds"], func(p path) bool { return p.names[0] == name }) {
			c.found = append(c.found, Finding{Pos: a.Pos(), Tenant: c.tenant.ID, Action: a.Type, Code: FindingUnreadThreshold,
				Message: fmt.Sprintf("no rule reads thresholds.%s, which action %s declares; use it, or take it out",
					name, a.Type)})
		}
	}
	if auto && a.Reversible {
		c.checkFields(a, ready, read[changeRoot])
	}
}

// checkFields looks for fields that can be anything while an auto rule says yes. A field counts as read where a rule
// reads it, a part of it or what it is part of.
func (c *checker) checkFields(a *config.Action, ready *action, read []path) {
	at := ready.rules[slices.IndexFunc(ready.rules, func(r *rule) bool { return r.Route == config.RouteAuto })].Pos
	for _, field := range c.schemas[a.Type].fields() {
		if slices.ContainsFunc(read, func(p path) bool { return within(p.names, field) || within(field, p.names) }) {
			continue
		}
		c.found = append(c.found, Finding{Pos: at, Tenant: c.tenant.ID, Action: a.Type, Code: FindingUnreadField,
			Message: fmt.Sprintf("an auto rule may let %s.%s of action %s be anything: no rule of the type reads it",
				changeRoot, strings.Join(field, "."), a.Type)})
	}
}

// within reports whether a path begins with another.
func within(outer, inner []string) bool {
	return len(outer) <= len(inner) && slices.Equal(outer, inner[:len(outer)])
}
