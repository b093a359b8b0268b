package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// guarantee is one line of the map.
type guarantee struct {
	ID       string    `yaml:"id"`
	Text     string    `yaml:"text"`
	Status   string    `yaml:"status,omitempty"` // "planned", or empty: kept
	Tests    []test    `yaml:"tests,omitempty"`
	Mutation *mutation `yaml:"mutation,omitempty"`
}

// test names one test or subtest, as in "TestClaim/TheSecondIsADuplicate".
type test struct {
	Package string `yaml:"package"`
	Run     string `yaml:"run"`
}

// mutation is one line of source that keeps the promise, and what breaks it.
type mutation struct {
	File    string `yaml:"file"`
	Find    string `yaml:"find"`
	Replace string `yaml:"replace"`
}

// families is how many guarantees each letter has. Lines are added, never renumbered.
var families = map[string]int{"K": 15, "M": 6, "P": 10, "A": 18, "D": 17, "R": 9, "B": 7, "O": 9}

func load(file string) ([]guarantee, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all struct {
		Guarantees []guarantee `yaml:"guarantees"`
	}
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s:\n%s", file, yaml.FormatError(err, false, true))
	}
	return all.Guarantees, nil
}

// check says what is missing, unknown, or names what does not exist.
func check(guarantees []guarantee) error {
	var problems []error
	seen := map[string]bool{}
	for _, g := range guarantees {
		if seen[g.ID] {
			problems = append(problems, fmt.Errorf("%s is there twice", g.ID))
		}
		seen[g.ID] = true
		for _, p := range g.problems() {
			if p != nil {
				problems = append(problems, fmt.Errorf("%s: %w", g.ID, p))
			}
		}
	}
	known := 0
	for family, n := range families {
		for i := 1; i <= n; i++ {
			if id := fmt.Sprintf("%s%d", family, i); !seen[id] {
				problems = append(problems, fmt.Errorf("%s is missing", id))
			} else {
				known++
			}
		}
	}
	if known != len(seen) {
		problems = append(problems, fmt.Errorf("%d ids are unknown", len(seen)-known))
	}
	return errors.Join(problems...)
}

func (g guarantee) problems() []error {
	if g.Text == "" {
		return []error{errors.New("no text")}
	}
	switch {
	case g.Status == "planned" && (len(g.Tests) > 0 || g.Mutation != nil):
		return []error{errors.New("planned, but with tests or a mutation")}
	case g.Status == "planned":
		return nil
	case g.Status != "":
		return []error{fmt.Errorf("status %q; allowed: planned", g.Status)}
	case len(g.Tests) == 0 || g.Mutation == nil:
		return []error{errors.New("a kept guarantee names its tests and one mutation that they catch")}
	}
	var problems []error
	for _, t := range g.Tests {
		problems = append(problems, t.exists())
	}
	return append(problems, g.Mutation.applies())
}

// exists looks for the test function, and for each subtest's name, in the package's test files.
func (t test) exists() error {
	files, err := filepath.Glob(filepath.Join(strings.TrimPrefix(t.Package, "./"), "*_test.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("package %s has no tests", t.Package)
	}
	var source strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		source.Write(text)
	}
	parts := strings.Split(t.Run, "/")
	if !regexp.MustCompile(`func ` + regexp.QuoteMeta(parts[0]) + `\(t `).MatchString(source.String()) {
		return fmt.Errorf("package %s has no test %s", t.Package, parts[0])
	}
	for _, name := range parts[1:] {
		if !strings.Contains(source.String(), `"`+name+`"`) {
			return fmt.Errorf("test %s of package %s has no case %q", parts[0], t.Package, name)
		}
	}
	return nil
}

// applies checks that the mutation changes exactly one place.
func (m mutation) applies() error {
	text, err := os.ReadFile(m.File)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), m.Find); n != 1 {
		return fmt.Errorf("the mutation's text is in %s %d times, want once: %q", m.File, n, m.Find)
	}
	if m.Find == m.Replace {
		return errors.New("the mutation changes nothing")
	}
	return nil
}
