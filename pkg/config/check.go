package config

import (
	"slices"
	"time"
)

// What an operation can declare of which something depends (D13). Each counts only where checks.yaml has it as proved by a
// `holdpoint connector check` of exactly this declaration, or attested by a person.
const (
	CapabilityReplay      = "replay"      // a repeated key gives the first result, and writes once
	CapabilityMismatch    = "mismatch"    // a key with another payload is refused, with the declared code
	CapabilityLookup      = "lookup"      // what was written is found under its id, and what was not is not
	CapabilityConclusive  = "conclusive"  // absence after the declared lag is proof (R2, R8)
	CapabilityConditional = "conditional" // a wrong expected version is refused, and changes nothing
	CapabilityRead        = "read"        // the target's version and values are read; nothing is relied on without it
)

// Capabilities are all of them, in the order in which they are shown.
var Capabilities = []string{CapabilityReplay, CapabilityMismatch, CapabilityLookup, CapabilityConclusive, CapabilityConditional,
	CapabilityRead}

// Check is what checks.yaml says of one operation of a connector: what was proved of it by exercising it, and what a person answers
// for.
type Check struct {
	Connector, Operation string
	Digest               string // of the declaration that it is about, 64 hexadecimal digits; see Standing
	Proved               *Proof
	Attested             *Attestation
}

// Proof is the result of a `holdpoint connector check`.
type Proof struct {
	CheckedAt    time.Time
	Target       string        // scheme and host that were called
	Tool         string        // the program's version
	Capabilities []string      // what passed; what is declared and not here did not
	IndexLag     time.Duration // the longest after a write that the lookup did not find it; 0: it was found at the first look
}

// Attestation is a person's word for what cannot be exercised from here, such as what an executor's program does.
type Attestation struct {
	By           string
	At           time.Time
	How          string // how the person knows
	Capabilities []string
}

// Grounds on which a capability counts.
const (
	GroundProved   = "proved"
	GroundAttested = "attested"
)

// Standing is what of an operation's declaration counts, as the loader found when it read the files.
type Standing struct {
	Digest string  // hex SHA-256 of all that the declaration says, the connector's address excepted
	Claims []Claim // of what is declared, in the order of Capabilities
}

// Claim is one capability that an operation declares.
type Claim struct {
	Capability string
	Ground     string    // GroundProved or GroundAttested; "" where it does not count
	Since      time.Time // of the check or the attestation
	Until      time.Time // when that is too old to count; zero is for ever
	Why        string    // why it does not count, "" where it does
}

// Counts reports whether the capability may be relied on.
func (c Claim) Counts() bool { return c.Ground != "" }

// declaredBy are the capabilities that an operation declares, in the order of Capabilities.
func declaredBy(op *Operation) []string {
	declares := map[string]bool{
		CapabilityReplay:      op.Replays,
		CapabilityMismatch:    op.KeyReusedCode != "",
		CapabilityLookup:      op.Lookup != nil,
		CapabilityConclusive:  op.Lookup != nil && op.Lookup.Conclusive,
		CapabilityConditional: op.Conditional != nil,
		CapabilityRead:        op.Read != nil,
	}
	return slices.DeleteFunc(slices.Clone(Capabilities), func(name string) bool { return !declares[name] })
}

// withdraw makes an operation one that does not declare the capability. What only makes a write safer is still sent: the key, and
// the expected version. A code that means a mismatch is an alert and no permission, and a read permits nothing: they stay.
func (op *Operation) withdraw(capability string) {
	switch capability {
	case CapabilityReplay:
		op.Replays = false
	case CapabilityLookup:
		op.Lookup = nil
	case CapabilityConclusive:
		if op.Lookup != nil {
			op.Lookup.Conclusive = false
		}
	case CapabilityConditional:
		op.Conditional.Unproved = true
	}
}

// permits reports whether anything is done on the strength of the capability.
func permits(capability string) bool {
	return capability != CapabilityMismatch && capability != CapabilityRead
}

// Counts reports whether an update is known to be made at one version of its target alone, so that a second one does no harm.
func (c *Conditional) Counts() bool { return c != nil && !c.Unproved }
