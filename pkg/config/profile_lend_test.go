package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatAProfileLendsStandsWhereItIsNamed is about a profile that is wrong, as none is that is shipped: an operator has no such file.
func TestWhatAProfileLendsStandsWhereItIsNamed(t *testing.T) {
	t.Parallel()
	all := new(problems)
	part := parseYAML(all, "connectors.yaml", []byte("id: a\nprofile: crm\n"))
	lent := lend(part, "# comment\n\ntimeout: [a]\nbackoff:\n  base: |\n    x\noperations:\n  - {name: 7, body: {a: 0x10}}\n  - x\n")
	lent.duration("timeout", 1)
	readBackoff(lent)
	for _, op := range lent.objects("operations") {
		op.id("name", word)
		op.tree("body")
	}
	lent.close()
	require.Len(t, all.list, 5)
	for _, one := range all.list {
		require.Equal(t, Position{"connectors.yaml", 2, 10}, one.Pos, one.Msg)
	}

	require.Nil(t, lend(part, "a: [b"))
	require.ErrorContains(t, all.join(), "connectors.yaml:2:10: profile cannot be read: ")
}

// TestTheVersionOfAConfigurationIsAlsoThatOfItsProfiles: another release of Holdpoint may ship another profile of the name.
func TestTheVersionOfAConfigurationIsAlsoThatOfItsProfiles(t *testing.T) {
	t.Parallel()
	version := func(released string) string {
		l := &loader{files: map[string][]byte{}}
		d := &declared{Tenant: &Tenant{}, loader: l, places: map[any]*object{}}
		d.withProfile(parseYAML(&l.problems, "connectors.yaml", []byte("id: a\nprofile: crm\n")))
		require.Contains(t, l.files, "profiles/crm.yaml")
		l.files["profiles/crm.yaml"] = append(l.files["profiles/crm.yaml"], released...)
		return l.version()
	}
	require.NotEqual(t, version(""), version("# of the next release"))
}
