package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const checksHeader = `# What is known of the connectors' promises (D13). A promise counts only as it stands here, and only for exactly the declaration of
# which this is the digest: review a change of it like any other. It is written by "holdpoint connector check --write", which
# exercises what is declared, and by "holdpoint connector attest", for what cannot be exercised.
`

// ChecksFile is where a tenant's checks are in a configuration directory.
func ChecksFile(dir, tenant string) string { return filepath.Join(dir, tenantsDir, tenant, checksFile) }

// SampleFile is where the samples of an operation are in a configuration directory.
func SampleFile(dir, tenant, connector, operation string) string {
	return filepath.Join(dir, tenantsDir, tenant, samplesDir, connector+"."+operation+".json")
}

// FormatChecks is the text of a checks.yaml: the same for the same checks, whatever their order.
func FormatChecks(checks []*Check) []byte {
	sorted := slices.Clone(checks)
	slices.SortFunc(sorted, func(a, b *Check) int {
		return cmp.Or(cmp.Compare(a.Connector, b.Connector), cmp.Compare(a.Operation, b.Operation))
	})
	var b strings.Builder
	b.WriteString(checksHeader)
	if len(sorted) == 0 {
		b.WriteString("checks: []\n")
		return []byte(b.String())
	}
	b.WriteString("checks:\n")
	for _, c := range sorted {
		c.format(&b)
	}
	return []byte(b.String())
}

func (c *Check) format(b *strings.Builder) {
	fmt.Fprintf(b, "  - connector: %s\n    operation: %s\n    digest: %s\n", c.Connector, c.Operation, strconv.Quote(c.Digest))
	if p := c.Proved; p != nil {
		fmt.Fprintf(b, "    proved:\n      checked_at: %s\n      target: %s\n      tool: %s\n", instant(p.CheckedAt), strconv.Quote(p.Target),
			strconv.Quote(p.Tool))
		if p.IndexLag > 0 {
			fmt.Fprintf(b, "      index_lag: %s\n", p.IndexLag)
		}
		fmt.Fprintf(b, "      capabilities: [%s]\n", strings.Join(ordered(p.Capabilities), ", "))
	}
	if a := c.Attested; a != nil {
		fmt.Fprintf(b, "    attested:\n      by: %s\n      at: %s\n      how: %s\n      capabilities: [%s]\n", strconv.Quote(a.By),
			instant(a.At), strconv.Quote(a.How), strings.Join(ordered(a.Capabilities), ", "))
	}
}

// ordered are capabilities in the order in which they are shown.
func ordered(names []string) []string {
	return slices.DeleteFunc(slices.Clone(Capabilities), func(name string) bool { return !slices.Contains(names, name) })
}

func instant(at time.Time) string { return at.UTC().Truncate(time.Second).Format(time.RFC3339) }
