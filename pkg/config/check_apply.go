package config

import (
	"fmt"
	"slices"
	"time"
)

// soon is how long before a check is too old it is warned of.
const soon = 30 * 24 * time.Hour

// Warning is something in the files that is no mistake, and that whoever runs them should know.
type Warning struct {
	Tenant string
	Pos    Position
	Msg    string
}

// String is file:line:column: message.
func (w Warning) String() string { return w.Pos.String() + ": " + w.Msg }

func (d *declared) warn(at Position, format string, args ...any) {
	d.loader.warnings = append(d.loader.warnings, Warning{d.ID, at, fmt.Sprintf(format, args...)})
}

// applyChecks has only that of every declaration count which checks.yaml bears out (D13). Ages are taken once, when the files are
// read: no service begins to do something else at midnight because of a date.
func (d *declared) applyChecks() {
	for _, c := range d.Connectors {
		places := d.operationPlaces(c)
		for i, op := range c.Operations {
			d.applyCheck(c, op, places[i])
		}
	}
	for _, check := range d.Checks {
		if c := d.connector(check.Connector); c == nil || c.operation(check.Operation) == nil {
			d.warn(d.places[check].pos, "connectors.yaml declares no operation %s of %s, so this counts for nothing; take it away",
				check.Operation, check.Connector)
		}
	}
}

// operationPlaces is where each operation of a connector is written, or the connector, where that is not in its file.
func (d *declared) operationPlaces(c *Connector) []Position {
	again := *d.places[c]
	again.problems = new(problems) // what is wrong has been said
	parts := again.objects("operations")
	places := make([]Position, len(c.Operations))
	for i := range places {
		places[i] = again.pos
		if len(parts) == len(places) {
			places[i] = parts[i].pos
		}
	}
	return places
}

func (d *declared) applyCheck(c *Connector, op *Operation, at Position) {
	sum, err := digestOf(op)
	if err != nil {
		d.loader.add(at, "operation %s cannot be written as JSON, of which its check is: %v", op.Name, err)
		return
	}
	s := &Standing{Digest: sum}
	check := d.check(c.ID, op.Name)
	for _, name := range declaredBy(op) {
		claim := d.judgeClaim(c, op, check, sum, name)
		s.Claims = append(s.Claims, claim)
		if !claim.Counts() {
			d.warn(at, "%s", doesNotCount(d.ID, c, op, claim))
		} else if !claim.Until.IsZero() && claim.Until.Sub(d.loader.now) <= soon {
			d.warn(at, "%s of operation %s counts until %s: from then on, a start takes it for not declared; %s", name, op.Name,
				claim.Until.UTC().Format(time.DateOnly), remedy(d.ID, c, op, claim.Capability))
		}
	}
	op.Standing = s
	if d.loader.trusting {
		return
	}
	for _, claim := range s.Claims {
		if !claim.Counts() {
			op.withdraw(claim.Capability)
		}
	}
}

// check is what checks.yaml has of an operation, or nil.
func (d *declared) check(connector, operation string) *Check {
	i := slices.IndexFunc(d.Checks, func(c *Check) bool { return c.Connector == connector && c.Operation == operation })
	if i < 0 {
		return nil
	}
	return d.Checks[i]
}

// judgeClaim says whether a capability counts. A lookup whose absence is declared to be proof needs the lookup itself proved as well.
func (d *declared) judgeClaim(c *Connector, op *Operation, check *Check, sum, capability string) Claim {
	claim := Claim{Capability: capability}
	switch {
	case check == nil:
		claim.Why = "checks.yaml has no check of it"
		return claim
	case check.Digest != sum:
		claim.Why = "the declaration has changed since it was checked"
		return claim
	}
	goodFor := d.ChecksGoodFor
	if c.ChecksGoodFor != nil {
		goodFor = *c.ChecksGoodFor
	}
	claim.Why = "its check did not prove it"
	if p := check.Proved; p != nil && slices.Contains(p.Capabilities, capability) {
		claim.rest(GroundProved, p.CheckedAt, goodFor, d.loader.now)
	}
	if a := check.Attested; a != nil && !claim.Counts() && slices.Contains(a.Capabilities, capability) && !disproved(check, capability) {
		claim.rest(GroundAttested, a.At, goodFor, d.loader.now)
	}
	return claim
}

// disproved reports whether a check that came after the attestation did not prove what that says: who still answers for it says so
// again.
func disproved(c *Check, capability string) bool {
	return c.Proved != nil && !slices.Contains(c.Proved.Capabilities, capability) && !c.Attested.At.After(c.Proved.CheckedAt)
}

// rest has a claim count on a ground that is not too old.
func (c *Claim) rest(ground string, since time.Time, goodFor time.Duration, now time.Time) {
	c.Since = since
	if goodFor > 0 {
		c.Until = since.Add(goodFor)
	}
	if goodFor > 0 && !now.Before(c.Until) {
		c.Why = fmt.Sprintf("it was %s on %s, which is too old (checks_good_for)", ground, since.UTC().Format(time.DateOnly))
		return
	}
	c.Ground, c.Why = ground, ""
}

func doesNotCount(tenant string, c *Connector, op *Operation, claim Claim) string {
	effect := "it is taken for not declared"
	if !permits(claim.Capability) {
		effect = "nothing is relied on by it"
	}
	return fmt.Sprintf("%s of operation %s of %s does not count: %s, so %s; %s", claim.Capability, op.Name, c.ID, claim.Why, effect,
		remedy(tenant, c, op, claim.Capability))
}

// remedy is the command that makes a capability count.
func remedy(tenant string, c *Connector, op *Operation, capability string) string {
	if c.Kind != "" && c.Kind != ConnectorHTTP {
		return fmt.Sprintf("who answers for it attests it: holdpoint connector attest --tenant %s --connector %s --operation %s "+
			"--capability %s", tenant, c.ID, op.Name, capability)
	}
	return fmt.Sprintf("prove it: holdpoint connector check --tenant %s --connector %s --operation %s --write", tenant, c.ID, op.Name)
}

// unproven says which of what an action's operation declares would let it act unattended and does not count, "" where nothing is declared (P6).
func (d *declared) unproven(a *Action) string {
	c := d.connector(a.Connector)
	op, text := c.operation(a.Operation), ""
	for _, claim := range op.claims() {
		if !claim.Counts() && (claim.Capability == CapabilityReplay || claim.Capability == CapabilityLookup) {
			text += "; " + doesNotCount(d.ID, c, op, claim)
		}
	}
	return text
}

func (op *Operation) claims() []Claim {
	if op.Standing == nil {
		return nil
	}
	return op.Standing.Claims
}
