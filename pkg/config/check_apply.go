package config

import (
	"fmt"
	"slices"
	"strings"
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
		s.Claims = append(s.Claims, d.judgeClaim(c, check, sum, name))
	}
	op.Standing = s
	d.warnOf(c, op, at)
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

// judgeClaim says whether a capability counts.
func (d *declared) judgeClaim(c *Connector, check *Check, sum, capability string) Claim {
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

// warnOf says which of an operation's capabilities do not count, and which soon will not: those that anything is done on the strength
// of, together where it is for the same reason.
func (d *declared) warnOf(c *Connector, op *Operation, at Position) {
	var reasons []string
	names := map[string][]string{}
	for _, claim := range op.Standing.Claims {
		reason := ""
		switch {
		case !permits(claim.Capability):
		case !claim.Counts():
			reason = fmt.Sprintf("not counted, because %s; until then it is taken for not declared", claim.Why)
		case !claim.Until.IsZero() && claim.Until.Sub(d.loader.now) <= soon:
			reason = fmt.Sprintf("counted until %s; after that, a start takes it for not declared", claim.Until.UTC().Format(time.DateOnly))
		}
		if reason == "" {
			continue
		}
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], claim.Capability)
	}
	for _, reason := range reasons {
		d.warn(at, "what operation %s of %s declares of %s is %s. %s", op.Name, c.ID, strings.Join(names[reason], ", "), reason,
			remedy(d.ID, c, op, names[reason]))
	}
}

// remedy is the command that makes capabilities count.
func remedy(tenant string, c *Connector, op *Operation, capabilities []string) string {
	if c.Kind != "" && c.Kind != ConnectorHTTP {
		return fmt.Sprintf("Who answers for it attests it: holdpoint connector attest --tenant %s --connector %s --operation %s "+
			"--capability %s", tenant, c.ID, op.Name, strings.Join(capabilities, ","))
	}
	return fmt.Sprintf("Prove it: holdpoint connector check --tenant %s --connector %s --operation %s --write", tenant, c.ID, op.Name)
}

// unproven says which of what an action's operation declares would let it act unattended and does not count, "" where nothing is declared (P6).
func (d *declared) unproven(a *Action) string {
	c := d.connector(a.Connector)
	op, text := c.operation(a.Operation), ""
	var lacking []string
	for _, claim := range op.claims() {
		if !claim.Counts() && (claim.Capability == CapabilityReplay || claim.Capability == CapabilityLookup) {
			text += fmt.Sprintf("; its %s is declared, and not counted because %s", claim.Capability, claim.Why)
			lacking = append(lacking, claim.Capability)
		}
	}
	if text != "" {
		text += ". " + remedy(d.ID, c, op, lacking)
	}
	return text
}

func (op *Operation) claims() []Claim {
	if op.Standing == nil {
		return nil
	}
	return op.Standing.Claims
}
