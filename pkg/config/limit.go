package config

import (
	"strings"
	"time"
)

// Limit bounds how much of an action type may be authorized within a time that moves along (P8). An intent that a rule would let
// act by itself goes to a person where it would go over. What a person approves is counted, and is not stopped by it.
type Limit struct {
	ID     string
	Window time.Duration
	Count  int          // largest number of intents; 0 bounds none
	Amount *AmountLimit // nil bounds none
	// Per are JSON pointers into the action, its target and proposed_change: each combination of their values has a limit of its
	// own. Empty is one limit for all intents of the type.
	Per []string
}

// AmountLimit bounds the sum of what a member of the action holds.
type AmountLimit struct {
	Pointer string // into the action, such as /proposed_change/amount; a number, or a text that is a plain decimal
	Max     string // exact decimal
}

// maxLimitCount is beyond what any installation authorizes in a window.
const maxLimitCount = 1_000_000_000

func readLimits(o *object) []Limit {
	var limits []Limit
	seen := map[string]Position{}
	for _, part := range o.objects("limits") {
		l := Limit{ID: part.id("id", slug), Window: part.duration("window", 0), Count: part.number("count", 0, 1, maxLimitCount)}
		if amount := part.object("amount"); amount != nil {
			l.Amount = &AmountLimit{Pointer: amount.inAction("pointer"), Max: amount.decimal("max")}
			amount.close()
		}
		if part.take("count") == nil && part.take("amount") == nil {
			part.fail("id", "bounds nothing: give the limit a count, an amount, or both")
		}
		l.Per = part.texts("per", func(at Position, text string) { part.checkInAction(at, "per", text) })
		unique(seen, part, "id", l.ID)
		part.close()
		limits = append(limits, l)
	}
	return limits
}

// inAction is a required pointer into an action.
func (o *object) inAction(name string) string {
	text := o.text(name)
	if text != "" {
		o.checkInAction(o.at(name), name, text)
	}
	return text
}

func (o *object) checkInAction(at Position, name, text string) {
	if !strings.HasPrefix(text, "/target/") && !strings.HasPrefix(text, "/proposed_change/") {
		o.problems.add(at, "%s: %s must begin with /target/ or /proposed_change/: it points into the action", name, quote(text))
		return
	}
	o.checkPointer(at, name, text)
}

// decimal is a required exact decimal, taken as it is written.
func (o *object) decimal(name string) string { return o.exact(name, decimal) }

func (o *object) exact(name string, s shape) string {
	node := o.take(name)
	if node == nil {
		o.fail(name, "is missing; it must be %s", s.words)
		return ""
	}
	text, ok := scalarText(node)
	if !ok || !s.pattern.MatchString(text) {
		o.fail(name, "must be %s, found %s", s.words, describe(node))
	}
	return text
}

// PlainDecimal reports whether a text is an exact decimal as limits and thresholds have them, such as 100.00.
func PlainDecimal(text string) bool { return decimal.pattern.MatchString(text) }
