package config_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// fuzzed are the files of a tenant that are read as YAML.
var fuzzed = []string{"tenant.yaml", "sources.yaml", "actions.yaml", "policy.yaml", "connectors.yaml", "people.yaml", "checks.yaml"}

// FuzzLoad looks for a file that ends the loader with anything but a configuration or a list of what to mend, each with its
// place. Whoever edits a file by hand leaves it broken in every way there is.
func FuzzLoad(f *testing.F) {
	example := newWorld(f).fs
	beside := maps.Clone(example) // schemas and prompts, without the other files: a load of all takes a hundred times as long
	for _, file := range fuzzed {
		delete(beside, demo+file)
	}
	for i, file := range fuzzed {
		good := string(example[demo+file].Data)
		f.Add(uint8(i), good)
		f.Add(uint8(i), good[:len(good)/2])
	}
	for i, seed := range []string{"", "a", "[]", "- ", "{", "a: &x *x", "<<: *a", "? a\n: b", "!!binary x", "---\n---", "a: |\n", "\x00", "\xff",
		"%YAML 9\n---\na: 1", "a: b: c", "- - -", "{a: {b: [", "a:\n\t- b", "? {a: b}\n: c", "~: 1", "1: 2", "[a]: b", "a: !<x", "\ufeffa: 1"} {
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		file := demo + fuzzed[int(which)%len(fuzzed)]
		files := maps.Clone(beside)
		files[file] = &fstest.MapFile{Data: []byte(text)}
		cfg, err := config.LoadEnv(files, func(string) (string, bool) { return "", false })
		require.Error(t, err, "the tenant's other files are missing")
		require.Nil(t, cfg)
		lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
		require.Regexp(t, `^the configuration cannot be used, \d+ to mend:$`, lines[0])
		require.Regexp(t, `^tenants/demo/[a-z/.-]+(:\d+:\d+)?: .`, lines[1])
	})
}
