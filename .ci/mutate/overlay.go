package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// patience of one mutation's tests. A mutation that makes them hang is caught too: go test ends them with a failure.
const patience = 3 * time.Minute

// mutate runs the named tests over the broken source: the first by itself, because it is most often the one that catches the
// mutation, then the others. Nil means that one of them failed, as it must.
func mutate(ctx context.Context, dir string, g guarantee) error {
	overlay, err := writeOverlay(dir, g)
	if err != nil {
		return err
	}
	first := test{g.Tests[0].Package, anchored(g.Tests[0].Run)}
	for _, t := range append([]test{first}, byPackage(g.Tests[1:])...) {
		caught, err := fails(ctx, overlay, t)
		if err != nil || caught {
			return err
		}
	}
	return fmt.Errorf("the tests pass with %s broken: %q -> %q", g.Mutation.File, g.Mutation.Find, g.Mutation.Replace)
}

func writeOverlay(dir string, g guarantee) (string, error) {
	original, err := filepath.Abs(g.Mutation.File)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	broken := filepath.Join(dir, g.ID+"-"+filepath.Base(original))
	if err := os.WriteFile(broken, bytes.Replace(text, []byte(g.Mutation.Find), []byte(g.Mutation.Replace), 1), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: broken}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, g.ID+".json")
	return file, os.WriteFile(file, overlay, 0o600)
}

// byPackage joins the tests of one package, so that it is built once.
func byPackage(tests []test) []test {
	var joined []test
	index := map[string]int{}
	for _, t := range tests {
		pattern := anchored(t.Run)
		if i, ok := index[t.Package]; ok {
			joined[i].Run += "|" + pattern
			continue
		}
		index[t.Package] = len(joined)
		joined = append(joined, test{t.Package, pattern})
	}
	return joined
}

// anchored is a -run pattern for exactly this test.
func anchored(run string) string {
	parts := strings.Split(run, "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	return strings.Join(parts, "/")
}

func fails(ctx context.Context, overlay string, t test) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Minute)
	defer cancel()
	// Vet has looked at the source already, and nobody debugs these binaries: both would take a third of the time.
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-count=1", "-failfast", "-timeout", patience.String(), "-run", t.Run, t.Package)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return false, fmt.Errorf("no test of %s matches %s", t.Package, t.Run)
	case err == nil:
		return false, nil
	case !errors.As(err, &exit):
		return false, err
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return false, fmt.Errorf("the mutation does not compile:\n%s", out)
	}
	return true, nil
}
