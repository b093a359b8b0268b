package config

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// checksFile holds what is known of the connectors' promises; samplesDir what `holdpoint connector check` writes to prove them.
const (
	checksFile = "checks.yaml"
	samplesDir = "samples"
)

// defaultGoodFor is how long a check counts: systems change what they do, and tell few.
const defaultGoodFor = 365 * 24 * time.Hour

// lasting is how long checks count.
var lasting = shape{regexp.MustCompile(`^(none|[1-9][0-9]{0,3}d)$`), "none, or a number of days such as 365d"}

// readGoodFor is nil where nothing is written, and 0 where checks never grow too old.
func readGoodFor(o *object) *time.Duration {
	text := o.optID("checks_good_for", lasting)
	if text == "" {
		return nil
	}
	days, _ := strconv.Atoi(strings.TrimSuffix(text, "d"))
	span := time.Duration(days) * 24 * time.Hour
	return &span
}

// goodForOf is how long checks of a tenant count, unless a connector says otherwise.
func goodForOf(o *object) time.Duration {
	if written := readGoodFor(o); written != nil {
		return *written
	}
	return defaultGoodFor
}

func (d *declared) readChecks(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("checks") {
		c := &Check{Connector: part.id("connector", slug), Operation: part.id("operation", word), Digest: part.id("digest", digest),
			Proved: readProof(part), Attested: readAttestation(part)}
		unique(seen, part, "operation", c.name())
		part.close()
		d.places[c] = part
		d.Checks = append(d.Checks, c)
	}
}

// name is how a check is told from others.
func (c *Check) name() string {
	if c.Connector == "" || c.Operation == "" {
		return ""
	}
	return c.Connector + "." + c.Operation
}

func readProof(o *object) *Proof {
	part := o.object("proved")
	if part == nil {
		return nil
	}
	p := &Proof{CheckedAt: part.time("checked_at"), Target: part.text("target"), Tool: part.text("tool"),
		Capabilities: part.choices("capabilities", Capabilities), IndexLag: part.optDuration("index_lag")}
	part.close()
	return p
}

func readAttestation(o *object) *Attestation {
	part := o.object("attested")
	if part == nil {
		return nil
	}
	a := &Attestation{By: part.text("by"), At: part.time("at"), How: part.text("how"),
		Capabilities: part.choices("capabilities", Capabilities)}
	part.close()
	return a
}
